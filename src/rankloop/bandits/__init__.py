"""Choosing one of a few ads when almost nobody clicks: rankers, policies, and policies from logs."""

from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankloop.bandits.auc_policy import AUCPolicy
    from rankloop.bandits.auc_ranker import AUCRanker
    from rankloop.bandits.campaigns.baselines import fit_cost_sensitive, fit_forest, fit_logistic
    from rankloop.bandits.campaigns.campaign import Campaign
    from rankloop.bandits.policies import EpsilonGreedy, LinearScorer, Softmax, Thompson, Uniform
    from rankloop.bandits.policy_evaluation import evaluate_policies, evaluate_saved_policy
    from rankloop.bandits.saved_policy import load_policy, save_policy
    from rankloop.bandits.stream_ranker import StreamingAUCRanker
    from rankloop.bandits.thresholds import threshold
    from rankloop.bandits.train import AdLog, ad_log, fit_rankers, fit_resampled, fit_thresholds, train_policy

# Imported when first used: the registry imports this package to list its learners, most commands need no more.
_HOMES = {
    "auc_policy": ("AUCPolicy",),
    "auc_ranker": ("AUCRanker",),
    "campaigns.baselines": ("fit_cost_sensitive", "fit_forest", "fit_logistic"),
    "campaigns.campaign": ("Campaign",),
    "policies": ("EpsilonGreedy", "LinearScorer", "Softmax", "Thompson", "Uniform"),
    "policy_evaluation": ("evaluate_policies", "evaluate_saved_policy", "policy_rows"),
    "saved_policy": ("load_policy", "save_policy"),
    "stream_ranker": ("StreamingAUCRanker",),
    "thresholds": ("threshold",),
    "train": ("AdLog", "ad_log", "fit_rankers", "fit_resampled", "fit_thresholds", "train_policy"),
}
_HOME = {name: (f"rankloop.bandits.{module}", name) for module, names in _HOMES.items() for name in names}
_HOME |= {  # names of 0.1
    "Taught": ("rankloop.bandits.train", "TrainedPolicy"),
    "teach": ("rankloop.bandits.train", "train_policy"),
    "trained_policy": ("rankloop.bandits.train", "TrainedPolicy.policy"),
    "judge": ("rankloop.bandits.policy_evaluation", "evaluate_policies"),
    "plot_judgement": ("rankloop.evaluation.report", "plot_report"),
    "verdict": ("rankloop.evaluation.report", "verdict"),
    "verdicts": ("rankloop.evaluation.report", "verdicts"),
}
__all__ = [
    "AUCPolicy",
    "AUCRanker",
    "AdLog",
    "Campaign",
    "EpsilonGreedy",
    "LinearScorer",
    "Softmax",
    "StreamingAUCRanker",
    "Thompson",
    "Uniform",
    "ad_log",
    "evaluate_policies",
    "evaluate_saved_policy",
    "fit_cost_sensitive",
    "fit_forest",
    "fit_logistic",
    "fit_rankers",
    "fit_resampled",
    "fit_thresholds",
    "load_policy",
    "save_policy",
    "threshold",
    "train_policy",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rankloop.bandits' has no attribute {name!r}")
    module, attribute = _HOME[name]
    return attrgetter(attribute)(import_module(module))

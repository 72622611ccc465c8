"""Choosing one of a few ads when almost nobody clicks: rankers, policies, logs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankloop.bandits.auc_policy import AUCPolicy
    from rankloop.bandits.auc_ranker import AUCRanker
    from rankloop.bandits.campaigns.baselines import fit_cost_sensitive, fit_forest, fit_logistic
    from rankloop.bandits.campaigns.campaign import Campaign
    from rankloop.bandits.log_report import judge, teach
    from rankloop.bandits.policies import EpsilonGreedy, LinearScorer, Softmax, Thompson, Uniform
    from rankloop.bandits.scorer import AdLog, ad_log, fit_rankers, fit_resampled, fit_thresholds
    from rankloop.bandits.stream_ranker import StreamingAUCRanker
    from rankloop.bandits.thresholds import threshold

# Imported when first used: the registry imports this package to list its learners, most commands need no more.
_HOMES = {
    "auc_policy": ("AUCPolicy",),
    "auc_ranker": ("AUCRanker",),
    "campaigns.baselines": ("fit_cost_sensitive", "fit_forest", "fit_logistic"),
    "campaigns.campaign": ("Campaign",),
    "log_report": ("judge", "teach"),
    "policies": ("EpsilonGreedy", "LinearScorer", "Softmax", "Thompson", "Uniform"),
    "stream_ranker": ("StreamingAUCRanker",),
    "thresholds": ("threshold",),
    "scorer": ("AdLog", "ad_log", "fit_rankers", "fit_resampled", "fit_thresholds"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
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
    "fit_cost_sensitive",
    "fit_forest",
    "fit_logistic",
    "fit_rankers",
    "fit_resampled",
    "fit_thresholds",
    "judge",
    "teach",
    "threshold",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"rankloop.bandits.{_HOME[name]}"), name)
    raise AttributeError(f"module 'rankloop.bandits' has no attribute {name!r}")

"""Choosing one of a few ads when almost nobody clicks: rankers, policies, and policies from logs."""

from rankloop.bandits.auc_policy import AUCPolicy
from rankloop.bandits.auc_ranker import AUCRanker
from rankloop.bandits.campaign import Campaign
from rankloop.bandits.policies import EpsilonGreedy, LinearScorer, Softmax, Thompson, Uniform
from rankloop.bandits.saved_policy import load_policy, save_policy
from rankloop.bandits.stream_ranker import StreamingAUCRanker
from rankloop.bandits.thresholds import threshold
from rankloop.bandits.train import (
    AdLog,
    TrainedPolicy,
    ad_log,
    fit_rankers,
    fit_resampled,
    fit_thresholds,
    train_policy,
)

__all__ = ["AUCPolicy", "AUCRanker", "AdLog", "Campaign", "EpsilonGreedy", "LinearScorer", "Softmax"]
__all__ += ["StreamingAUCRanker", "Thompson", "TrainedPolicy", "Uniform", "ad_log"]
__all__ += ["fit_rankers"]
__all__ += ["fit_resampled", "fit_thresholds", "load_policy", "save_policy", "threshold"]
__all__ += ["train_policy"]

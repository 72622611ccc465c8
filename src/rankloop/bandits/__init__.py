"""Choosing one of a few ads where clicks are rare: AUC rankers, thresholds, policies, and training from logs."""

from rankloop.bandits.auc_policy import AUCPolicy, threshold
from rankloop.bandits.auc_ranker import AUCRanker
from rankloop.bandits.campaign import Campaign
from rankloop.bandits.policies import EpsilonGreedy, LinearScorer, Softmax, Uniform
from rankloop.bandits.train import TrainedPolicy, load_policy

__all__ = ["AUCPolicy", "AUCRanker", "Campaign", "EpsilonGreedy", "LinearScorer", "Softmax", "TrainedPolicy", "Uniform"]
__all__ += ["load_policy", "threshold"]

"""Choosing one of a few ads where clicks are rare: AUC rankers, thresholds, policies, and training from logs."""

from rankloop.bandits.ad_log import AdLog, ad_log
from rankloop.bandits.auc_policy import AUCPolicy, threshold
from rankloop.bandits.auc_ranker import AUCRanker
from rankloop.bandits.campaign import Campaign
from rankloop.bandits.policies import EpsilonGreedy, LinearScorer, Softmax, Uniform
from rankloop.bandits.train import TrainedPolicy, fit_policy, fit_rankers, fit_thresholds, load_policy, save_policy

__all__ = ["AUCPolicy", "AUCRanker", "AdLog", "Campaign", "EpsilonGreedy", "LinearScorer", "Softmax"]
__all__ += ["TrainedPolicy", "Uniform", "ad_log", "fit_policy", "fit_rankers"]
__all__ += ["fit_thresholds", "load_policy", "save_policy", "threshold"]

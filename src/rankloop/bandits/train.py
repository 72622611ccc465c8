"""From a log of shown ads and clicks to a policy: a ranker and a threshold per ad."""

import dataclasses
from typing import Literal, NamedTuple

import numpy as np

from rankloop.bandits.ad_log import AdLog
from rankloop.bandits.auc_ranker import AUCRanker
from rankloop.bandits.policies import NEVER_CLICKED_THRESHOLD, EpsilonGreedy, LinearScorer
from rankloop.bandits.thresholds import Criterion, threshold
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of
from rankloop.core.types import Floats, finite_floats
from rankloop.logs.context import Encoding

TIE_BREAK = 1e-9  # is added to the score of an ad with click rate 1; less in proportion
CRITERION: Literal["click_rate"] = "click_rate"  # is stable for ads with few clicks


def fit_rankers(log: AdLog, ranker: AUCRanker | None = None, criterion: Criterion = "f1") -> LinearScorer:
    """Fit a ranker and its threshold for each ad, from the rows in which it was shown.

    An ad without any click stands last; one that was always clicked gets weights of 0. Ads of equal score stand by
    their click rates.

    Args:
      log: The shown ads and what they earned.
      ranker: The settings of the rankers; the default is `AUCRanker()`.
      criterion: What the thresholds maximise, see `threshold`.

    Returns:
      Weights and threshold of each ad.
    """
    recipe = ranker or AUCRanker()
    weights = np.zeros((log.n_ads, log.contexts.shape[1]))
    for ad in range(log.n_ads):
        rows = log.ads == ad
        clicked = log.rewards[rows] > 0
        if clicked.any() and not clicked.all():
            weights[ad] = dataclasses.replace(recipe).fit(log.contexts[rows], clicked).coef_
    return LinearScorer(weights, fit_thresholds(log, weights, criterion))


def fit_thresholds(log: AdLog, weights: Floats, criterion: Criterion = "f1") -> Floats:
    """Fit the threshold of each ad for existing rankers.

    Args:
      log: The shown ads and what they earned.
      weights: One row per ad.
      criterion: What the thresholds maximise, see `threshold`.

    Returns:
      One threshold per ad.

    Raises:
      InvalidInput: If there is not one row of weights per ad.
    """
    thresholds, weights = np.full(log.n_ads, NEVER_CLICKED_THRESHOLD), finite_floats(weights, 2, "weights")
    if weights.shape != (log.n_ads, log.contexts.shape[1]):
        raise InvalidInput(f"weights must be of shape {(log.n_ads, log.contexts.shape[1])}, got {weights.shape}")
    for ad in range(log.n_ads):
        rows = log.ads == ad
        clicked = log.rewards[rows] > 0
        if clicked.any():
            scores = scores_of(log.contexts[rows], weights[ad])
            thresholds[ad] = threshold(scores, clicked, criterion) - TIE_BREAK * float(clicked.mean())
    return thresholds


class TrainedPolicy(NamedTuple):
    """A policy that was trained on a log, with everything needed to save it and to use it on another log."""

    encoding: Encoding
    scorer: LinearScorer
    log: AdLog  # the rows that it was trained on
    epsilon: float = 0.0
    seed: int = 0

    @property
    def policy(self) -> EpsilonGreedy:
        """The policy of the rankers, with its exploration."""
        return EpsilonGreedy(scorer=self.scorer, epsilon=self.epsilon)


def fit_policy(
    log: AdLog, encoding: Encoding, *, epsilon: float = 0.0, ranker: AUCRanker | None = None, seed: int = 0
) -> TrainedPolicy:
    """Fit a policy to the rows of a log.

    Args:
      log: The rows.
      encoding: Which ad and which column each number of the rows stands for.
      epsilon: The probability to explore.
      ranker: The settings of the rankers; the default is `AUCRanker()`.
      seed: Of the session that serves the policy.

    Returns:
      The policy.
    """
    return TrainedPolicy(encoding, fit_rankers(log, ranker, CRITERION), log, epsilon, seed)

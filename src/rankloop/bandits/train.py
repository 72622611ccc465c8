"""From a log of shown ads and clicks to a policy: a ranker and a threshold per ad."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.random import Generator

from rankloop.bandits.ad_log import AdLog, training_rows
from rankloop.bandits.auc_ranker import AUCRanker
from rankloop.bandits.policies import NEVER, EpsilonGreedy, LinearScorer
from rankloop.bandits.policy_evaluation import RewardModel, evaluate_policies, fit_reward_model
from rankloop.bandits.thresholds import Criterion, threshold
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of
from rankloop.core.types import Floats, finite_floats
from rankloop.evaluation.report import Report
from rankloop.logs.context import Encoding
from rankloop.logs.context_columns import encoding_of
from rankloop.logs.table import LogTable

TIE_BREAK = 1e-9  # what a click rate of 1 adds to a score
CRITERION: Literal["click_rate"] = "click_rate"  # steady where an ad has few clicks
TRAINED_POLICY = "trained policy"  # its name in reports


def fit_rankers(log: AdLog, ranker: AUCRanker | None = None, criterion: Criterion = "f1") -> LinearScorer:
    """Fit a ranker and its threshold for each ad, from the rows in which it was shown.

    An ad without any click stands last; one that was always clicked has nothing to rank by. Ads of the same score stand
    by their click rates.

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
    """Fit the threshold of each ad for rankers that are already there, one row of `weights` per ad."""
    thresholds, weights = np.full(log.n_ads, NEVER), finite_floats(weights, 2, "weights")
    if weights.shape != (log.n_ads, log.contexts.shape[1]):
        raise InvalidInput(f"weights must be of shape {(log.n_ads, log.contexts.shape[1])}, got {weights.shape}")
    for ad in range(log.n_ads):
        rows = log.ads == ad
        clicked = log.rewards[rows] > 0
        if clicked.any():
            scores = scores_of(log.contexts[rows], weights[ad])
            thresholds[ad] = threshold(scores, clicked, criterion) - TIE_BREAK * float(clicked.mean())
    return thresholds


def fit_resampled(
    log: AdLog, rng: Generator, n: int = 20, ranker: AUCRanker | None = None, criterion: Criterion = "f1"
) -> list[LinearScorer]:
    """Fit `n` scorers, each from a resample of the rows with replacement: the beliefs of `Thompson`."""
    rows = len(log.ads)
    draws = ((rng.random(rows) * rows).astype(np.int64) for _ in range(n))
    return [fit_rankers(log.take(drawn), ranker, criterion) for drawn in draws]


class TrainedPolicy(NamedTuple):
    """A policy that was trained on a log, with what is needed to save it and to use it on another log.

    It prints as the table of what it would earn on the rows that it was not trained on.
    """

    encoding: Encoding
    scorer: LinearScorer
    log: AdLog  # the rows that it was trained on
    model: RewardModel | None = None
    epsilon: float = 0.0
    seed: int = 0
    report: Report | None = None  # None: every row was for training

    @property
    def policy(self) -> EpsilonGreedy:
        """The policy of the rankers, with its exploration."""
        return EpsilonGreedy(scorer=self.scorer, epsilon=self.epsilon)

    def __str__(self) -> str:
        if self.report is None:
            return f"{len(self.log.ads):,} rows to learn from, {self.log.n_ads} ads\n{self.encoding.described}"
        return str(self.report)

    def to_json(self) -> str:
        """Return the ads, the columns and the estimates as JSON."""
        plain = {"ads": self.encoding.ads, "columns": self.encoding.columns, "epsilon": self.epsilon}
        if self.report is not None:
            plain |= self.report.to_plain()
        return msgspec.json.encode(plain).decode()


def train_policy(
    log: LogTable,
    *,
    epsilon: float = 0.0,
    share: float = 0.5,
    ranker: AUCRanker | None = None,
    context: Sequence[str] | None = None,
    without: Sequence[str] = (),
    features: Sequence[str] = (),
    seed: int = 0,
    watch: Callable[[int], None] = lambda rows: None,
) -> TrainedPolicy:
    """Train a policy on a random part of a log of single choices, and estimate it on the other rows.

    Args:
      log: The log: an ad, a reward and a propensity per row, and columns that describe the visitor.
      epsilon: With which probability the policy explores.
      share: The share of the rows that train, of at most half a million; with 1 there is no estimate.
      ranker: The settings of the rankers; the default is `AUCRanker()`.
      context: The columns that describe the visitor; by default all that have no other role.
      without: Columns that do not.
      features: Columns that are context even if they look like ids, times or outcomes.
      seed: Draws the rows that train.
      watch: Called with the number of rows that the estimate has read.

    Returns:
      The policy and its estimate.

    Raises:
      InvalidInput: If the log shows one ad only, or if no row to learn from was rewarded.
    """
    encoding = encoding_of(log.pieces(), context, without, features)
    if len(encoding.ads) < 2:
        raise InvalidInput(f"{log.name} shows only the ad {encoding.ads[0]!r}; there is nothing to choose")
    rows = training_rows(log, encoding, seed, share)
    if not (rows.rewards > 0).any():
        raise InvalidInput(
            f"{log.name}: none of the {len(rows.ads):,} rows to learn from was rewarded; the log is too small to "
            "train a policy, let alone to tell how good it is"
        )
    trained = TrainedPolicy(
        encoding=encoding,
        scorer=fit_rankers(rows, ranker, CRITERION),
        log=rows,
        model=fit_reward_model(rows),
        epsilon=epsilon,
        seed=seed,
    )
    if share >= 1.0:
        return trained
    policies = {TRAINED_POLICY: trained.policy}
    return trained._replace(report=evaluate_policies(log, encoding, policies, seed=seed, share=share, watch=watch))

"""From a log of shown ads and clicks to a scorer: a ranker and a threshold per ad."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from rankloop.bandits.auc_ranker import AUCRanker
from rankloop.bandits.policies import NEVER, LinearScorer
from rankloop.bandits.thresholds import Criterion, threshold
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of
from rankloop.core.types import Floats, Ints, finite_floats, item_indices, whole_number

MAX_CONTEXT = 1e100  # squares and sums of numbers up to this stay finite
TIE = 1e-9  # what a click rate of 1 adds to a score


class AdLog(NamedTuple):
    """What was shown to whom, and what came of it; ads count from 0."""

    contexts: Floats  # (n, n_context)
    ads: Ints
    rewards: Floats
    propensities: Floats  # with which the ad was shown
    n_ads: int

    def take(self, rows: ArrayLike) -> AdLog:
        """The log of these rows (a mask or numbers)."""
        chosen = np.asarray(rows)
        shown = self.contexts[chosen], self.ads[chosen]
        return AdLog(*shown, self.rewards[chosen], self.propensities[chosen], self.n_ads)


def joined(logs: Sequence[AdLog]) -> AdLog:
    """Logs of the same ads one after another."""
    contexts, ads = np.concatenate([log.contexts for log in logs]), np.concatenate([log.ads for log in logs])
    rewards = np.concatenate([log.rewards for log in logs])
    return AdLog(contexts, ads, rewards, np.concatenate([log.propensities for log in logs]), logs[0].n_ads)


def ad_log(
    contexts: ArrayLike, ads: ArrayLike, rewards: ArrayLike, propensities: ArrayLike | None = None, n_ads: int = 0
) -> AdLog:
    """Check and copy what comes from outside; without propensities every ad had the same."""
    people, shown = finite_floats(contexts, 2, "contexts"), item_indices(ads, "ads")
    earned = finite_floats(rewards, 1, "rewards")
    n_ads = whole_number(n_ads, "n_ads", 0) or int(shown.max(initial=-1)) + 1
    uniform = np.full(len(shown), 1.0 / max(n_ads, 1))
    logged = uniform if propensities is None else finite_floats(propensities, 1, "propensities")
    if people.shape[1] == 0:
        raise InvalidInput("contexts have no features: there is nothing to choose an ad by")
    if np.abs(people).max(initial=0.0) > MAX_CONTEXT:
        raise InvalidInput(f"contexts have numbers beyond {MAX_CONTEXT:g}, which cannot be scaled")
    if not len(people) == len(shown) == len(earned) == len(logged):
        raise InvalidInput("contexts, ads, rewards and propensities differ in length")
    impossible = np.flatnonzero((logged <= 0.0) | (logged > 1.0))
    if len(impossible):
        raise InvalidInput(
            f"row {impossible[0]}: the propensity is {logged[impossible[0]]}; what was shown had one above 0, at most 1"
        )
    if len(shown) == 0 or shown.min() < 0 or shown.max() >= n_ads:
        raise InvalidInput(f"ads are numbers from 0 to {n_ads - 1}, at least one row of them")
    return AdLog(people, shown, earned, logged, n_ads)


def fit_rankers(log: AdLog, ranker: AUCRanker | None = None, criterion: Criterion = "f1") -> LinearScorer:
    """A ranker and its threshold for each ad, from the rows in which it was shown.

    An ad without any click stands last; one that was always clicked has nothing to rank by. Ads of the same score stand
    by their click rates.
    """
    recipe = ranker or AUCRanker()
    weights = np.zeros((log.n_ads, log.contexts.shape[1]))
    for ad in range(log.n_ads):
        own = log.ads == ad
        clicked = log.rewards[own] > 0
        if clicked.any() and not clicked.all():
            weights[ad] = dataclasses.replace(recipe).fit(log.contexts[own], clicked).coef_
    return LinearScorer(weights, fit_thresholds(log, weights, criterion))


def fit_thresholds(log: AdLog, weights: Floats, criterion: Criterion = "f1") -> Floats:
    """The threshold of each ad for rankers that are already there, one row of `weights` per ad."""
    found, weights = np.full(log.n_ads, NEVER), finite_floats(weights, 2, "weights")
    if weights.shape != (log.n_ads, log.contexts.shape[1]):
        raise InvalidInput(f"weights must be of shape {(log.n_ads, log.contexts.shape[1])}, got {weights.shape}")
    for ad in range(log.n_ads):
        own = log.ads == ad
        clicked = log.rewards[own] > 0
        if clicked.any():
            scores = scores_of(log.contexts[own], weights[ad])
            found[ad] = threshold(scores, clicked, criterion) - TIE * float(clicked.mean())
    return found


def fit_resampled(
    log: AdLog, rng: Generator, n: int = 20, ranker: AUCRanker | None = None, criterion: Criterion = "f1"
) -> list[LinearScorer]:
    """`n` scorers, each from a resample of the rows with replacement: the beliefs of `Thompson`."""
    rows = len(log.ads)
    draws = ((rng.random(rows) * rows).astype(np.int64) for _ in range(n))
    return [fit_rankers(log.take(drawn), ranker, criterion) for drawn in draws]

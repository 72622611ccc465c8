"""Rankings from scores, their seen part, and the gains and discounts that measures and surrogates share."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from rankloop.core.kernels import kernel, scores_of
from rankloop.core.types import Floats, Ints

ALL = -1  # how a state writes "every position is seen"
COUNTED = 400  # up to this many items, counting who stands above whom beats sorting


@kernel
def ranking_of(scores: Floats) -> Ints:
    """Items by descending score; ties by item number, so that a ranking is a function of its scores."""
    n_items = len(scores)
    if n_items > COUNTED or not _finite(scores):
        return np.argsort(-scores, kind="mergesort")
    positions = np.zeros(n_items, np.int64)
    for item in range(n_items):
        score, n_above = scores[item], np.int64(0)
        for earlier in range(item):  # no branches, so it runs in vectors
            above = np.int64(scores[earlier] >= score)
            n_above += above
            positions[earlier] += 1 - above
        positions[item] = n_above
    ranking = np.empty(n_items, np.int64)
    for item in range(n_items):
        ranking[positions[item]] = item
    return ranking


@kernel
def _finite(scores: Floats) -> bool:
    total = 0.0
    for score in scores:
        total += 0.0 * score
    return total == 0.0


@kernel
def best_ranking(features: Floats, weights: Floats) -> Ints:
    """Items by descending features · weights: scores and sort in one call."""
    return ranking_of(scores_of(features, weights))


@kernel
def seen_count(shown: int, n_items: int) -> int:
    """How many of n_items positions are seen; a negative `shown` means all."""
    if shown < 0 or shown > n_items:
        return n_items
    return shown


@kernel
def point_log_prob(best: Ints, ranking: Ints, shown: int) -> float:
    """0 when the seen part of `ranking` is that of `best`, the only one ever shown; else −infinity."""
    for position in range(seen_count(shown, len(best))):
        if best[position] != ranking[position]:
            return -np.inf
    return 0.0


@kernel
def positions_of(ranking: Ints) -> Ints:
    """The inverse permutation: where each item stands."""
    positions = np.empty(len(ranking), np.int64)
    for position in range(len(ranking)):
        positions[ranking[position]] = position
    return positions


@kernel
def is_permutation(ranking: Ints, n_items: int) -> bool:
    if len(ranking) != n_items:
        return False
    seen = np.zeros(n_items, np.bool_)
    for item in ranking:
        if item < 0 or item >= n_items or seen[item]:
            return False
        seen[item] = True
    return True


def random_ranking(n_items: int, rng: Generator) -> Ints:
    """A uniform ranking from exactly n_items doubles."""
    return ranking_of(rng.random(n_items))


@kernel
def discount(position: int) -> float:
    """1 / log₂(position + 2), the DCG discount; positions count from 0."""
    value: float = 1.0 / np.log2(position + 2.0)
    return value


@kernel
def exponential_gain(grade: float) -> float:
    """2^grade − 1."""
    gain: float = 2.0**grade - 1.0
    return gain


def discounts(n_positions: int, cutoff: int | None = None) -> Floats:
    """The DCG discounts of the first n_positions positions, 0 from the cutoff on."""
    values: Floats = 1.0 / np.log2(np.arange(n_positions) + 2.0)
    if cutoff is not None:
        values[cutoff:] = 0.0
    return values

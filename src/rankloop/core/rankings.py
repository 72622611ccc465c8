"""Rankings from scores, and the gains and discounts that measures and surrogates share."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints

SMALL = 48  # below this an insertion sort beats the merge sort


@kernel
def ranking_of(scores: Floats) -> Ints:
    """Items by descending score; ties by item number, so that a ranking is a function of its scores."""
    n_items = len(scores)
    if n_items > SMALL:
        return np.argsort(-scores, kind="mergesort")
    ranking = np.empty(n_items, np.int64)
    for item in range(n_items):
        place = item
        while place > 0 and scores[ranking[place - 1]] < scores[item]:
            ranking[place] = ranking[place - 1]
            place -= 1
        ranking[place] = item
    return ranking


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
    """The DCG discounts of the first n_positions places, 0 from the cutoff on."""
    values: Floats = 1.0 / np.log2(np.arange(n_positions) + 2.0)
    if cutoff is not None:
        values[cutoff:] = 0.0
    return values

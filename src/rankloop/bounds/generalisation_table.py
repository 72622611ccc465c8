"""Every bound of the theory on one data set: which apply, what they say, and from how many queries on they say it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rankloop.bounds.generalisation import (
    Constants,
    chapelle_wu,
    constants_of,
    online_to_batch,
    queries_needed,
    rerm,
    smooth_online,
    smooth_uniform,
    uniform,
    uniform_l1,
)
from rankloop.core.errors import InvalidInput
from rankloop.data.dataset import Dataset


class Sample(NamedTuple):
    """What the bounds need to know of a data set; `widest` is the largest absolute feature."""

    n_queries: int
    n_items: int
    n_features: int
    longest: float
    widest: float
    max_grade: float


class Row(NamedTuple):
    """A bound at the size of the data set; it means something when it is below the largest loss."""

    name: str
    applies_to: str
    handles_nonconvex: bool
    value: float
    largest: float
    queries_needed: float

    @property
    def meaningful(self) -> bool:
        return self.value < self.largest


def sample_of(dataset: Dataset) -> Sample:
    if dataset.n_queries == 0:
        raise InvalidInput("the data set has no queries")
    lengths = np.sqrt((dataset.features**2).sum(axis=1))
    widest, longest = np.abs(dataset.features).max(initial=0.0), lengths.max(initial=0.0)
    top = max(float(dataset.relevance.max(initial=0.0)), 1.0)
    return Sample(dataset.n_queries, int(dataset.sizes.max()), dataset.n_features, float(longest), float(widest), top)


def largest_loss(surrogate: str, sample: Sample, radius: float, longest: float) -> float:
    """B: the most that weights in the ball can cost; scores are at most W·R in absolute value."""
    reach = radius * longest
    if surrogate == "list_net":
        return math.log(sample.n_items) + 2.0 * reach
    if surrogate == "rank_svm":
        return sample.n_items**2 / 2.0 * (1.0 + 2.0 * reach)
    return math.exp2(sample.max_grade) - 1.0


def table(
    sample: Sample, surrogate: str = "list_net", *, radius: float = 1.0, delta: float = 0.05, training: float = 0.0
) -> list[Row]:
    """The bounds that apply to the surrogate; `training` is the training risk, which the smooth ones need."""
    known = constants_of(surrogate, sample.n_items, sample.max_grade)
    ball = largest_loss(surrogate, sample, radius, sample.longest)
    rows = _uniform_rows(sample, known, radius, delta, ball)
    if known.convex:
        rows = _convex_rows(sample, known, radius, ball) + rows
    if known.smoothness is not None:
        rows += _smooth_rows(sample, known.smoothness, radius, delta, ball, training)
    largest = largest_loss(surrogate, sample, radius, sample.widest)

    def l1(n: int) -> float:
        return uniform_l1(known.lipschitz, radius, sample.widest, n, sample.n_items, sample.n_features, largest, delta)

    return [*rows, _row("Theorem 40", "ERM, ‖w‖₁ ≤ W", True, l1, sample, largest)]


def _convex_rows(sample: Sample, known: Constants, radius: float, largest: float) -> list[Row]:
    size = (known.lipschitz, radius, sample.longest)
    return [
        _row("Theorem 35", "averaged online gradient", False, lambda n: online_to_batch(*size, n), sample, largest),
        _row("Theorem 36", "RERM", False, lambda n: rerm(*size, n), sample, largest),
    ]


def _uniform_rows(sample: Sample, known: Constants, radius: float, delta: float, largest: float) -> list[Row]:
    m, longest = sample.n_items, sample.longest

    def ours(n: int) -> float:
        return uniform(known.lipschitz, radius, longest, n, m, largest, delta)

    def theirs(n: int) -> float:
        return chapelle_wu(known.euclidean, radius, longest, n, m, delta)

    return [
        _row("Theorem 38", "ERM", True, ours, sample, largest),
        _row("Chapelle and Wu", "ERM", True, theirs, sample, largest),
    ]


def _smooth_rows(
    sample: Sample, smoothness: float, radius: float, delta: float, largest: float, training: float
) -> list[Row]:
    longest, m = sample.longest, sample.n_items

    def online(n: int) -> float:
        return smooth_online(smoothness, radius, longest, training, n)

    def excess(n: int) -> float:
        return smooth_uniform(smoothness, radius, longest, n, m, largest, delta, training) - training

    return [
        _row("Equation 4.8", "averaged online gradient, smooth", False, online, sample, largest),
        _row("Theorem 44", "ERM, smooth", True, excess, sample, largest),
    ]


def _row(
    name: str, applies_to: str, nonconvex: bool, bound: Callable[[int], float], sample: Sample, largest: float
) -> Row:
    return Row(name, applies_to, nonconvex, bound(sample.n_queries), largest, queries_needed(bound, largest))

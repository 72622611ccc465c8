"""Every bound of the theory on one data set: which apply, what they say, and from how many queries on they say it."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.data.dataset import Dataset
from research.bounds.generalisation import (
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


class Sample(NamedTuple):
    """Sizes of a data set that the bounds need; `widest` is the largest absolute feature."""

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
        """Return true if the bound is below the largest loss."""
        return self.value < self.largest


def sample_of(dataset: Dataset) -> Sample:
    """Return the sizes of a data set."""
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
    bounds, m, longest = constants_of(surrogate, sample.n_items, sample.max_grade), sample.n_items, sample.longest
    largest, largest_l1 = (largest_loss(surrogate, sample, radius, reach) for reach in (longest, sample.widest))
    ball, l1_ball = (bounds.lipschitz, radius, longest), (bounds.lipschitz, radius, sample.widest)
    euclidean = (bounds.euclidean, radius, longest)

    def row(name: str, applies_to: str, nonconvex: bool, bound: Callable[[int], float], below: float = largest) -> Row:
        return Row(name, applies_to, nonconvex, bound(sample.n_queries), below, queries_needed(bound, below))

    rows = []
    if bounds.convex:
        rows += [
            row("Theorem 35", "averaged online gradient", False, lambda n: online_to_batch(*ball, n)),
            row("Theorem 36", "RERM", False, lambda n: rerm(*ball, n)),
        ]
    rows += [
        row("Theorem 38", "ERM", True, lambda n: uniform(*ball, n, m, largest, delta)),
        row("Chapelle and Wu", "ERM", True, lambda n: chapelle_wu(*euclidean, n, m, delta, largest)),
    ]
    if bounds.smoothness is not None:
        smooth = (bounds.smoothness, radius, longest)
        online = "averaged online gradient, smooth"
        rows.append(row("Equation 4.8", online, False, lambda n: smooth_online(*smooth, training, n)))

        def excess(n: int) -> float:
            return smooth_uniform(*smooth, n, m, largest, delta, training) - training

        rows.append(row("Theorem 44", "ERM, smooth", True, excess))

    def l1(n: int) -> float:
        return uniform_l1(*l1_ball, n, m, sample.n_features, largest_l1, delta)

    return [*rows, row("Theorem 40", "ERM, ‖w‖₁ ≤ W", True, l1, largest_l1)]

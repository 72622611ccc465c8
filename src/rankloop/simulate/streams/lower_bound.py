"""An adversary against every learner: pairs of items of which the one that is ranked first is the worse."""

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_at_least
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints, Problem, Query
from rankloop.data.dataset import NO_CONTEXT

MAX_RATIO = 2**31  # radius / margin; its square is a number of features


@register("lower_bound")
class LowerBound:
    """Queries with two items ±`radius` · e_i, of which the one that is ranked first the first time is irrelevant.

    There are ⌊`radius`² / `margin`²⌋ queries, one after another and again from the first. A unit vector ranks them all
    with the margin, but a deterministic learner errs on each when it meets it first: this is the least loss on
    separable data. Draws nothing.

    Args:
      n_features: The number of features, at least that of the queries.
      radius: The length of the feature vectors.
      margin: The margin with which a unit vector ranks all queries.

    References:
      Chaudhuri (2016), Learning to Rank: Online Learning, Statistical Theory and Applications, Theorem 9.
    """

    n_features: int = 20
    radius: float = 1.0
    margin: float = 0.25

    def __post_init__(self) -> None:
        check_at_least(1, n_features=self.n_features)
        if not (0.0 < self.margin <= self.radius < math.inf):
            raise InvalidInput(f"0 < margin ≤ radius is needed, got margin {self.margin} and radius {self.radius}")
        if self.radius / self.margin > MAX_RATIO:
            raise InvalidInput(f"radius / margin must be at most {MAX_RATIO:,}, got {self.radius / self.margin:g}")
        if self.n_queries > self.n_features:
            raise InvalidInput(
                f"{self.n_queries} queries (radius² / margin²) need as many features, not {self.n_features}"
            )

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        margin, exponent = math.frexp(self.margin)  # both by the same power of two, so that no square overflows
        return math.floor(math.ldexp(self.radius, -exponent) ** 2 / margin**2)

    @property
    def problem(self) -> Problem:
        return Problem(n_features=self.n_features)

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Callable[[Ints], Floats]]]:
        grades: dict[int, Floats] = {}  # by query, fixed against the first ranking that is shown

        def relevance(ranking: Ints, i: int) -> Floats:
            return grades.setdefault(i, np.eye(2)[ranking[1]]).copy()

        while True:
            for i in range(self.n_queries):
                features = np.zeros((2, self.n_features))
                features[0, i], features[1, i] = self.radius, -self.radius
                yield Query(str(i), features, NO_CONTEXT), partial(relevance, i=i)

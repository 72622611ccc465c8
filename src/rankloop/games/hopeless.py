"""A stream on which nobody can learn: one of two distributions that the feedback cannot tell apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.protocols import Measure
from rankloop.core.rankings import random_ranking
from rankloop.core.registry import register
from rankloop.core.types import Floats, Problem, Query
from rankloop.games.indistinguishable import Twins, theorem_32, twins
from rankloop.measures.dcg import NDCG

BLOCK = 256  # rounds drawn at a time


@register("hopeless")
@dataclass(frozen=True, kw_only=True)
class Hopeless:
    """A fixed set of items whose best ranking cannot be learned from the grades of the first `depth` items.

    There are two distributions of relevances with the same chances of all grades on every `depth` items, but without a
    common best ranking by the measure; `which` of them is played. On at least one of the two, the regret of any learner
    grows linearly, by half the `gap` of the pair per round. `pair` is the widest one that a linear program finds, or
    that of Theorem 32 of Chaudhuri (2016). Items get random names in every run. Refuses what can be learned.
    """

    measure: Measure = NDCG()  # noqa: RUF009  frozen
    n_items: int = 3
    depth: int = 1
    max_grade: int = 1
    which: Literal["first", "second"] = "first"
    pair: Literal["widest", "theorem_32"] = "widest"

    def __post_init__(self) -> None:
        printed = (self.measure, self.n_items, self.depth, self.max_grade) == (NDCG(), 3, 1, 1)
        if self.pair == "theorem_32" and not printed:
            raise InvalidInput("the pair theorem_32 is one of nDCG with 3 items, grades 0 and 1, at depth 1")
        self.twins()

    @property
    def problem(self) -> Problem:
        return Problem(n_features=0, n_items=self.n_items, max_grade=self.max_grade)

    def twins(self) -> Twins:
        """Both distributions, and how much any ranking loses under them together."""
        if self.pair == "theorem_32":
            return theorem_32()
        return twins(self.measure, self.n_items, self.depth, self.max_grade)  # type: ignore[arg-type]  # hashable

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Floats]]:
        query = Query("", np.empty((self.n_items, 0)), np.empty(0))
        names = random_ranking(self.n_items, rng)
        while True:
            for grades in self._grades(names, rng, BLOCK):
                yield query, grades

    def relevances(self, rng: Generator, n: int) -> Floats:
        """The grades of the first n rounds, (n, n_items), drawn exactly as `rounds` does."""
        return self._grades(random_ranking(self.n_items, rng), rng, n)

    def _grades(self, names: np.ndarray[tuple[int], np.dtype[np.int64]], rng: Generator, n: int) -> Floats:
        pair = self.twins()
        probabilities = pair.first if self.which == "first" else pair.second
        outcomes = np.searchsorted(np.cumsum(probabilities)[:-1], rng.random(n), side="right")
        return np.ascontiguousarray(pair.relevances[outcomes][:, names], dtype=np.float64)

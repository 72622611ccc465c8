"""Fixed sets of items without features, whose grades vary from user to user."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import NotNegative, Probability, check_at_least, check_between
from rankloop.core.kernels import ranking_of
from rankloop.core.registry import register
from rankloop.core.statistics import normal_cdf
from rankloop.core.types import Floats, Problem, Query

ROUNDS_PER_DRAW = 256


@dataclass(frozen=True, kw_only=True)
class _BinaryGrades:
    """A fixed set with some relevant items; in every round each grade is wrong with the same probability."""

    n_items: int
    n_relevant: int

    def __post_init__(self) -> None:
        check_at_least(1, n_items=self.n_items)
        check_between(0, self.n_items, n_relevant=self.n_relevant)

    @property
    def problem(self) -> Problem:
        return Problem(n_features=0, n_items=self.n_items)

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Floats]]:
        # Relevant items are random, since ties favour the first ones. Each grade takes one double.
        relevant, wrong = ranking_of(rng.random(self.n_items)) < self.n_relevant, self._error_probability()
        probabilities = np.where(relevant, 1.0 - wrong, wrong)
        query = Query("", np.empty((self.n_items, 0)), np.empty(0))
        while True:
            for grades in (rng.random((ROUNDS_PER_DRAW, self.n_items)) < probabilities).astype(np.float64):
                yield query, grades

    @abstractmethod
    def _error_probability(self) -> float: ...


@register("flipped_relevance")
class FlippedRelevance(_BinaryGrades):
    """A fixed set of which `n_relevant` items are relevant; each grade of a round is flipped with probability `flip`.

    The relevant items are drawn once per run.

    Args:
      flip: The probability with which a grade is flipped.

    References:
      Chaudhuri and Tewari (2017), Online Learning to Rank with Top-k Feedback (20 items, 5 of them relevant).
    """

    n_items: int = 20
    n_relevant: int = 5
    flip: Probability = 0.05

    def _error_probability(self) -> float:
        return self.flip


@register("noisy_relevance")
class NoisyRelevance(_BinaryGrades):
    """A fixed set with hidden relevance r in {0, 1}; a round's grade is 1 when r + N(0, sd²) exceeds ½, else 0.

    So each grade is wrong with probability Φ(−1 / (2·sd)). The relevant items are drawn once per run.

    Args:
      sd: The standard deviation of the noise.

    References:
      Chaudhuri and Tewari (2015), Online Ranking with Top-1 Feedback.
    """

    n_items: int = 10
    n_relevant: int = 5
    sd: NotNegative = 0.25

    def _error_probability(self) -> float:
        return normal_cdf(-0.5 / self.sd) if self.sd > 0.0 else 0.0

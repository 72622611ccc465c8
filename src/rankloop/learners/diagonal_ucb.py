"""Upper confidence bounds with a belief of its own for each weight: the sparse twin of `linear_ucb`, for lists."""

from typing import ClassVar

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import add_row, kernel, ranking_of, scores_of
from rankloop.core.learner import point_log_prob
from rankloop.core.registry import Spec, register
from rankloop.core.types import Clicks, Decision, Features, Floats, Ints, Query
from rankloop.learners.diagonal_thompson import DiagonalBelief, State


@kernel
def optimistic_ranking(features: Features, weights: Floats, evidence: Floats, prior: float, width: float) -> Ints:
    """By descending w · x + width · √(Σ_j x_j² / precision_j)."""
    scores, row = scores_of(features, weights), np.empty(len(weights))
    for item in range(len(scores)):
        row[:] = 0.0
        add_row(row, features, item, 1.0)
        variance = 0.0
        for j in range(len(row)):
            if row[j] != 0.0:
                variance += row[j] * row[j] / (prior + evidence[j])
        scores[item] += width * np.sqrt(variance)
    return ranking_of(scores)


@register("diagonal_ucb")
class DiagonalUCB(DiagonalBelief):
    """Ranks by w · x + `width` · √(Σ_j x_j² / q_j): what has rarely been shown gets the benefit of the doubt.

    Weights w and precisions q are learned as by `diagonal_thompson`, from the items down to the last click. It draws
    nothing: the same state gives the same ranking.

    Use it with `hashed` columns where a ranking must not be random; a log of it says nothing about other rankings.
    References: Li, Chu, Langford and Schapire (2010), A Contextual-Bandit Approach to Personalized News Article
    Recommendation; Li et al. (2016), Contextual Combinatorial Cascading Bandits.
    """

    width: float = 0.5
    noise: float = 1.0
    prior: float = 1.0
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Clicks,)
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"width": 0.0, "noise": 0.5}, {"prior": 2.0, "start": (0.0, 0.5, -1.0)})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.width < np.inf:
            raise InvalidInput(f"width = {self.width} must be a finite number from 0")

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        return Decision(self._ranking(state, query), 0.0, ())

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return point_log_prob(self._ranking(state, query), ranking, state.shown)

    def _ranking(self, state: State, query: Query) -> Ints:
        return optimistic_ranking(query.features, state.weights, state.evidence, self.prior**-2, self.width)

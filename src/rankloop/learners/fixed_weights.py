"""A linear ranker that never changes: yesterday's model as a learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.learner_parts import best_ranking, check_finite, point_log_prob, shown_or_all
from rankloop.core.registry import Spec, register
from rankloop.core.types import (
    Clicks,
    Decision,
    Feedback,
    Floats,
    Ints,
    Preferred,
    Problem,
    Query,
    Relevances,
    Reward,
)


class State(NamedTuple):
    """The weights as an array, and how many places are seen."""

    weights: Floats
    shown: int


@register("fixed_weights")
@dataclass(frozen=True, kw_only=True)
class FixedWeights:
    """Ranks by features · `weights` and learns nothing: a model trained elsewhere, to compare with or to serve.

    It takes every kind of feedback and ignores it.
    """

    weights: tuple[float, ...]

    accepts: ClassVar[tuple[type, ...]] = (Relevances, Clicks, Preferred, Reward)
    reports: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[tuple[Spec, ...]] = ({"weights": (1.0, -2.0, 0.5)},)

    def __post_init__(self) -> None:
        check_finite("weights", self.weights)

    def init(self, problem: Problem) -> State:
        if len(self.weights) != problem.n_features:
            raise InvalidInput(
                f"there are {len(self.weights)} weights for {problem.n_features} features: give one for each"
            )
        return State(np.array(self.weights, dtype=np.float64), shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        return Decision(best_ranking(query.features, state.weights), 0.0, ())

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        return state

    def predict(self, state: State, query: Query) -> Ints:
        return best_ranking(query.features, state.weights)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return point_log_prob(best_ranking(query.features, state.weights), ranking, state.shown)

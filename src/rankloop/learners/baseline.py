"""Learners that learn nothing: a linear ranker that never changes, and rankings drawn uniformly."""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_finite
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import random_ranking, seen_count
from rankloop.core.learner import GreedyLearner, LinearState, shown_or_all
from rankloop.core.registry import Spec, register
from rankloop.core.types import Clicks, Decision, Feedback, Ints, Preferred, Problem, Query, Relevances, Reward


@register("fixed_weights")
class FixedWeights(GreedyLearner):
    """Ranks by features · `weights` and learns nothing: a model trained elsewhere, to compare with or to serve.

    It takes every kind of feedback and ignores it.
    """

    weights: tuple[float, ...]

    accepts: ClassVar[tuple[type, ...]] = (Relevances, Clicks, Preferred, Reward)
    examples: ClassVar[tuple[Spec, ...]] = ({"weights": (1.0, -2.0, 0.5)},)

    def __post_init__(self) -> None:
        check_finite("weights", self.weights)

    def init(self, problem: Problem) -> LinearState:
        if len(self.weights) != problem.n_features:
            raise InvalidInput(
                f"there are {len(self.weights)} weights for {problem.n_features} features: give one for each"
            )
        return LinearState(np.array(self.weights, dtype=np.float64), shown_or_all(problem))

    def learn(self, state: LinearState, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> LinearState:
        return state


class State(NamedTuple):
    """Nothing is learned."""

    shown: int


@register("random_order")
class RandomOrder:
    """A uniformly random ranking each time, whatever comes back: the floor that every learner must beat.

    log_prob = −log(m! / (m − shown)!): all orders of the seen items are equally likely.
    """

    accepts: ClassVar[tuple[type, ...]] = (Relevances, Clicks, Preferred, Reward)
    reports: ClassVar[tuple[str, ...]] = ()

    def init(self, problem: Problem) -> State:
        return State(shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        ranking = random_ranking(query.n_items, rng)
        return Decision(ranking, self.log_prob(state, query, ranking), ())

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        return state

    def predict(self, state: State, query: Query) -> Ints:
        return np.arange(query.n_items)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        n_items = query.n_items
        return math.lgamma(n_items - seen_count(state.shown, n_items) + 1) - math.lgamma(n_items + 1)

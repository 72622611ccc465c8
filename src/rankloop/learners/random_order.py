"""Rankings drawn uniformly: the baseline that knows nothing."""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.kernels import random_ranking, seen_count
from rankloop.core.learner import shown_or_all
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Decision, Feedback, Ints, Preferred, Problem, Query, Relevances, Reward


class State(NamedTuple):
    """Nothing is learned."""

    shown: int


def _log_prob(shown: int, n_items: int) -> float:
    return math.lgamma(n_items - seen_count(shown, n_items) + 1) - math.lgamma(n_items + 1)


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
        return _log_prob(state.shown, query.n_items)

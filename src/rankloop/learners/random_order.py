"""Rankings drawn uniformly: the baseline that knows nothing."""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.kernels import ALL, kernel, random_ranking, ranking_of, seen_count
from rankloop.core.learner import shown_or_all
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Decision, Feedback, Ints, Preferred, Problem, Query, Relevances, Reward
from rankloop.learners._shared.compiled_rounds import (
    QueryRounds,
    more_rounds,
    next_own,
    next_query,
    write_history,
    write_round,
)


class State(NamedTuple):
    """Nothing is learned."""

    shown: int


@kernel
def _many_rounds(rounds: QueryRounds) -> None:
    """Rounds over queries until the draws are used up, exactly as `play` would go through them."""
    nothing, with_history = np.empty(0), len(rounds.history) > 0
    while more_rounds(rounds, True):
        start, end, _ = next_query(rounds)
        if with_history:
            write_history(rounds, (start, 0, 0, 0.0, 0.0), nothing)
        write_round(rounds, ranking_of(next_own(rounds, end - start)))
    if with_history:
        write_history(rounds, (0, 0, 0, 0.0, 0.0), nothing)


def _log_prob(shown: int, n_items: int) -> float:
    return math.lgamma(n_items - seen_count(shown, n_items) + 1) - math.lgamma(n_items + 1)


@register("random_order")
class RandomOrder:
    """A uniformly random ranking each time, whatever comes back: the floor that every learner must beat.

    log_prob = −log(m! / (m − shown)!): all orders of the seen items are equally likely.
    """

    accepts: ClassVar[tuple[type, ...]] = (Relevances, Clicks, Preferred, Reward)
    reports: ClassVar[tuple[str, ...]] = ()
    compiled: ClassVar[type | None] = QueryRounds

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

    def doubles(self, n_items: int) -> int:
        return n_items

    def recorded_decision(self, ranking: Ints, numbers: list[float], familiar: Ints) -> Decision[tuple[()]]:
        """The decision of a round of `many_rounds`, from the history of the rounds."""
        return Decision(ranking, _log_prob(ALL, len(ranking)), ())  # those who grade see every position

    def many_rounds(self, state: State, rounds: QueryRounds) -> State:
        _many_rounds(rounds)
        return state

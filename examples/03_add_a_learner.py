"""A learner of your own in one file: it keeps the contract, so the loop, the runner and saving work with it."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop import Decision, Problem, Query, Relevances, build, parse_measure, play, register
from rankloop.core.rankings import ranking_of
from rankloop.core.types import Feedback, Floats, Ints


class State(NamedTuple):
    """How often each item was graded, and the sum of its grades."""

    counts: Floats
    sums: Floats


@register("mean_grade")
@dataclass(frozen=True, kw_only=True)
class MeanGrade:
    """Sorts a fixed set of items by their mean grade so far, with a bonus for the rarely graded."""

    accepts: ClassVar = (Relevances,)
    reports: ClassVar = ()
    bonus: float = 1.0

    def init(self, problem: Problem) -> State:
        return State(np.zeros(problem.n_items or 1), np.zeros(problem.n_items or 1))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        return Decision(self.predict(state, query), 0.0, ())

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        assert isinstance(feedback, Relevances)
        counts, sums = state.counts.copy(), state.sums.copy()
        counts[feedback.items] += 1
        sums[feedback.items] += feedback.grades
        return State(counts, sums)

    def predict(self, state: State, query: Query) -> Ints:
        return ranking_of((state.sums + self.bonus) / (state.counts + 1))

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return 0.0 if np.array_equal(ranking, self.predict(state, query)) else float("-inf")


stream, people = build("flipped_relevance", "stream"), build("top_k(depth=3)", "feedback")
measure = parse_measure("nDCG")
for kind in ("random_order", "mean_grade"):
    rounds = play(build(kind, "learner"), stream, people, horizon=2000, seed=0)
    quality = [measure(round.decision.ranking, round.relevance) for round in rounds]
    first, last = np.mean(quality[:100]), np.mean(quality[-100:])
    print(f"{kind:13s} nDCG {first:.3f} in the first 100 rounds, {last:.3f} in the last")

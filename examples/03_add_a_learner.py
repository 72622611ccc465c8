"""A learner in one file. It passes the contract tests, so simulation, experiments and saving work with it.

python examples/03_add_a_learner.py
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from rankloop import Decision, InvalidInput, Problem, Query, Relevances, build, parse_measure, play, register
from rankloop.core.checks import Positive
from rankloop.core.kernels import ranking_of
from rankloop.core.learner import GreedyLearner, expect, require_finite, shown_or_all
from rankloop.core.types import Feedback, Floats, Ints


class State(NamedTuple):
    """The number and the sum of grades per item, and the number of positions that users see."""

    counts: Floats
    sums: Floats
    shown: int


@register("mean_grade")
@dataclass(frozen=True, kw_only=True)
class MeanGrade(GreedyLearner):
    """Rank a fixed set by (sum of grades + `bonus`) / (number of grades + 1)."""

    accepts: ClassVar = (Relevances,)
    bonus: Positive = 1.0

    def init(self, problem: Problem) -> State:
        if problem.n_items is None:
            raise InvalidInput("mean_grade ranks a fixed set of items: say how many there are (n_items)")
        return State(np.zeros(problem.n_items), np.zeros(problem.n_items), shown_or_all(problem))

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        items, grades = expect(feedback, Relevances)
        counts, sums = state.counts.copy(), state.sums.copy()  # a state is never changed in place
        counts[items] += 1.0
        with np.errstate(over="ignore"):  # require_finite raises UnstableUpdate
            sums[items] += grades
        return State(counts, require_finite(sums), state.shown)

    def predict(self, state: State, query: Query) -> Ints:
        return ranking_of((state.sums + self.bonus) / (state.counts + 1.0))


stream, users = build("flipped_relevance", "stream"), build("top_k(depth=3)", "feedback")
measure = parse_measure("nDCG")
for kind in ("random_order", "mean_grade"):
    rounds = play(build(kind, "learner"), stream, users, horizon=2000, seed=0)
    quality = [measure(round.decision.ranking, round.relevance) for round in rounds]
    first, last = np.mean(quality[:100]), np.mean(quality[-100:])
    print(f"{kind:13s} nDCG {first:.3f} in the first 100 rounds, {last:.3f} in the last")

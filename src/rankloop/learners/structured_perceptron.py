"""The structured perceptron: learns from the best ranking, as an expert would give it."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.kernels import kernel, require_finite, weighted_rows
from rankloop.core.learner_parts import best_ranking, check_finite, expect, point_log_prob, shown_or_all, start_weights
from rankloop.core.rankings import ranking_of
from rankloop.core.registry import register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.learners._shared.joint_features import correction


class State(NamedTuple):
    """The weights, and how many places are seen."""

    weights: Floats
    shown: int


@kernel
def _towards_best(shown: Ints, items: Ints, grades: Floats) -> Floats:
    """The correction from the shown ranking to the same items by grade; equal grades keep the shown order."""
    grade_of = np.full(len(shown), -np.inf)
    for i in range(len(items)):
        grade_of[items[i]] = grades[i]
    return correction(shown, shown[ranking_of(grade_of[shown])])


@register("structured_perceptron")
class StructuredPerceptron:
    """w ← w + φ(x, best) − φ(x, shown), with φ(x, y) = Σ_p φ(x, y[p]) / log₂(p + 2) and `best` the order by grade.

    Items with equal grades keep the order in which they were shown, and items without a grade stay where they were.

    Use it as a reference that knows all grades: what clean and complete feedback would be worth.
    Reference: Collins (2002), Discriminative Training Methods for Hidden Markov Models.
    """

    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        check_finite("start", self.start)

    def init(self, problem: Problem) -> State:
        return State(start_weights(self.start, problem.n_features), shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        return Decision(best_ranking(query.features, state.weights), 0.0, ())

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        items, grades = expect(feedback, Relevances)
        row_weights = _towards_best(decision.ranking, items, grades)
        return State(require_finite(state.weights + weighted_rows(query.features, row_weights)), state.shown)

    def predict(self, state: State, query: Query) -> Ints:
        return best_ranking(query.features, state.weights)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return point_log_prob(best_ranking(query.features, state.weights), ranking, state.shown)

"""The structured perceptron: learns from the best ranking, as an expert would give it."""

from typing import ClassVar

import numpy as np

from rankloop.core.kernels import kernel, ranking_of, weighted_rows
from rankloop.core.learner import GreedyLearner, SparseLearner, expect, require_finite, shown_or_all, start_weights
from rankloop.core.learner import LinearState as State
from rankloop.core.registry import register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.learners._shared.joint_features import correction


@kernel
def _towards_best(shown: Ints, items: Ints, grades: Floats) -> Floats:
    """The correction from the shown ranking to the same items by grade; equal grades keep the shown order."""
    grade_of = np.full(len(shown), -np.inf)
    for i in range(len(items)):
        grade_of[items[i]] = grades[i]
    return correction(shown, shown[ranking_of(grade_of[shown])])


@register("structured_perceptron")
class StructuredPerceptron(GreedyLearner, SparseLearner):
    """w ← w + φ(x, best) − φ(x, shown), with φ(x, y) = Σ_p φ(x, y[p]) / log₂(p + 2) and `best` the order by grade.

    Items with equal grades keep the order in which they were shown, and items without a grade stay where they were.

    Use it as a reference that knows all grades: what clean and complete feedback would be worth.
    Reference: Collins (2002), Discriminative Training Methods for Hidden Markov Models.
    """

    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)

    def init(self, problem: Problem) -> State:
        return State(start_weights(self.start, problem.n_features), shown_or_all(problem))

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        items, grades = expect(feedback, Relevances)
        row_weights = _towards_best(decision.ranking, items, grades)
        return State(require_finite(state.weights + weighted_rows(query.features, row_weights)), state.shown)

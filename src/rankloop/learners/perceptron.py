"""Rosenblatt's perceptron: relevant or not, one item at a time."""

from typing import ClassVar

from rankloop.core.checks import check_positive
from rankloop.core.kernels import kernel, scores_of
from rankloop.core.learner import GreedyLearner, expect, require_finite, shown_or_all, start_weights
from rankloop.core.registry import register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.learners.ranking_perceptron import State


@kernel
def _correct(
    weights: Floats, features: Floats, items: Ints, grades: Floats, relevant_from: float, rate: float
) -> tuple[Floats, int]:
    """Go through the graded items in shown order; a score of 0 is a mistake whatever the label."""
    after, mistakes = weights.copy(), 0
    for position in range(len(items)):
        row = items[position]
        label = 1.0 if grades[position] >= relevant_from else -1.0
        score = scores_of(features[row : row + 1], after)[0]
        if label * score <= 0.0:
            mistakes += 1
            for j in range(len(after)):
                after[j] += rate * label * features[row, j]
    return after, mistakes


@register("perceptron")
class Perceptron(GreedyLearner):
    """The perceptron for classification: for each graded item x that sign(w·x) gets wrong, w ← w + η · y · x.

    y = +1 for grades from `relevant_from` on, else −1; η = `learning_rate`. The items of a round are taken one after
    another in shown order, and ranked by w·x. There is no threshold: add a constant feature to have one.

    The reference point of the ranking perceptrons, which need no threshold and see the list as a whole.
    Reference: Novikoff (1962), On Convergence Proofs on Perceptrons; Algorithm 1 of Chaudhuri (2016).
    """

    learning_rate: float = 1.0
    relevant_from: float = 1.0
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ("mistakes",)

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        check_positive("relevant_from", self.relevant_from)
        super().__post_init__()

    def init(self, problem: Problem) -> State:
        return State(start_weights(self.start, problem.n_features), 0, shown_or_all(problem))

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        items, grades = expect(feedback, Relevances)
        rate, threshold = self.learning_rate, self.relevant_from
        weights, mistakes = _correct(state.weights, query.features, items, grades, threshold, rate)
        return State(require_finite(weights), state.mistakes + mistakes, state.shown) if mistakes else state

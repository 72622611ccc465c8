"""Perceptrons that learn from a better ranking: a preferred one, one made from clicks, or the best by grade."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.kernels import clicked_weights, kernel, ranking_of, weighted_rows
from rankloop.core.learner import (
    GreedyLearner,
    SparseLearner,
    best_ranking,
    check_receipt,
    corrected,
    expect,
    require_finite,
    shown_or_all,
)
from rankloop.core.learner import LinearState as State
from rankloop.core.registry import Spec, register
from rankloop.core.types import Clicks, Decision, Feedback, Floats, Ints, Preferred, Problem, Query, Relevances
from rankloop.learners._shared.joint_features import (
    AveragedState,
    correction,
    moved_to_top,
    pair_correction,
    swapped_to_first,
)


class Receipt(NamedTuple):
    """Where the pairs of this round begin."""

    first: int


@kernel
def _from_clicks(shown: Ints, items: Ints, click_weights: Floats, first: int, clicks_to: str) -> Floats:
    """The correction that the clicks ask for."""
    clicked = clicked_weights(len(shown), items, click_weights)
    if clicks_to == "pairs":
        return pair_correction(shown, clicked, first, len(shown), False)
    if clicks_to == "top":
        return correction(shown, moved_to_top(shown, clicked))
    return correction(shown, swapped_to_first(shown, clicked))


@dataclass(frozen=True, kw_only=True)
class PreferenceLearner(SparseLearner):
    """Shows the best ranking it knows; clicks become a better one, as `clicks_to` says."""

    clicks_to: Literal["top", "swap_first", "pairs"] = "top"
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Preferred, Clicks)

    def rank(self, state: Any, query: Query, rng: Generator) -> Decision[Receipt]:
        first = 0
        if self.clicks_to == "pairs":  # as many draws as `3pr` takes, so that one seed gives both the same pairs
            first = int(rng.random(1 + query.n_items // 2)[0] >= 0.5)
        return Decision(best_ranking(query.features, state.weights), 0.0, Receipt(first))

    def _row_weights(self, decision: Decision[Receipt], feedback: Feedback) -> Floats:
        """How much of each item's features the feedback adds to the weights."""
        if isinstance(feedback, Preferred):
            return correction(decision.ranking, feedback.ranking)
        items, click_weights = expect(feedback, Clicks)
        check_receipt(0 <= decision.receipt.first <= 1)
        return _from_clicks(decision.ranking, items, click_weights, decision.receipt.first, self.clicks_to)


@register("preference_perceptron")
class PreferencePerceptron(PreferenceLearner):
    """w ← w + φ(x, better) − φ(x, shown), with φ(x, y) = Σ_p φ(x, y[p]) / log₂(p + 2).

    The better ranking is given (`Preferred`) or made from clicks: `clicks_to` = "top" moves the clicked items to the
    top, "swap_first" exchanges the uppermost clicked item and the first, "pairs" pairs neighbouring positions,
    beginning at the first or the second with probability ½, and turns a pair round whose lower item alone was clicked.

    Use it when people give better rankings and mean them. With noisy clicks it oscillates: take `3pr`.
    Reference: Shivaswamy and Joachims (2012), Online Structured Prediction via Coactive Learning.
    """

    examples: ClassVar[tuple[Spec, ...]] = ({}, {"clicks_to": "swap_first"}, {"clicks_to": "pairs"})

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        row_weights = self._row_weights(decision, feedback)
        return State(require_finite(state.weights + weighted_rows(query.features, row_weights)), state.shown)


@register("averaged_preference_perceptron")
class AveragedPreferencePerceptron(PreferenceLearner):
    """`preference_perceptron`, but the list that is shown is sorted by the running mean of w.

    Averaging smooths unbiased noise. It does not cure the oscillation that biased clicks cause: take `3pr` for these.
    References: Shivaswamy and Joachims (2012), Online Structured Prediction via Coactive Learning; Collins (2002),
    Discriminative Training Methods for Hidden Markov Models.
    """

    def init(self, problem: Problem) -> AveragedState:
        weights = self.first_weights(problem)
        return AveragedState(weights, weights, shown_or_all(problem), 0)

    def learn(
        self, state: AveragedState, query: Query, decision: Decision[Receipt], feedback: Feedback
    ) -> AveragedState:
        row_weights = self._row_weights(decision, feedback)
        weights, newest = corrected(query.features, state.weights, state.newest, state.rounds, True, row_weights)
        return AveragedState(require_finite(weights), require_finite(newest), state.shown, state.rounds + 1)


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

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        items, grades = expect(feedback, Relevances)
        row_weights = _towards_best(decision.ranking, items, grades)
        return State(require_finite(state.weights + weighted_rows(query.features, row_weights)), state.shown)

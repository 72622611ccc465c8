"""Perceptrons that learn from a better ranking: a preferred one, one made from clicks, or the order by grade."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import FiniteNumbers
from rankloop.core.kernels import averaged_step, clicked_weights, kernel, ranking_of, weighted_rows
from rankloop.core.learner import GreedyLearner, SparseLearner, check_receipt, expect, require_finite, shown_or_all
from rankloop.core.learner import LinearState as State
from rankloop.core.registry import Examples, register
from rankloop.core.types import Clicks, Decision, Feedback, Floats, Ints, Preferred, Problem, Query, Relevances
from rankloop.learners._shared.swap_propensity import AveragedState, correction, moved_to_top, pair_correction


class Receipt(NamedTuple):
    """The upper position of the round's first pair."""

    first: int


@kernel
def _from_clicks(shown: Ints, items: Ints, click_weights: Floats, first: int, clicks_to: str) -> Floats:
    """Return the correction that the clicks imply."""
    clicked = clicked_weights(len(shown), items, click_weights)
    if clicks_to == "pairs":
        return pair_correction(shown, clicked, first, len(shown))
    if clicks_to == "top":
        return correction(shown, moved_to_top(shown, clicked))
    better = shown.copy()  # with the uppermost clicked item and the first exchanged
    for position in range(len(shown)):
        if clicked[shown[position]] > 0.0:
            better[0], better[position] = shown[position], shown[0]
            break
    return correction(shown, better)


@dataclass(frozen=True, kw_only=True)
class PreferenceLearner(GreedyLearner, SparseLearner):
    """A learner that shows its best ranking, and turns clicks into a better one as `clicks_to` says."""

    clicks_to: Literal["top", "swap_first", "pairs"] = "top"
    start: FiniteNumbers = ()

    accepts: ClassVar[tuple[type, ...]] = (Preferred, Clicks)
    averaged: ClassVar[bool]  # The list is sorted by the mean of all weights so far.

    def init(self, problem: Problem) -> AveragedState:
        weights = self.first_weights(problem)
        return AveragedState(weights, weights, shown_or_all(problem), 0)

    def rank(self, state: Any, query: Query, rng: Generator) -> Decision[Receipt]:  # type: ignore[override]
        first = 0
        if self.clicks_to == "pairs":  # as many draws as `3pr` takes, so that one seed gives both the same pairs
            first = int(rng.random(1 + query.n_items // 2)[0] >= 0.5)
        return Decision(self.predict(state, query), 0.0, Receipt(first))

    def learn(
        self, state: AveragedState, query: Query, decision: Decision[Receipt], feedback: Feedback
    ) -> AveragedState:
        shown, first, rounds = decision.ranking, decision.receipt.first, state.rounds
        if isinstance(feedback, Preferred):
            row_weights = correction(shown, feedback.ranking)
        else:
            check_receipt(0 <= first <= 1)
            items, click_weights = expect(feedback, Clicks)
            row_weights = _from_clicks(shown, items, click_weights, first, self.clicks_to)
        weights, newest = averaged_step(query.features, state.weights, state.newest, rounds, self.averaged, row_weights)
        return AveragedState(require_finite(weights), require_finite(newest), state.shown, rounds + 1)


@register("preference_perceptron")
class PreferencePerceptron(PreferenceLearner):
    """Add the features of a better ranking and subtract those of the shown one.

      w ← w + φ(x, better) − φ(x, shown),  φ(x, y) = Σ_p x[y_p] / log₂(p + 2).

    The better ranking is feedback of the type `Preferred`, or is made from clicks. Use it when users hand back better
    rankings. With noisy clicks it oscillates; use `3pr` for these.

    Args:
      clicks_to: "top" moves the clicked items to the top, "swap_first" exchanges the uppermost clicked item and the
        first, "pairs" pairs neighbouring positions, beginning at the first or the second with probability ½, and
        exchanges a pair of which only the lower item was clicked.
      start: The first weights; zeros if empty.

    References:
      Shivaswamy and Joachims (2012), Online Structured Prediction via Coactive Learning, Algorithm 1.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("preference_perceptron", "web_search", "dcm", "nDCG@10"), 3)
      0.55
    """

    averaged: ClassVar[bool] = False
    examples: ClassVar[Examples] = ({}, {"clicks_to": "swap_first"}, {"clicks_to": "pairs"})


@register("averaged_preference_perceptron")
class AveragedPreferencePerceptron(PreferenceLearner):
    """The `preference_perceptron` with lists that are sorted by the running mean of w.

      w ← w + φ(x, better) − φ(x, shown), and the list is sorted by mean(w) · x.

    Averaging smooths unbiased noise. It does not cure the oscillation that biased clicks cause; use `3pr` for these.

    Args:
      clicks_to: The better ranking that is made from clicks, as in `preference_perceptron`.
      start: The first weights; zeros if empty.

    References:
      Shivaswamy and Joachims (2012), Online Structured Prediction via Coactive Learning. Collins (2002), Discriminative
      Training Methods for Hidden Markov Models.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("averaged_preference_perceptron", "web_search", "dcm", "nDCG@10"), 3)
      0.528
    """

    averaged: ClassVar[bool] = True


@kernel
def _towards_best(shown: Ints, items: Ints, grades: Floats) -> Floats:
    """Return the correction from the shown ranking to the items by grade; equal grades keep the shown order."""
    grade_of = np.full(len(shown), -np.inf)
    for i in range(len(items)):
        grade_of[items[i]] = grades[i]
    return correction(shown, shown[ranking_of(grade_of[shown])])


@register("structured_perceptron")
class StructuredPerceptron(GreedyLearner, SparseLearner):
    """Add the features of the best ranking by grade and subtract those of the shown one.

      w ← w + φ(x, best) − φ(x, shown),  φ(x, y) = Σ_p x[y_p] / log₂(p + 2).

    Items with equal grades keep the order in which they were shown, and items without a grade stay where they were.

    Args:
      start: The first weights; zeros if empty.

    References:
      Collins (2002), Discriminative Training Methods for Hidden Markov Models.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("structured_perceptron", "linear_gaussian(n_items=6, n_features=3)", "full", "nDCG@5"), 3)
      0.904
    """

    start: FiniteNumbers = ()

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        items, grades = expect(feedback, Relevances)
        row_weights = _towards_best(decision.ranking, items, grades)
        return State(require_finite(state.weights + weighted_rows(query.features, row_weights)), state.shown)

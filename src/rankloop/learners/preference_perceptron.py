"""The preference perceptron: learns from a better ranking, or from clicks turned into one."""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

from numpy.random import Generator

from rankloop.core.kernels import kernel, require_finite, weighted_rows
from rankloop.core.learner_parts import (
    best_ranking,
    check_finite,
    check_receipt,
    expect,
    point_log_prob,
    shown_or_all,
    start_weights,
)
from rankloop.core.registry import Spec, register
from rankloop.core.types import Clicks, Decision, Feedback, Floats, Ints, Preferred, Problem, Query
from rankloop.learners._shared.joint_features import (
    clicked_weights,
    correction,
    moved_to_top,
    pair_correction,
    swapped_to_first,
)


class State(NamedTuple):
    """The weights, and how many places are seen."""

    weights: Floats
    shown: int


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


def first_pair(clicks_to: str, n_items: int, rng: Generator) -> int:
    """0 or 1 with equal probability; as many draws as `3pr` takes, so that one seed gives both the same pairs."""
    if clicks_to != "pairs":
        return 0
    return int(rng.random(1 + n_items // 2)[0] >= 0.5)


def row_weights_of(clicks_to: str, decision: Decision[Receipt], feedback: Feedback) -> Floats:
    """How much of each item's features the feedback adds to the weights."""
    if isinstance(feedback, Preferred):
        return correction(decision.ranking, feedback.ranking)
    items, click_weights = expect(feedback, Clicks)
    check_receipt(0 <= decision.receipt.first <= 1)
    return _from_clicks(decision.ranking, items, click_weights, decision.receipt.first, clicks_to)


@register("preference_perceptron")
class PreferencePerceptron:
    """w ← w + φ(x, better) − φ(x, shown), with φ(x, y) = Σ_p φ(x, y[p]) / log₂(p + 2).

    The better ranking is given (`Preferred`) or made from clicks: `clicks_to` = "top" moves the clicked items to the
    top, "swap_first" exchanges the uppermost clicked item and the first, "pairs" pairs neighbouring places, beginning
    at the first or the second with probability ½, and turns a pair round whose lower item alone was clicked.

    Use it when people give better rankings and mean them. With noisy clicks it oscillates: take `3pr`.
    Reference: Shivaswamy and Joachims (2012), Online Structured Prediction via Coactive Learning.
    """

    clicks_to: Literal["top", "swap_first", "pairs"] = "top"
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Preferred, Clicks)
    reports: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"clicks_to": "swap_first"}, {"clicks_to": "pairs"})

    def __post_init__(self) -> None:
        check_finite("start", self.start)

    def init(self, problem: Problem) -> State:
        return State(start_weights(self.start, problem.n_features), shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        first = first_pair(self.clicks_to, len(query.features), rng)
        return Decision(best_ranking(query.features, state.weights), 0.0, Receipt(first))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        row_weights = row_weights_of(self.clicks_to, decision, feedback)
        return State(require_finite(state.weights + weighted_rows(query.features, row_weights)), state.shown)

    def predict(self, state: State, query: Query) -> Ints:
        return best_ranking(query.features, state.weights)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return point_log_prob(best_ranking(query.features, state.weights), ranking, state.shown)

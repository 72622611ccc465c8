"""Click regression: the probability of a click at each position, as a logistic regression would learn it."""

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import add_row, kernel, scores_of
from rankloop.core.learner import check_receipt, clicks_by_item, require_finite, seen_part, shown_or_all
from rankloop.core.registry import Spec, register
from rankloop.core.types import Clicks, Decision, Features, Feedback, Floats, Ints, Problem, Query
from rankloop.learners._shared.perturbation import PairSwapper

POSITIONS = 64  # with an offset of their own; the ones below share the last
OFFSET_RATE = 0.3


class State(NamedTuple):
    """The weights; the offset of each position, and Σ gradient² of it."""

    weights: Floats
    offsets: Floats
    squares: Floats
    shown: int

    def reachable(self, initial: "State") -> bool:
        """Squares are only ever added to, so that their roots can be taken."""
        return bool(np.all(self.squares >= initial.squares))


class Receipt(NamedTuple):
    """How many items there were: what is learned depends on the ranking alone."""

    n_items: int


@kernel
def _learned(
    features: Features, state: State, seen: Ints, clicked: Floats, rate: float, fixed: bool
) -> tuple[Floats, Floats, Floats]:
    """One step of the logistic loss, summed over the items that were seen."""
    scores = scores_of(features, state.weights)
    after, offsets, squares = state.weights.copy(), state.offsets.copy(), state.squares.copy()
    for position in range(len(seen)):
        item, p = seen[position], min(position, POSITIONS - 1)
        probability = 1.0 / (1.0 + np.exp(-scores[item] - offsets[p]))
        error = clicked[item] * (1.0 - probability) if clicked[item] > 0.0 else -probability
        add_row(after, features, item, rate * error)
        if not fixed:
            squares[p] += error * error
            offsets[p] += OFFSET_RATE * error / np.sqrt(1.0 + squares[p])
    return after, offsets, squares


@register("click_regression")
class ClickRegression(PairSwapper):
    """P(click) = σ(w · x + b_position), learned from every position that was seen, clicked or not.

    The list is sorted by w · x, and neighbours are swapped at random as in `fair_pairs`: pairs begin at the first or
    the second position with probability ½, each is swapped with probability `swap`, and no item moves more than one
    position. Then w ← w + `learning_rate` · Σ_p (click_p − P(click)) · x_p; a click of weight v counts v times. The
    offsets b begin at `offset` and are learned too, unless `examination` gives the probability that each position is
    looked at: then b_position = log of it, the last one being that of all positions below. An `offset` below the click
    rate of a page lets what is not known yet stand above what nobody clicked.

    Use it for shops and feeds with many features (`hashed` columns): it learns from what is not clicked as well, and is
    the best learner we know there. It is biased where people stop after a click that satisfies them, since what they
    did not look at counts as not wanted: with short answers, as in search, take `fair_pairs`.
    References: McMahan et al. (2013), Ad Click Prediction: a View from the Trenches; Radlinski and Joachims (2006),
    Minimally Invasive Randomization for Collecting Unbiased Preferences from Clickthrough Logs.
    """

    swap: float = 0.05
    learning_rate: float = 0.1
    examination: tuple[float, ...] = ()
    offset: float = -2.0
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Clicks,)
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"swap": 0.5, "examination": (1.0, 0.5, 0.25)})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(0 < probability <= 1 for probability in self.examination):
            raise InvalidInput(f"examination = {self.examination} must be probabilities above 0")
        if len(self.examination) > POSITIONS or not abs(self.offset) <= 100:
            raise InvalidInput(f"examination has at most {POSITIONS} positions, and offset is from -100 to 100")

    def init(self, problem: Problem) -> State:
        offsets = np.full(POSITIONS, self.offset)
        if self.examination:
            known = np.log(np.array(self.examination))
            offsets = np.concatenate([known, np.full(POSITIONS - len(known), known[-1])])
        weights = self.first_weights(problem)
        return State(weights, offsets, np.zeros(POSITIONS), shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        ranking, log_propensity, _, _ = self._swapped(state, query, rng)
        return Decision(ranking, log_propensity, Receipt(query.n_items))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        check_receipt(decision.receipt.n_items == len(decision.ranking))
        clicked, seen = clicks_by_item(feedback, query.n_items), seen_part(decision.ranking, state.shown)
        weights, offsets, squares = _learned(
            query.features, state, seen, clicked, self.learning_rate, bool(self.examination)
        )
        weights, offsets, squares = require_finite(weights), require_finite(offsets), require_finite(squares)
        return State(weights, offsets, squares, state.shown)

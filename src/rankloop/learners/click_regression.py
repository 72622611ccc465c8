"""Click regression: a logistic regression of clicks on features and positions."""

from functools import cached_property, partial
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import FiniteNumbers, Positive, Probability, check_between
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import add_row, kernel, scores_of
from rankloop.core.learner import clicks_by_item, finite, require_finite, seen_part, shown_or_all
from rankloop.core.registry import Examples, register
from rankloop.core.types import Decision, Features, Feedback, Floats, Ints, Problem, Query
from rankloop.learners._shared.swap_propensity import PairSwapper, SwapProbability

N_OFFSETS = 64  # with an offset of their own; the ones below share the last
OFFSET_RATE = 0.3
MAX_ORDER_PULL = 5.0  # no position pulls a score by more than this, times `order_weight`


class State(NamedTuple):
    """The weights, and an offset for each position."""

    weights: Floats  # One weight for each feature.
    offsets: Floats  # Log-odds by position: b; or with `examination` l, those of a click on any item there.
    squares: Floats  # The sum of the squared gradients of each offset.
    intercept: float  # a, the log-odds of a click on an examined item of score 0; with `examination` only.
    shown: int  # The number of positions that are seen, −1 for all.

    def reachable(self, initial: "State") -> bool:
        """Return true if no sum of squares is below its start, so that their roots exist."""
        return bool(np.all(self.squares >= initial.squares))


@kernel
def _updated(
    rows: Features, weights: Floats, offsets: Floats, squares: Floats, page: Ints, clicked: Floats, rate: float
) -> tuple[Floats, Floats, Floats]:
    """Return weights, offsets and squares after one gradient step of the logistic loss over the seen positions."""
    # The arrays are passed one by one, because a tuple of them costs 1 µs per call.
    scores = scores_of(rows, weights)
    after, offsets, squares = weights.copy(), offsets.copy(), squares.copy()
    for position in range(len(page)):
        item, p = page[position], min(position, N_OFFSETS - 1)
        probability = 1.0 / (1.0 + np.exp(-scores[item] - offsets[p]))
        error = clicked[item] * (1.0 - probability) if clicked[item] > 0.0 else -probability
        add_row(after, rows, item, rate * error)
        squares[p] += error * error
        offsets[p] += OFFSET_RATE * error / np.sqrt(1.0 + squares[p])
    return after, offsets, squares


@kernel
def _updated_by_examination(
    rows: Features,
    weights: Floats,
    levels: Floats,
    squares: Floats,
    page: Ints,
    clicked: Floats,
    log_examination: Floats,
    intercept_and_rates: tuple[float, float, float],  # the rates: learning rate and order weight
) -> tuple[Floats, Floats, Floats, float]:
    """Return weights, levels, squares and intercept after one step with examination and order weight."""
    # A kernel takes at most eight arguments.
    intercept, rate, order_weight = intercept_and_rates
    scores = scores_of(rows, weights)
    after, levels, squares = weights.copy(), levels.copy(), squares.copy()
    all_squares = squares.sum()
    for position in range(len(page)):
        item, p = page[position], min(position, N_OFFSETS - 1)
        probability = 1.0 / (1.0 + np.exp(-scores[item] - intercept - log_examination[p]))
        error = clicked[item] * (1.0 - probability) if clicked[item] > 0.0 else -probability
        # The position that another system gave the item is evidence: its score is pulled towards the usual one there.
        pull = levels[p] - log_examination[p] - intercept - scores[item]
        pull = min(MAX_ORDER_PULL, max(-MAX_ORDER_PULL, pull))
        add_row(after, rows, item, rate * (error + order_weight * pull))
        all_squares += error * error
        intercept += OFFSET_RATE * error / np.sqrt(1.0 + all_squares)
        typical = 1.0 / (1.0 + np.exp(-levels[p]))
        level_error = clicked[item] * (1.0 - typical) if clicked[item] > 0.0 else -typical
        squares[p] += level_error * level_error
        levels[p] += OFFSET_RATE * level_error / np.sqrt(1.0 + squares[p])
    return after, levels, squares, intercept


@register("click_regression")
class ClickRegression(PairSwapper):
    """Learn P(click) = σ(w · x + b_position) from every position that was seen, clicked or not.

    The list is sorted by w · x, and neighbours are swapped at random as in `fair_pairs`: no item moves more than one
    position. Then, summed over the seen positions p,

      w ← w + `learning_rate` · Σ_p (click_p − P(click_p)) · x_p.

    A click of weight v counts v times. The offsets b begin at `offset` and are learned too. If good items already stand
    first, their clicks look like examination, and the offsets absorb their quality. Then give `examination`:

      b_position = a + log examination_position,

    of which only the intercept a is learned, and beside it l_position, the log-odds of a click on any item there. The
    typical score of what stands there is l − b, and with an `order_weight` λ a position is evidence about its item:
    λ · (l_p − b_p − w · x_p) is added to click_p − P(click_p).

    Recommended for raw fields (`hashed` columns). It is biased where users stop after a click, because items that they
    did not examine count as not wanted: for numeric features use `newton_pairs`.

    Args:
      swap: The probability with which a pair of neighbours is swapped.
      learning_rate: The step size.
      examination: The probability that each position is examined, relative to the first; the last one counts for all
        positions below. `rankloop fit-users` prints an estimate. Without it the offsets are learned.
      order_weight: λ; needs `examination`. Set it to 0 for pages that this learner orders itself, as
        `Ranker.ingest` does at its end.
      offset: The first value of every offset. A value below the click rate of a page ranks unknown items above items
        that nobody clicked.
      start: The first weights; zeros if empty.

    References:
      McMahan et al. (2013), Ad Click Prediction: a View from the Trenches. Radlinski and Joachims (2006), Minimally
      Invasive Randomization for Collecting Unbiased Preferences from Clickthrough Logs.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("click_regression", "web_search", "position_based", "nDCG@10"), 3)
      0.533
    """

    swap: SwapProbability = 0.05
    learning_rate: Positive = 0.1
    examination: tuple[float, ...] = ()
    order_weight: Probability = 0.0
    offset: Annotated[float, partial(check_between, -100, 100)] = -2.0
    start: FiniteNumbers = ()

    examples: ClassVar[Examples] = ({}, {"swap": 0.5, "examination": (1.0, 0.5, 0.25), "order_weight": 0.1})

    def __post_init__(self) -> None:
        if not all(0 < probability <= 1 for probability in self.examination) or len(self.examination) > N_OFFSETS:
            raise InvalidInput(f"examination = {self.examination} must be at most {N_OFFSETS} probabilities above 0")
        if self.order_weight and not self.examination:
            raise InvalidInput(f"order_weight = {self.order_weight} needs examination")

    @cached_property
    def _log_examination(self) -> Floats:
        examination = np.array(self.examination or (1.0,))
        log_examination: Floats = np.log(examination[np.minimum(np.arange(N_OFFSETS), len(examination) - 1)])
        return log_examination

    def init(self, problem: Problem) -> State:
        weights = self.first_weights(problem)
        intercept = self.offset if self.examination else 0.0
        offsets = self.offset + self._log_examination
        return State(weights, offsets, np.zeros(N_OFFSETS), intercept, shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        ranking, log_propensity = self._swapped(state, query, rng)[:2]
        return Decision(ranking, log_propensity, ())

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        clicked, page = clicks_by_item(feedback, query.n_items), seen_part(decision.ranking, state.shown)
        arguments = (query.features, state.weights, state.offsets, state.squares, page, clicked)
        intercept = state.intercept
        if self.examination:
            scalars = (intercept, self.learning_rate, self.order_weight)
            weights, offsets, squares, intercept = _updated_by_examination(*arguments, self._log_examination, scalars)
        else:
            weights, offsets, squares = _updated(*arguments, self.learning_rate)
        weights, offsets, squares = require_finite(weights), require_finite(offsets), require_finite(squares)
        return State(weights, offsets, squares, finite(intercept), state.shown)

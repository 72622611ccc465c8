"""Click residuals: items that are clicked more than is usual at their position move up, others move down."""

from functools import partial
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import FiniteNumbers, Positive, Probability, check_between
from rankloop.core.kernels import add_row, kernel
from rankloop.core.learner import clicks_by_item, require_finite, seen_part, shown_or_all
from rankloop.core.registry import Examples, register
from rankloop.core.types import Decision, Features, Feedback, Floats, Ints, Problem, Query
from rankloop.learners._shared.swap_propensity import PairSwapper, SwapProbability

N_RATES = 64  # with a rate of their own; the ones below share the last
PRIOR_UPDATES = 10.0  # The number of updates that the first value of a rate counts for.
MAX_COUNTED_UPDATES = 1000.0  # After so many updates a rate follows changes.


class State(NamedTuple):
    """The weights, and the click rate of each position."""

    weights: Floats  # One weight for each feature.
    rates: Floats  # The click rate of each position, when it is examined.
    counts: Floats  # The number of updates of each rate.
    shown: int  # The number of positions that are seen, −1 for all.

    def reachable(self, initial: "State") -> bool:
        """Return true if no count is below its start."""
        return bool(np.all(self.counts >= initial.counts))


@kernel
def _updated(
    rows: Features, weights: Floats, rates: Floats, counts: Floats, page: Ints, clicked: Floats, rate: float, below: int
) -> tuple[Floats, Floats, Floats]:
    """Return weights, rates and counts after a step from the examined positions: to the last click and `below` more."""
    after, rates, counts, end = weights.copy(), rates.copy(), counts.copy(), below
    for position in range(len(page)):
        if clicked[page[position]] > 0.0:
            end = position + 1 + below
    for position in range(min(end, len(page))):
        item, p = page[position], min(position, N_RATES - 1)
        residual = clicked[item] - rates[p]
        counts[p] += 1.0
        rates[p] += residual / min(counts[p] + PRIOR_UPDATES, MAX_COUNTED_UPDATES)
        add_row(after, rows, item, rate * residual)
    return after, rates, counts


@register("click_residuals")
class ClickResiduals(PairSwapper):
    """Add up the clicks that an item gets beyond the usual rate of its position.

    The list is sorted by w · x, and neighbours are swapped at random as in `fair_pairs`: no item moves more than one
    position. Users are assumed to examine the list down to their last click and `below` positions more. For each of
    these positions p,

      w ← w + `learning_rate` · (click_p − r_p) · x_p,

    where r_p is the click rate of position p over all queries, when it is examined. A click of weight v counts v times.

    Unlike in a regression, an item that is passed over again and again goes on sinking. With the step sizes of `hashed`
    a weight is in effect a t-statistic. The search box uses it inside `trusted_memory`, to memorise which document
    belongs to which words.

    Args:
      swap: The probability with which a pair of neighbours is swapped.
      learning_rate: The step size.
      below: The number of positions below the last click that count as examined.
      rate: The first value of every click rate.
      start: The first weights; zeros if empty.

    References:
      Radlinski and Joachims (2006), Minimally Invasive Randomization for Collecting Unbiased Preferences from
      Clickthrough Logs, for the swaps. Craswell et al. (2008), An Experimental Comparison of Click Position-Bias
      Models, for examination from the top.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("click_residuals", "web_search", "dcm", "nDCG@10"), 3)
      0.481
    """

    swap: SwapProbability = 0.05
    learning_rate: Positive = 0.1
    below: Annotated[int, partial(check_between, 0, 1_000)] = 1
    rate: Probability = 0.3
    start: FiniteNumbers = ()

    examples: ClassVar[Examples] = ({}, {"swap": 0.5, "below": 0, "rate": 0.05})

    def init(self, problem: Problem) -> State:
        return State(self.first_weights(problem), np.full(N_RATES, self.rate), np.zeros(N_RATES), shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        ranking, log_propensity = self._swapped(state, query, rng)[:2]
        return Decision(ranking, log_propensity, ())

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        clicked, page = clicks_by_item(feedback, query.n_items), seen_part(decision.ranking, state.shown)
        weights, rates, counts, rate = state.weights, state.rates, state.counts, self.learning_rate
        weights, rates, counts = _updated(query.features, weights, rates, counts, page, clicked, rate, self.below)
        return State(require_finite(weights), require_finite(rates), counts, state.shown)

"""Click residuals: what is clicked more than is usual at its position goes up, what is clicked less goes down."""

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_between
from rankloop.core.kernels import add_row, kernel
from rankloop.core.learner import check_receipt, clicks_by_item, require_finite, seen_part, shown_or_all
from rankloop.core.registry import Spec, register
from rankloop.core.types import Clicks, Decision, Features, Feedback, Floats, Ints, Problem, Query
from rankloop.learners._shared.perturbation import PairSwapper

POSITIONS = 64  # with a rate of their own; the ones below share the last
PRIOR = 10.0  # lessons that the first guess of a rate counts for
MEMORY = 1000.0  # lessons after which a rate follows changes


class State(NamedTuple):
    """The weights; how often each position is clicked, and how many lessons say so."""

    weights: Floats
    rates: Floats
    counts: Floats
    shown: int

    def reachable(self, initial: "State") -> bool:
        """A count is only ever added to."""
        return bool(np.all(self.counts >= initial.counts))


class Receipt(NamedTuple):
    """The scores that were sorted before swapping, to be looked at; the lesson needs the ranking alone."""

    scores: Floats


@kernel
def _learned(
    features: Features, state: State, seen: Ints, clicked: Floats, rate: float, below: int
) -> tuple[Floats, Floats, Floats]:
    """One step from the positions that were read, which are those down to the last click and `below` more."""
    after, rates, counts = state.weights.copy(), state.rates.copy(), state.counts.copy()
    end = below
    for position in range(len(seen)):
        if clicked[seen[position]] > 0.0:
            end = position + 1 + below
    for position in range(min(end, len(seen))):
        item, p = seen[position], min(position, POSITIONS - 1)
        residual = clicked[item] - rates[p]
        counts[p] += 1.0
        rates[p] += residual / min(counts[p] + PRIOR, MEMORY)
        add_row(after, features, item, rate * residual)
    return after, rates, counts


@register("click_residuals")
class ClickResiduals(PairSwapper):
    """Clicks beyond what the position explains add up, for every value of an item.

    The list is sorted by w · x, and neighbours are swapped at random as in `fair_pairs`: no item moves more than one
    position. People are taken to have read down to their last click and `below` positions more. For each position p of
    that part, w ← w + `learning_rate` · (click_p − r_p) · x_p, r_p being how often position p is clicked when it is
    read, over all queries: it begins at `rate` and is learned. A click of weight v counts v times.

    Unlike in a regression a weight does not settle where it predicts the click rate: what is passed over again and
    again goes on sinking, so that results from further down get their turn. With the steps of `hashed`, which shrink
    with the root of what a column has seen, a weight is in effect a t-statistic: as large as the evidence that a value
    is clicked more than usual.
    Use it behind a search box, to remember which document belongs to which words, with `trusted_memory` around it.
    References: Radlinski and Joachims (2006), Minimally Invasive Randomization for Collecting Unbiased Preferences from
    Clickthrough Logs, for the swaps; Craswell et al. (2008), An Experimental Comparison of Click Position-Bias Models,
    for reading from the top.
    """

    swap: float = 0.05
    learning_rate: float = 0.1
    below: int = 1
    rate: float = 0.3
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Clicks,)
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"swap": 0.5, "below": 0, "rate": 0.05})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_between(0, 1_000, below=self.below)
        check_between(0, 1, rate=self.rate)

    def init(self, problem: Problem) -> State:
        weights = self.first_weights(problem)
        return State(weights, np.full(POSITIONS, self.rate), np.zeros(POSITIONS), shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        ranking, log_propensity, scores, _ = self._swapped(state, query, rng)
        return Decision(ranking, log_propensity, Receipt(scores))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        check_receipt(decision.receipt.scores.shape == (len(decision.ranking),))
        clicked, seen = clicks_by_item(feedback, query.n_items), seen_part(decision.ranking, state.shown)
        weights, rates, counts = _learned(query.features, state, seen, clicked, self.learning_rate, self.below)
        weights, rates, counts = require_finite(weights), require_finite(rates), require_finite(counts)
        return State(weights, rates, counts, state.shown)

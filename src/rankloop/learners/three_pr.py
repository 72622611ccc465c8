"""3PR: the perturbed preference perceptron for ranking, which stays stable under noisy and biased clicks."""

from typing import Annotated, ClassVar, Literal, NamedTuple

from numpy.random import Generator

from rankloop.core.checks import Count, FiniteNumbers, Probability, check_finite
from rankloop.core.kernels import averaged_step, clicked_weights, kernel
from rankloop.core.learner import check_receipt, expect, finite, require_finite, shown_or_all
from rankloop.core.registry import Examples, register
from rankloop.core.types import Clicks, Decision, Feedback, Floats, Ints, Problem, Query
from rankloop.learners._shared import swap_propensity
from rankloop.learners._shared.swap_propensity import DYNAMIC_SWAP, PairSwapper

MOVE_TO_TOP = -1  # in place of a first pair: the clicked items of this round move to the top


class State(NamedTuple):
    """The weights, and the sums that decide the dynamic swap probability."""

    weights: Floats  # The weights by which the list is scored.
    newest: Floats  # The weights that are corrected; equal to `weights` unless averaged.
    shown: int  # The number of positions that are seen, −1 for all.
    rounds: int  # The number of rounds learned.
    score_agreement: float  # R_t, by how much users confirmed the order of the scores, summed over the rounds.
    max_perturbation: float  # D_t of the last round learned, the cost of swapping all its pairs.
    swap: float  # p_t of that round.


class Receipt(NamedTuple):
    """The scores, the range of the pairs, their cost D_t and the swap probability of the decision."""

    scores: Floats
    first: int
    end: int
    max_perturbation: float
    swap: float


@kernel
def _row_weights(
    ranking: Ints, items: Ints, click_weights: Floats, scores: Floats, first: int, end: int
) -> tuple[Floats, float]:
    """Return the multiple of each item's features that the clicks add, and w · (φ(x, ȳ) − φ(x, y)), their agreement."""
    clicked = clicked_weights(len(ranking), items, click_weights)
    if first == MOVE_TO_TOP:
        row_weights = swap_propensity.correction(ranking, swap_propensity.moved_to_top(ranking, clicked))
    else:
        row_weights = swap_propensity.pair_correction(ranking, clicked, first, end)
    confirmed = 0.0
    for i in range(len(scores)):
        confirmed += row_weights[i] * scores[i]
    return row_weights, confirmed


@register("3pr")
class ThreePR(PairSwapper):
    """Sort by w · x, swap neighbouring items at random, and correct w by the pairs that clicks contradict.

    Neighbouring positions are paired, beginning at the first or the second with probability ½, and each pair is swapped
    with probability `swap`: no item moves more than one position. When the lower item of a pair was clicked and the
    upper was not,

      w ← w + (γ_j − γ_(j+1)) · (x_lower − x_upper),  γ_j = 1 / log₂(j + 2).

    `swap` = "dynamic" takes p_t = clip((`budget` · t − R_t) / D_t, 0, 1), Proposition 6, with R_t the score agreement
    so far (by how much the corrections agreed with the scores) and D_t the cost of swapping all pairs.

    Recommended for preferences and clicks with a guarantee: its regret is bounded for users of informative feedback.

    Args:
      swap: The probability with which a pair is swapped, or "dynamic".
      perturb: "pairs" pairs all positions, "top_two" the first two alone.
      budget: Δ of the dynamic rule: how much R_t may grow per round in the mean.
      averaged: If true, the list is scored by the mean of all w so far.
      warm: The number of first rounds in which nothing is swapped and the clicked items move to the top.
      start: The first weights; zeros if empty.

    References:
      Raman, Joachims, Shivaswamy and Schnabel (2013), Stable Coactive Learning via Perturbation, Algorithms 2 and 3.
      (The line of Algorithm 3 that swaps the entries of a pair too would invert the feedback, and is left out.)

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("3pr", "web_search", "dcm", "nDCG@10"), 3)
      0.445
    """

    swap: Probability | Literal["dynamic"] = 0.5
    perturb: Literal["pairs", "top_two"] = "pairs"
    budget: Annotated[float, check_finite] = 0.0
    averaged: bool = False
    warm: Count = 0
    start: FiniteNumbers = ()

    reports: ClassVar[tuple[str, ...]] = ("score_agreement", "max_perturbation", "swap")
    examples: ClassVar[Examples] = (
        {},
        {"swap": "dynamic", "budget": 0.1, "averaged": True},
        {"perturb": "top_two", "swap": 0.3, "warm": 3},
    )

    def init(self, problem: Problem) -> State:
        weights = self.first_weights(problem)
        return State(weights, weights, shown_or_all(problem), 0, 0.0, 0.0, 0.0)

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        ranking, log_propensity, scores, first, end, cost, p = self._swapped(state, query, rng)
        first = MOVE_TO_TOP if state.rounds < self.warm else first
        return Decision(ranking, log_propensity, Receipt(scores, first, end, cost, p))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        items, clicks = expect(feedback, Clicks)
        scores, first, end, cost, swap = decision.receipt
        n_items = len(decision.ranking)
        check_receipt(scores.shape == (n_items,) and -1 <= first <= n_items and 0 <= end <= n_items)
        row_weights, confirmed = _row_weights(decision.ranking, items, clicks, scores, first, end)
        old_weights, rounds = state.weights, state.rounds
        weights, newest = averaged_step(query.features, old_weights, state.newest, rounds, self.averaged, row_weights)
        agreement = finite(state.score_agreement + confirmed)
        return State(require_finite(weights), newest, state.shown, rounds + 1, agreement, finite(cost), finite(swap))

    def _rule(self, state: State) -> tuple[bool, float, float]:
        swap = DYNAMIC_SWAP if self.swap == "dynamic" else self.swap
        allowance = self.budget * (state.rounds + 1) - state.score_agreement
        return self.perturb == "top_two", swap if state.rounds >= self.warm else 0.0, allowance

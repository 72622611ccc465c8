"""Fair pairs: swaps of neighbours as in 3PR, and a logistic step weighted by the known swap probabilities."""

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import Count, FiniteNumbers, Positive
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import averaged_step, kernel, scores_of
from rankloop.core.learner import check_receipt, clicks_by_item, require_finite, seen_part, shown_or_all
from rankloop.core.registry import Examples, register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query
from rankloop.learners._shared.swap_propensity import AveragedState as State
from rankloop.learners._shared.swap_propensity import PairSwapper, SwapProbability


class Receipt(NamedTuple):
    """The scores that were sorted before swapping, and the upper position of the first pair."""

    scores: Floats
    first: int


@kernel
def _pair_gradient(
    newest_scores: Floats, scores: Floats, ranking: Ints, first: int, swap: float, clicked: Floats, either: bool = False
) -> Floats:
    """Return the step by item: for each pair whose lower item was clicked more, that of a logistic regression."""
    row_weights = np.zeros(len(scores))
    for j in range(first, len(ranking) - 1, 2):
        upper, lower = ranking[j], ranking[j + 1]
        preference = clicked[lower] - clicked[upper]
        if preference > 0.0 or (either and preference < 0.0):
            # A logistic step, divided by the probability of the order shown: in expectation the position bias cancels.
            was_swapped = scores[upper] < scores[lower] or (scores[upper] == scores[lower] and upper > lower)
            probability = swap if was_swapped else 1.0 - swap
            lead = newest_scores[lower] - newest_scores[upper]
            if preference < 0.0:
                lead = -lead
            surprise = 1.0 / (1.0 + np.exp(lead))
            step = preference * surprise * 0.5 / probability
            row_weights[lower] += step
            row_weights[upper] -= step
    return row_weights


@register("fair_pairs")
class FairPairs(PairSwapper):
    """Swap neighbours at random as in `3pr`, and take an unbiased logistic step for each pair with unequal clicks.

    Neighbouring positions are paired, beginning at the first or the second with probability ½, and each pair is swapped
    with probability `swap`: no item moves more than one position. When the lower item of a pair was clicked and the
    upper was not,

      w ← w + `learning_rate` · ½ / P(this order) · σ(w · (upper − lower)) · (lower − upper),

    where P is `swap` or 1 − `swap` and σ the logistic function. Pairs that w orders already count little, and in
    expectation a pair counts the same in either order. The list is sorted by the running mean of w (Polyak averaging).

    What it shows while it learns is better than with `3pr`, and mostly better than with `pdgd`.

    Args:
      swap: The probability with which a pair of neighbours is swapped.
      learning_rate: The step size.
      memory: The number of rounds that the mean reaches back; a smaller one follows changes faster.
      either: If true, a pair also counts when its upper item was clicked and the lower was not.
      start: The first weights; zeros if empty.

    References:
      Radlinski and Joachims (2006), Minimally Invasive Randomization for Collecting Unbiased Preferences from
      Clickthrough Logs. Raman et al. (2013), Stable Coactive Learning via Perturbation. Polyak and Juditsky (1992),
      Acceleration of Stochastic Approximation by Averaging.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("fair_pairs", "web_search", "dcm", "nDCG@10"), 3)
      0.489
    """

    swap: SwapProbability = 0.3
    learning_rate: Positive = 0.1
    memory: Count = 3000
    either: bool = False
    start: FiniteNumbers = ()

    examples: ClassVar[Examples] = ({}, {"swap": 0.5, "learning_rate": 1.0, "memory": 3}, {"either": True})

    def __post_init__(self) -> None:
        if self.swap == 0:
            raise InvalidInput("swap must be above 0: both orders have to be shown")

    def init(self, problem: Problem) -> State:
        weights = self.first_weights(problem)
        return State(weights, weights, shown_or_all(problem), 0)

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[Receipt]:
        ranking, log_propensity, scores, first = self._swapped(state, query, rng)[:4]
        return Decision(ranking, log_propensity, Receipt(scores, first))

    def learn(self, state: State, query: Query, decision: Decision[Receipt], feedback: Feedback) -> State:
        scores, first = decision.receipt
        check_receipt(scores.shape == (len(decision.ranking),) and 0 <= first <= 1)
        ranking, clicked = seen_part(decision.ranking, state.shown), clicks_by_item(feedback, len(decision.ranking))
        newest_scores, rounds = scores_of(query.features, state.newest), min(state.rounds, self.memory)
        gradient = _pair_gradient(newest_scores, scores, ranking, first, self.swap, clicked, self.either)
        old_weights, rate = state.weights, self.learning_rate
        weights, newest = averaged_step(query.features, old_weights, state.newest, rounds, True, gradient, rate)
        return State(require_finite(weights), newest, state.shown, state.rounds + 1)  # finite only if `newest` is

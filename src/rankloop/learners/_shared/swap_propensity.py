"""Swaps of neighbours with the exact propensity of the shown ranking, and corrections of a ranking by feedback.

PERTURB and GET-FEEDBACK in Algorithm 3 of Raman et al. (2013). A correction is one weight per item, c, such that
φ(x, better) − φ(x, shown) = Σ_i c[i] · features[i] in the joint features φ(x, y) = Σ_p discount(p) · x[y_p].
"""

from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import discount, discounts, kernel, ranking_of, scores_of, seen_count
from rankloop.core.learner import SparseLearner
from rankloop.core.types import Features, Floats, Ints, Query, Rows

DYNAMIC_SWAP = -1.0  # in place of a swap probability: it follows the allowance
# From each position to the next; a logarithm for each pair would dominate a short ranking.
DISCOUNT_DROPS = -np.diff(discounts(257))


def _check_swap(swap: float) -> None:
    if not 0 <= swap < 1:
        raise InvalidInput(f"swap = {swap} must be a probability from 0, below 1")


SwapProbability = Annotated[float, _check_swap]


class AveragedState(NamedTuple):
    """The mean of all weights so far, and the newest weights."""

    weights: Floats  # The mean, by which the list is scored.
    newest: Floats  # The weights that are corrected.
    shown: int  # The number of positions that are seen, −1 for all.
    rounds: int  # The number of rounds learned.


@kernel
def correction(shown: Ints, better: Ints) -> Floats:
    """Return the discount that each item gains when `better` replaces `shown`.

    Args:
      shown: The ranking that was shown.
      better: The better ranking.
    """
    row_weights = np.zeros(len(shown))
    for position in range(len(shown)):
        if shown[position] != better[position]:
            row_weights[better[position]] += discount(position)
            row_weights[shown[position]] -= discount(position)
    return row_weights


@kernel
def moved_to_top(shown: Ints, clicked: Floats) -> Ints:
    """Return the clicked items first, then the others, each group in the order in which it was shown.

    Args:
      shown: The ranking that was shown.
      clicked: The weight of the click on each item.
    """
    better, position = np.empty_like(shown), 0
    for is_clicked in (True, False):
        for item in shown:
            if (clicked[item] > 0.0) == is_clicked:
                better[position] = item
                position += 1
    return better


@kernel
def pair_correction(shown: Ints, clicked: Floats, first: int, end: int) -> Floats:
    """Return the correction that exchanges each pair of neighbours whose lower item was clicked more.

    GET-FEEDBACK in Algorithm 3 of Raman et al. (2013), for clicks that may have weights. A pair counts by the
    difference of its discounts times the difference of its clicks.

    Args:
      shown: The ranking that was shown.
      clicked: The weight of the click on each item.
      first: The upper position of the first pair.
      end: The position before which the pairs end.
    """
    row_weights = np.zeros(len(shown))
    for j in range(first, end - 1, 2):
        upper, lower = shown[j], shown[j + 1]
        preference = clicked[lower] - clicked[upper]
        if preference > 0.0:
            step = preference * _pair_weight(j)
            row_weights[lower] += step
            row_weights[upper] -= step
    return row_weights


@kernel
def _pair_weight(j: int) -> float:
    """Return the change of the joint features when the items at positions j and j + 1 are swapped."""
    if j < len(DISCOUNT_DROPS):
        return float(DISCOUNT_DROPS[j])
    return discount(j) - discount(j + 1)


@kernel
def _swap_cost(scores: Floats, best: Ints, first: int, end: int) -> float:
    """Return D_t of section 6, the utility that the learner expects to lose when every pair is swapped."""
    total = 0.0
    for j in range(first, end - 1, 2):
        total += _pair_weight(j) * (scores[best[j]] - scores[best[j + 1]])
    return total


@kernel
def _swap_probability(swap: float, allowance: float, cost: float) -> float:
    """Return `swap` or, if dynamic, p_t = clip((Δ·t − R_t) / D_t, 0, 1) of Proposition 6."""
    if swap >= 0.0:
        return swap
    if allowance <= 0.0:
        return 0.0
    if allowance >= cost:
        return 1.0
    return allowance / cost


@kernel
def _times_log(count: int, probability: float) -> float:
    """Return count · log(probability), 0 for a count of 0."""
    if count == 0:
        return 0.0
    return count * np.log(probability) if probability > 0.0 else -np.inf


@kernel
def _end_of_pairs(n_items: int, top_two: bool) -> int:
    """Return the position before which the pairs end."""
    return min(n_items, 2) if top_two else n_items


@kernel
def _log_prob(
    scores: Floats, best: Ints, ranking: Ints, shown: int, top_two: bool, swap: float, allowance: float
) -> float:
    """Return log Σ_pairings P(pairing) · p^(pairs swapped) · (1 − p)^(other pairs), over the seen part."""
    n_seen, end, n_pairings = seen_count(shown, len(best)), _end_of_pairs(len(best), top_two), 1 if top_two else 2
    total, share = -np.inf, 1.0 / n_pairings
    # A ranking may come from both pairings, whose probabilities add up. Half-seen pairs count by their upper item.
    for first in range(n_pairings):
        p = _swap_probability(swap, allowance, _swap_cost(scores, best, first, end))
        swapped, unswapped, fits, j = 0, 0, True, 0
        while j < n_seen and fits:
            if j < first or j + 1 >= end:
                fits = ranking[j] == best[j]
                j += 1
                continue
            lower_is_seen = j + 1 < n_seen
            if ranking[j] == best[j]:
                fits = not lower_is_seen or ranking[j + 1] == best[j + 1]
                unswapped += 1
            else:
                fits = ranking[j] == best[j + 1] and (not lower_is_seen or ranking[j + 1] == best[j])
                swapped += 1
            j += 2
        if fits:
            total = np.logaddexp(total, np.log(share) + _times_log(swapped, p) + _times_log(unswapped, 1.0 - p))
    return total


@kernel
def _present(
    features: Features, weights: Floats, shown: int, top_two: bool, swap: float, allowance: float, draws: Floats
) -> tuple[Ints, float, Floats, int, int, float, float]:
    """Return the perturbed ranking, its log-probability, the scores, and first, end, D_t and p_t of the pairs."""
    scores = scores_of(features, weights)
    best = ranking_of(scores)
    # FORMPAIRS: the first draw chooses the pairing; each further draw swaps one pair with probability p_t.
    first, end = 0 if top_two or draws[0] < 0.5 else 1, _end_of_pairs(len(best), top_two)
    cost = _swap_cost(scores, best, first, end)
    p = _swap_probability(swap, allowance, cost)
    ranking = best.copy()
    for j in range(first, end - 1, 2):
        if draws[1 + j // 2] < p:
            ranking[j], ranking[j + 1] = best[j + 1], best[j]
    log_propensity = _log_prob(scores, best, ranking, shown, top_two, swap, allowance)
    return ranking, log_propensity, scores, first, end, cost, p


class PairSwapper(SparseLearner):
    """A learner that shows the list by w · x with neighbours swapped at random.

    Pairs begin at the first or the second position with probability ½, and each is swapped with probability `swap`: no
    item moves more than one position.
    """

    swap: Any

    weighs_clicks: ClassVar[bool] = True  # a click of weight v counts v times, so outcomes can be learned

    def log_prob(self, state: Any, query: Query, ranking: Ints) -> float:
        scores, (top_two, swap, allowance) = scores_of(query.features, state.weights), self._rule(state)
        return _log_prob(scores, ranking_of(scores), ranking, state.shown, top_two, swap, allowance)

    def _rule(self, state: Any) -> tuple[bool, float, float]:
        """Return if only the top two are paired, the swap probability and its allowance."""
        return False, self.swap, 0.0

    def _swapped(self, state: Any, query: Query, rng: Generator) -> tuple[Ints, float, Floats, int, int, float, float]:
        """Return the ranking to show, its log-probability, the scores, and first, end, D_t and p_t of the pairs."""
        features, (top_two, swap, allowance) = query.features, self._rule(state)
        n_items = features.n_items if type(features) is Rows else len(features)
        return _present(features, state.weights, state.shown, top_two, swap, allowance, rng.random(1 + n_items // 2))

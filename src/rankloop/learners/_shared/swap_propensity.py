"""Swaps of neighbours with the exact propensity of the shown ranking: PERTURB in Algorithm 3 of Raman et al. (2013)."""

from typing import Any

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel, ranking_of, scores_of, seen_count
from rankloop.core.learner import SparseLearner
from rankloop.core.types import Features, Floats, Ints, Query, Rows
from rankloop.learners._shared.joint_features import pair_weight

# How the positions may be paired, one row each: its probability, the first pair's upper position, and the position
# before which the pairs end, if not at the end of the list. Another perturbation is another entry.
PAIRINGS_BY_NAME = {"pairs": np.array([[0.5, 0, 2.0**31], [0.5, 1, 2.0**31]]), "top_two": np.array([[1.0, 0, 2]])}
DYNAMIC_SWAP = -1.0  # in place of a swap probability: it follows the allowance


@kernel
def _swap_cost(scores: Floats, best: Ints, first: int, end: int, flat: bool) -> float:
    """Return D_t of section 6, the utility that the learner expects to lose when every pair is swapped."""
    total = 0.0
    for j in range(first, end - 1, 2):
        total += pair_weight(j, flat) * (scores[best[j]] - scores[best[j + 1]])
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
def _log_prob(
    scores: Floats, best: Ints, ranking: Ints, shown: int, pairings: Floats, flat: bool, swap: float, allowance: float
) -> float:
    """Return log Σ_pairings P(pairing) · p^(pairs swapped) · (1 − p)^(other pairs), over the seen part."""
    n_items = len(best)
    n_seen = seen_count(shown, n_items)
    total = -np.inf
    # A ranking may come from several pairings, whose probabilities add up. Half-seen pairs count by their upper item.
    for pairing in pairings:
        first, end = int(pairing[1]), min(int(pairing[2]), n_items)
        p = _swap_probability(swap, allowance, _swap_cost(scores, best, first, end, flat))
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
            total = np.logaddexp(total, np.log(pairing[0]) + _times_log(swapped, p) + _times_log(unswapped, 1.0 - p))
    return total


@kernel
def _present(
    features: Features,
    weights: Floats,
    shown: int,
    pairings: Floats,
    flat: bool,
    swap: float,
    allowance: float,
    draws: Floats,
) -> tuple[Ints, float, Floats, int, int, float, float]:
    """Return the perturbed ranking, its log-probability, the scores, and first, end, D_t and p_t of the pairs."""
    scores = scores_of(features, weights)
    best = ranking_of(scores)
    # FORMPAIRS: the first draw chooses the pairing; each further draw swaps one pair with probability p_t.
    row, share = 0, pairings[0, 0]
    while draws[0] >= share and row + 1 < len(pairings):
        row += 1
        share += pairings[row, 0]
    first, end = int(pairings[row, 1]), min(int(pairings[row, 2]), len(best))
    cost = _swap_cost(scores, best, first, end, flat)
    p = _swap_probability(swap, allowance, cost)
    ranking = best.copy()
    for j in range(first, end - 1, 2):
        if draws[1 + j // 2] < p:
            ranking[j], ranking[j + 1] = best[j + 1], best[j]
    log_propensity = _log_prob(scores, best, ranking, shown, pairings, flat, swap, allowance)
    return ranking, log_propensity, scores, first, end, cost, p


class PairSwapper(SparseLearner):
    """A learner that shows the list by w · x with neighbours swapped at random.

    Pairs begin at the first or the second position with probability ½, and each is swapped with probability `swap`: no
    item moves more than one position.
    """

    swap: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.swap < 1:
            raise InvalidInput(f"swap = {self.swap} must be a probability from 0, below 1")

    def log_prob(self, state: Any, query: Query, ranking: Ints) -> float:
        scores, (pairings, flat, swap, allowance) = scores_of(query.features, state.weights), self._rule(state)
        return _log_prob(scores, ranking_of(scores), ranking, state.shown, pairings, flat, swap, allowance)

    def _rule(self, state: Any) -> tuple[Floats, bool, float, float]:
        """Return the pairings, true if all pairs cost the same, the swap probability, and its allowance if dynamic."""
        return PAIRINGS_BY_NAME["pairs"], True, self.swap, 0.0

    def _swapped(self, state: Any, query: Query, rng: Generator) -> tuple[Ints, float, Floats, int, int, float, float]:
        """Return the ranking to show, its log-probability, the scores, and first, end, D_t and p_t of the pairs."""
        pairings, flat, swap, allowance = self._rule(state)
        features = query.features
        n_items = features.n_items if type(features) is Rows else len(features)
        draws = rng.random(1 + n_items // 2)
        return _present(features, state.weights, state.shown, pairings, flat, swap, allowance, draws)

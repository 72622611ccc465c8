"""How likely each position is to be examined, learned from clicks: what propensity weights are made of."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel, ranking_of
from rankloop.core.types import Arrival, Clicks, Floats, Ints, finite_floats, item_indices

MIN_EXAMINATION = 1e-6


class Bias(NamedTuple):
    """Relative probabilities of examination; that of the first position is 1."""

    examined: Floats
    rounds: int  # of EM; 0 where there was none


class Impressions(NamedTuple):
    """Every shown item of every shown ranking: who it is, where it stood, and whether it was clicked."""

    pair: Ints  # the number of its (query, item) pair
    position: Ints
    clicked: Floats


def impressions(pair: ArrayLike, position: ArrayLike, clicked: ArrayLike) -> Impressions:
    """Check and copy: pairs and positions count from 0, clicks are 0 or 1."""
    pairs, positions = item_indices(pair, "pair"), item_indices(position, "position")
    clicks = finite_floats(clicked, 1, "clicked")
    if not len(pairs) == len(positions) == len(clicks) > 0:
        raise InvalidInput("pair, position and clicked need the same length, at least 1")
    if pairs.min() < 0 or positions.min() < 0 or not np.isin(clicks, (0.0, 1.0)).all():
        raise InvalidInput("pairs and positions count from 0, clicked is 0 or 1")
    return Impressions(pairs, positions, clicks)


def any_moved(log: Impressions) -> bool:
    """Whether a pair stands at two positions, without which `bias_by_em` has nothing to compare."""
    one_position = np.zeros(int(log.pair.max()) + 1, dtype=np.int64)
    one_position[log.pair] = log.position
    return bool((one_position[log.pair] != log.position).any())


def bias_from_swaps(
    positions: ArrayLike, clicked: ArrayLike, probabilities: ArrayLike, n_positions: int, smoothing: float = 1.0
) -> Bias:
    """Position bias from neighbours that were swapped at random, as `3pr` does anyway.

    Each entry is an item of such a pair: where it stood, whether it was clicked, and the probability that it stood
    there rather than one position up or down. Every pair of neighbouring positions p, p + 1 compares the same items, so
    examined[p + 1] / examined[p] = Σ_(at p+1) clicked / probability ÷ Σ_(at p) clicked / probability, and the ratios
    multiply up from the top. An item belongs to the comparison of its pair alone: `positions` holds (upper position of
    the pair, own position). `smoothing` clicks are added to either side.
    Reference: Agarwal, Zaitsev, Wang, Li, Najork and Joachims (2019), Estimating Position Bias without Intrusive
    Interventions.
    """
    both = np.asarray(positions, dtype=np.int64)
    hits, shares = finite_floats(clicked, 1, "clicked"), finite_floats(probabilities, 1, "probabilities")
    if both.ndim != 2 or both.shape[1] != 2 or not len(both) == len(hits) == len(shares):
        raise InvalidInput(
            "positions holds (upper position of the pair, own position) for each entry of clicked and probabilities"
        )
    if len(shares) and not ((shares > 0) & (shares <= 1)).all():
        row = int(np.flatnonzero(~((shares > 0) & (shares <= 1)))[0])
        raise InvalidInput(f"row {row}: the probability is {shares[row]}; what happened had one above 0 and at most 1")
    upper, lower = (_clicks_at(both, hits / shares, step, n_positions) for step in (0, 1))
    examined = np.ones(n_positions)
    for position in range(n_positions - 1):
        ratio = (lower[position] + smoothing) / (upper[position] + smoothing)
        examined[position + 1] = max(MIN_EXAMINATION, examined[position] * ratio)
    return Bias(examined, 0)


def swap_entries(log: Iterable[Arrival], n_positions: int) -> tuple[Ints, Floats, Floats]:
    """Entries for `bias_from_swaps` from the decisions of `3pr` and their clicks.

    Its receipts tell the pairs, the scores, hence which order each pair had before, and the swap probability p: an item
    that stayed had the probability 1 − p, one that moved p. Rounds without chance (p = 0 or 1) tell nothing.
    """
    positions: list[tuple[int, int]] = []
    clicked: list[float] = []
    probabilities: list[float] = []
    for _, decision, feedback in log:
        receipt = decision.receipt
        if not isinstance(feedback, Clicks) or not hasattr(receipt, "swap"):
            raise InvalidInput("swaps are told by the receipts of 3pr with clicks as feedback")
        hit, before = set(feedback.items.tolist()), ranking_of(receipt.scores)
        if 0.0 < receipt.swap < 1.0 and receipt.first >= 0:
            for upper in range(receipt.first, min(receipt.end, n_positions) - 1, 2):
                for own in (upper, upper + 1):
                    item = int(decision.ranking[own])
                    positions.append((upper, own))
                    clicked.append(float(item in hit))
                    probabilities.append(1.0 - receipt.swap if int(before[own]) == item else receipt.swap)
    return np.array(positions, np.int64).reshape(-1, 2), np.array(clicked), np.array(probabilities)


@kernel
def _em_round(pair: Ints, position: Ints, clicked: Floats, examined: Floats, attractive: Floats) -> float:
    """One round in place: expected examinations and attractions given the clicks, then their means; largest change."""
    examinations, shown_at = np.zeros(len(examined)), np.zeros(len(examined))
    attractions, shown_of = np.zeros(len(attractive)), np.zeros(len(attractive))
    for row in range(len(pair)):
        i, p = pair[row], position[row]
        both = examined[p] * attractive[i]
        missed = max(1.0 - both, 1e-12)
        examinations[p] += 1.0 if clicked[row] > 0.0 else examined[p] * (1.0 - attractive[i]) / missed
        attractions[i] += 1.0 if clicked[row] > 0.0 else attractive[i] * (1.0 - examined[p]) / missed
        shown_at[p] += 1.0
        shown_of[i] += 1.0
    change = 0.0
    for p in range(len(examined)):
        if shown_at[p] > 0.0:
            change = max(change, abs(examinations[p] / shown_at[p] - examined[p]))
            examined[p] = examinations[p] / shown_at[p]
    for i in range(len(attractive)):
        if shown_of[i] > 0.0:
            attractive[i] = attractions[i] / shown_of[i]
    return change


def bias_by_em(log: Impressions, max_rounds: int = 1000, tolerance: float = 1e-6) -> Bias:
    """Position bias by expectation maximisation of P(click) = examined[position] · attractive[(query, item)].

    Needs the same pairs at different positions, as any log has whose rankings changed; otherwise the two factors cannot
    be told apart. References: Wang, Golbandi, Bendersky, Metzler and Najork (2018), Position Bias Estimation for
    Unbiased Learning to Rank in Personal Search (without its regression); Richardson, Dominowska and Ragno (2007).
    """
    examined = np.linspace(0.9, 0.5, int(log.position.max()) + 1)
    attractive = np.full(int(log.pair.max()) + 1, 0.5)
    done, change = 0, np.inf
    while change >= tolerance and done < max_rounds:
        change = _em_round(log.pair, log.position, log.clicked, examined, attractive)
        done += 1
    relative: Floats = np.maximum(examined / max(examined[0], MIN_EXAMINATION), MIN_EXAMINATION)
    return Bias(relative, done)


def _clicks_at(positions: Ints, weights: Floats, step: int, n_positions: int) -> Floats:
    """The weighted clicks at the upper (step 0) or lower (step 1) position of each pair of positions."""
    chosen = positions[:, 1] - positions[:, 0] == step
    counts: Floats = np.bincount(positions[chosen, 0], weights[chosen], n_positions).astype(np.float64)
    return counts

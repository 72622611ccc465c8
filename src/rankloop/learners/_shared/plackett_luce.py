"""The Plackett–Luce model: rankings drawn position by position with probability ∝ exp(score), perhaps within limits."""

import numpy as np

from rankloop.core.kernels import due_item, kernel, positions_of
from rankloop.core.types import Floats, Ints

FAR_BELOW = -600.0  # scores further below the best count as this far, so that no probability becomes 0


@kernel
def strengths_of(scores: Floats) -> Floats:
    """exp(score − best score) of each item."""
    strengths = np.empty(len(scores))
    best = scores.max()
    for i in range(len(scores)):
        difference = scores[i] - best
        strengths[i] = np.exp(difference) if difference > FAR_BELOW else np.exp(FAR_BELOW)
    return strengths


@kernel
def draw(strengths: Floats, best: Ints, positions: int, keep_first: bool, draws: Floats) -> Ints:
    """A ranking, one double per position; no item is more than `positions` from where `best` has it (−1: no limit)."""
    n_items = len(best)
    positions = min(positions, n_items)  # more are no limit either, and would overflow
    at, taken, ranking = positions_of(best), np.zeros(n_items, np.int64), np.empty(n_items, np.int64)
    for position in range(n_items):
        highest = n_items if positions < 0 else position + positions
        chosen = due_item(best, position, positions, keep_first, taken)
        if chosen < 0:
            left = draws[position] * _total(strengths, at, taken, highest)
            for item in range(n_items):
                if taken[item] == 0 and at[item] <= highest:
                    chosen = item
                    left -= strengths[item]
                    if left < 0.0:
                        break
        ranking[position] = chosen
        taken[chosen] = 1
    return ranking


@kernel
def log_prob_of(strengths: Floats, best: Ints, ranking: Ints, seen: int, positions: int, keep_first: bool) -> float:
    """The log-probability with which `draw` gives the first `seen` positions of `ranking`."""
    positions = min(positions, len(best))
    at, taken, total = positions_of(best), np.zeros(len(best), np.int64), 0.0
    for position in range(seen):
        item, highest = ranking[position], len(best) if positions < 0 else position + positions
        due = due_item(best, position, positions, keep_first, taken)
        if at[item] > highest or (due >= 0 and due != item):
            return -np.inf
        if due < 0:
            total += np.log(strengths[item] / _total(strengths, at, taken, highest))
        taken[item] = 1
    return total


@kernel
def _total(strengths: Floats, at: Ints, taken: Ints, highest: int) -> float:
    """The strength of all items that may be drawn now."""
    total = 0.0
    for item in range(len(strengths)):
        if taken[item] == 0 and at[item] <= highest:
            total += strengths[item]
    return total


@kernel
def swap_odds(strengths: Floats, ranking: Ints, upper: int, lower: int) -> float:
    """P(ranking with these two positions swapped) / P(ranking), without limit: only those between them differ."""
    of_upper, odds, others = strengths[ranking[upper]], 1.0, 0.0
    of_lower = strengths[ranking[lower]]
    for position in range(lower + 1, len(ranking)):
        others += strengths[ranking[position]]
    for position in range(lower, upper, -1):
        if position < lower:
            others += strengths[ranking[position]]
        odds *= (others + of_lower) / (others + of_upper)
    return odds


@kernel
def limited_swap_odds(
    strengths: Floats, best: Ints, ranking: Ints, upper: int, lower: int, seen: int, positions: int, keep_first: bool
) -> float:
    """The same when items may not move freely: by the two probabilities themselves."""
    swapped = ranking.copy()
    swapped[upper], swapped[lower] = ranking[lower], ranking[upper]
    as_shown = log_prob_of(strengths, best, ranking, seen, positions, keep_first)
    other: float = np.exp(log_prob_of(strengths, best, swapped, seen, positions, keep_first) - as_shown)
    return other

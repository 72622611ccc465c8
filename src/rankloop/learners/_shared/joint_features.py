"""Corrections of a ranking in the joint features φ(x, y) = Σ_p discount(p) · φ(x, y[p]) of coactive learning.

Each kernel answers with one weight per item, c, such that φ(x, better) − φ(x, shown) = Σ_i c[i] · features[i].
"""

from typing import NamedTuple

import numpy as np

from rankloop.core.kernels import discount, discounts, kernel, seen_count
from rankloop.core.types import Floats, Ints

DROPS = -np.diff(discounts(257))  # from each position to the next; a logarithm per pair would dominate a short ranking


class AveragedState(NamedTuple):
    """A mean of all weights so far, by which the list is scored, and the newest ones, which are corrected."""

    weights: Floats
    newest: Floats
    shown: int
    rounds: int


@kernel
def correction(shown: Ints, better: Ints) -> Floats:
    """What each item gains in discount when `better` replaces `shown`."""
    row_weights = np.zeros(len(shown))
    for position in range(len(shown)):
        if shown[position] != better[position]:
            row_weights[better[position]] += discount(position)
            row_weights[shown[position]] -= discount(position)
    return row_weights


@kernel
def examined_count(ranking: Ints, shown: int, clicked: Floats) -> int:
    """How many positions were looked at: down to the last click, or all that were shown when there is none."""
    seen = seen_count(shown, len(ranking))
    for position in range(seen - 1, -1, -1):
        if clicked[ranking[position]] > 0.0:
            return position + 1
    return seen


@kernel
def moved_to_top(shown: Ints, clicked: Floats) -> Ints:
    """The clicked items first, then the others, each group in the order in which it was shown."""
    better = np.empty_like(shown)
    position = 0
    for item in shown:
        if clicked[item] > 0.0:
            better[position] = item
            position += 1
    for item in shown:
        if clicked[item] <= 0.0:
            better[position] = item
            position += 1
    return better


@kernel
def swapped_to_first(shown: Ints, clicked: Floats) -> Ints:
    """The uppermost clicked item is exchanged with the first one."""
    better = shown.copy()
    for position in range(len(shown)):
        if clicked[shown[position]] > 0.0:
            better[0], better[position] = shown[position], shown[0]
            break
    return better


@kernel
def pair_correction(shown: Ints, clicked: Floats, first: int, end: int, flat: bool) -> Floats:
    """Each pair of positions (j, j + 1), j = first, first + 2, …, turned round when its lower item was clicked more.

    With clicks of weight 1 that is: the lower was clicked and the upper was not. A pair counts by the difference of
    its discounts, or 1 when `flat`, times the difference of its clicks.
    """
    row_weights = np.zeros(len(shown))
    for j in range(first, end - 1, 2):
        upper, lower = shown[j], shown[j + 1]
        preference = clicked[lower] - clicked[upper]
        if preference > 0.0:
            step = preference * pair_weight(j, flat)
            row_weights[lower] += step
            row_weights[upper] -= step
    return row_weights


@kernel
def pair_weight(j: int, flat: bool) -> float:
    """What the joint features change by when the items at positions j and j + 1 are swapped."""
    if flat:
        return 1.0
    if j < len(DROPS):
        return float(DROPS[j])
    return discount(j) - discount(j + 1)

"""Corrections of a ranking in the joint features φ(x, y) = Σ_p discount(p) · x[y_p] of coactive learning.

Each kernel returns one weight per item, c, such that φ(x, better) − φ(x, shown) = Σ_i c[i] · features[i].
"""

from typing import NamedTuple

import numpy as np

from rankloop.core.kernels import discount, discounts, kernel
from rankloop.core.types import Floats, Ints

# From each position to the next; a logarithm for each pair would dominate a short ranking.
DISCOUNT_DROPS = -np.diff(discounts(257))


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
def pair_correction(shown: Ints, clicked: Floats, first: int, end: int, flat: bool) -> Floats:
    """Return the correction that exchanges each pair of neighbours whose lower item was clicked more.

    GET-FEEDBACK in Algorithm 3 of Raman et al. (2013), for clicks that may have weights. A pair counts by the
    difference of its discounts times the difference of its clicks.

    Args:
      shown: The ranking that was shown.
      clicked: The weight of the click on each item.
      first: The upper position of the first pair.
      end: The position before which the pairs end.
      flat: If true, 1 replaces the difference of the discounts.
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
    """Return the change of the joint features when the items at positions j and j + 1 are swapped.

    Args:
      j: The upper position.
      flat: If true, 1 replaces the difference of the discounts.
    """
    if flat:
        return 1.0
    if j < len(DISCOUNT_DROPS):
        return float(DISCOUNT_DROPS[j])
    return discount(j) - discount(j + 1)

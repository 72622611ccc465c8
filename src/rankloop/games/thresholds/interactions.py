"""Which items a difference of losses needs to see together, and how deep a ranking must be read for that.

A function of the grades is a sum of terms, one per set of items and levels of their grades: the product over the items
of [grade of the item = level], levels from 1. What the first `depth` grades of a ranking reveal is the span of the
terms whose items all stand among those `depth`. So a difference of two loss rows can be estimated from a family of
rankings if and only if each of its terms lies inside the top of one of them; no rank computation is needed.
"""

import numpy as np
from numpy.typing import NDArray

from rankloop.core.types import Bools, Floats, Ints
from rankloop.games.thresholds.numbers import is_zero


def coefficients(rows: NDArray[np.generic], n_items: int, max_grade: int) -> NDArray[np.generic]:
    """The terms of functions of the relevance: entry r of a row belongs to the items with grade ≥ 1 in relevance r.

    The Möbius transform along every item: f(level) − f(0) for levels from 1, f(0) else. Whole numbers stay whole.
    """
    terms = np.array(rows).reshape(len(rows), *[max_grade + 1] * n_items)
    for item in range(1, n_items + 1):
        along = np.moveaxis(terms, item, 0)
        along[1:] -= along[0]
    return terms.reshape(len(rows), -1)


def nonzero(terms: NDArray[np.generic]) -> Bools:
    """Which terms are there; doubles have to be of the size of 1."""
    if terms.dtype.kind == "i":
        return np.asarray(terms != 0)
    return ~is_zero(np.asarray(terms, dtype=np.float64))


def item_sets(relevances: Ints) -> Ints:
    """The set of items with grade ≥ 1 of each relevance, as a binary number (item i is bit i)."""
    return np.asarray((relevances > 0) @ (1 << np.arange(relevances.shape[1])), dtype=np.int64)


def needed_sets(present: Bools, sets: Ints, n_items: int) -> Bools:
    """(n_rows, 2^n_items): the sets of items with at least one term."""
    needed = np.zeros((len(present), 1 << n_items), dtype=np.bool_)
    for number in range(1, 1 << n_items):
        needed[:, number] = present[:, sets == number].any(axis=1)
    return needed


def depth_to_see(ranks: Ints) -> Ints:
    """(n_rankings, 2^n_items): how many top positions of each ranking hold all items of each set."""
    n_rankings, n_items = ranks.shape
    depths = np.zeros((n_rankings, 1 << n_items), dtype=np.int64)
    for item in range(n_items):
        below = depths[:, : 1 << item]
        depths[:, 1 << item : 2 << item] = np.maximum(below, ranks[:, item : item + 1] + 1)
    return depths


def scaled(rows: Floats) -> Floats:
    """Rows of the size of 1, for comparisons with fixed tolerances."""
    return rows / (np.abs(rows).max() or 1.0)

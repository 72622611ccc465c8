"""Items grouped by grade in one pass, for the surrogates that compare each grade with all lower ones."""

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints

MAX_DIRECT_GRADE = 64  # whole grades up to this are their own level; others are sorted first


@kernel
def levels_of(relevance: Floats) -> tuple[Ints, int]:
    """The level of each item (equal grades, equal level; higher grade, higher level), and how many levels there are."""
    n_items, top = len(relevance), 0
    levels = np.empty(n_items, np.int64)
    direct = True
    for i in range(n_items):
        grade = relevance[i]
        if not (0.0 <= grade <= MAX_DIRECT_GRADE and grade == np.floor(grade)):
            direct = False
            break
        levels[i] = int(grade)
        top = max(top, levels[i])
    if direct:
        return levels, top + 1
    distinct = np.unique(relevance)
    return np.searchsorted(distinct, relevance), len(distinct)


@kernel
def best_below(scores: Floats, levels: Ints, n_levels: int) -> Ints:
    """For each level the item of highest score among all lower levels; −1 where there is none."""
    best = np.full(n_levels, -1)
    for i in range(len(scores)):
        level = levels[i]
        if best[level] < 0 or scores[i] > scores[best[level]]:
            best[level] = i
    below, so_far = np.empty(n_levels, np.int64), -1
    for level in range(n_levels):
        below[level] = so_far
        if best[level] >= 0 and (so_far < 0 or scores[best[level]] > scores[so_far]):
            so_far = best[level]
    return below

"""Many queries at once: ragged lists by offsets, checked at the border and put into shown order."""

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel, ranking_of
from rankloop.core.types import Floats, Ints, finite_floats, item_indices

FEW = 32  # up to this cutoff, selecting the top of a list twelve times as long beats sorting everything
COUNTED = 64  # whole grades below this are sorted by counting


@kernel
def rankings_of(scores: Floats, offsets: Ints, cutoff: int) -> Ints:
    """Each query's ranking, one after another; below the cutoff the order is that of the items."""
    rankings = np.empty(len(scores), np.int64)
    for q in range(len(offsets) - 1):
        own = slice(offsets[q], offsets[q + 1])
        n_items = offsets[q + 1] - offsets[q]
        if cutoff <= min(FEW, n_items // 12):
            _select(scores[own], rankings[own], cutoff)
        else:
            rankings[own] = ranking_of(scores[own])
    return rankings


@kernel
def _select(scores: Floats, ranking: Ints, cutoff: int) -> None:
    """The first `cutoff` positions of `ranking_of(scores)`, then the other items by number."""
    chosen = np.zeros(len(scores), np.bool_)
    for item in range(len(scores)):
        position = min(item, cutoff)
        if position == cutoff:
            if scores[item] <= scores[ranking[cutoff - 1]]:
                continue
            position -= 1
            chosen[ranking[position]] = False
        while position > 0 and scores[ranking[position - 1]] < scores[item]:
            ranking[position] = ranking[position - 1]
            position -= 1
        ranking[position] = item
        chosen[item] = True
    position = cutoff
    for item in range(len(scores)):
        if not chosen[item]:
            ranking[position] = item
            position += 1


@kernel
def in_shown_order(ranking: Ints, relevance: Floats) -> Floats:
    """The grades as a reader meets them; negative grades (TREC's junk) count as 0."""
    shown = np.empty(len(relevance))
    met = np.zeros(len(relevance), np.bool_)
    for position in range(len(ranking)):
        item = ranking[position]
        if item < 0 or item >= len(relevance) or met[item]:
            raise InvalidInput("the ranking must name every item once; it names one twice, or one that is not there")
        met[item] = True
        grade = relevance[item]
        if not np.isfinite(grade):
            raise InvalidInput("relevance holds a grade that is not finite; every grade must be a finite number")
        shown[position] = max(grade, 0.0)
    return shown


@kernel
def all_in_shown_order(ranking: Ints, relevance: Floats, shown: int) -> Floats:
    """For measures of the whole order, which have no word for items that were never shown."""
    if shown < len(ranking):
        raise InvalidInput("this measure judges the order of all items, but some were not shown; use one with a cutoff")
    return in_shown_order(ranking, relevance)


@kernel
def descending(grades: Floats) -> Floats:
    """The grades of the ideal ranking; whole small ones are counted instead of sorted."""
    counts = np.zeros(COUNTED, np.int64)
    for grade in grades:
        if not 0.0 <= grade < COUNTED or grade != np.floor(grade):
            return -np.sort(-grades)
        counts[int(grade)] += 1
    ideal = np.zeros(len(grades))
    position = 0
    for grade in range(COUNTED - 1, 0, -1):
        for _ in range(counts[grade]):
            ideal[position] = grade
            position += 1
    return ideal


@kernel
def _fault(offsets: Ints, n_items: int) -> int:
    """The first entry that does not fit, or -1."""
    if offsets[0] != 0:
        return 0
    for q in range(1, len(offsets)):
        if offsets[q] < offsets[q - 1]:
            return q
    return -1 if offsets[-1] == n_items else len(offsets) - 1


def checked_offsets(offsets: ArrayLike, n_items: int) -> Ints:
    """Offsets that start at 0, never fall and end at n_items: query q owns offsets[q] up to offsets[q + 1]."""
    array = item_indices(offsets, "offsets")
    if not len(array):
        raise InvalidInput("offsets must hold one entry more than there are queries, got none")
    fault = _fault(array, n_items)
    if fault >= 0:
        raise InvalidInput(
            f"offsets must start at 0, never fall and end at the number of items, {n_items}; "
            f"entry {fault} of {len(array)} is {array[fault]}"
        )
    return array


def checked_grades(relevance: ArrayLike, n_items: int, of: str) -> Floats:
    """Finite grades, as many as there are items in `of`."""
    grades = finite_floats(relevance, 1, "relevance")
    if len(grades) != n_items:
        raise InvalidInput(f"{of} and relevance must be equally long, got {n_items} and {len(grades)}")
    return grades

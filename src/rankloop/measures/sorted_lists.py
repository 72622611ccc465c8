"""Lists of many queries, one after another: sorting by score or grade, and checks of offsets and grades."""

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel, ranking_of
from rankloop.core.types import Floats, Ints, finite_floats, item_indices

MAX_SELECTED_POSITIONS = 32  # up to this cutoff, selecting from a list twelve times as long is faster than sorting it
MAX_COUNTED_GRADE = 64  # integer grades below this are sorted by counting


@kernel
def rankings_of(scores: Floats, offsets: Ints, cutoff: int) -> Ints:
    """Sort the items of every query by descending score, ties by item number.

    Args:
      scores: One score per item, query after query.
      offsets: Query q has the entries from offsets[q] to offsets[q + 1].
      cutoff: The number of positions that must be sorted; below them the order may be that of the item numbers.

    Returns:
      The rankings one after another, each counting its items from 0.
    """
    rankings = np.empty(len(scores), np.int64)
    for q in range(len(offsets) - 1):
        items = slice(offsets[q], offsets[q + 1])
        n_items = offsets[q + 1] - offsets[q]
        if cutoff <= min(MAX_SELECTED_POSITIONS, n_items // 12):
            _select(scores[items], rankings[items], cutoff)
        else:
            rankings[items] = ranking_of(scores[items])
    return rankings


@kernel
def _select(scores: Floats, ranking: Ints, cutoff: int) -> None:
    """Write the first `cutoff` positions of `ranking_of(scores)`, then the other items by number."""
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
def grades_in_shown_order(ranking: Ints, relevance: Floats) -> Floats:
    """Return the grades by position; negative grades, which TREC gives to junk, count as 0.

    Args:
      ranking: The items, best first.
      relevance: One grade per item.

    Raises:
      InvalidInput: If the ranking is not a permutation of the items, or a grade is not finite.
    """
    shown = np.empty(len(relevance))
    taken = np.zeros(len(relevance), np.bool_)
    for position in range(len(ranking)):
        item = ranking[position]
        if item < 0 or item >= len(relevance) or taken[item]:
            raise InvalidInput("the ranking must name every item once; one is named twice or unknown")
        taken[item] = True
        grade = relevance[item]
        if not np.isfinite(grade):
            raise InvalidInput("relevance holds a grade that is not finite; every grade must be a finite number")
        shown[position] = max(grade, 0.0)
    return shown


@kernel
def descending(grades: Floats) -> Floats:
    """Return the grades of the ideal ranking, by counting where they are small integers."""
    counts = np.zeros(MAX_COUNTED_GRADE, np.int64)
    for grade in grades:
        if not 0.0 <= grade < MAX_COUNTED_GRADE or grade != np.floor(grade):
            return grades[ranking_of(grades)]
        counts[int(grade)] += 1
    ideal = np.zeros(len(grades))
    position = 0
    for grade in range(MAX_COUNTED_GRADE - 1, 0, -1):
        for _ in range(counts[grade]):
            ideal[position] = grade
            position += 1
    return ideal


@kernel
def _fault(offsets: Ints, n_items: int) -> int:
    """Return the first entry that is wrong, or -1."""
    if offsets[0] != 0:
        return 0
    for q in range(1, len(offsets)):
        if offsets[q] < offsets[q - 1]:
            return q
    return -1 if offsets[-1] == n_items else len(offsets) - 1


def checked_offsets(offsets: ArrayLike, n_items: int) -> Ints:
    """Return offsets as an array: query q has the entries from offsets[q] to offsets[q + 1].

    Args:
      offsets: One number more than there are queries.
      n_items: The number of items of all queries.

    Raises:
      InvalidInput: If they do not start at 0, fall, or do not end at `n_items`.
    """
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


def checked_grades(relevance: ArrayLike, n_items: int, name: str) -> Floats:
    """Return finite grades as an array.

    Args:
      relevance: One grade per item.
      n_items: The number of items.
      name: The argument that has the items, for the error message.

    Raises:
      InvalidInput: If there is not one finite grade per item.
    """
    grades = finite_floats(relevance, 1, "relevance")
    if len(grades) != n_items:
        raise InvalidInput(f"{name} and relevance must be equally long, got {n_items} and {len(grades)}")
    return grades

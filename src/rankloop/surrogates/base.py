"""Parts that surrogates share: base classes for those that need all grades or a few, and the levels of grades."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from rankloop.core.kernels import kernel, sorted_order
from rankloop.core.types import Floats, Ints

MAX_DIRECT_GRADE = 64  # Integral grades up to this are their own level; others are sorted first.


class ListwiseSurrogate:
    """A convex surrogate whose gradient needs the grades of all items."""

    span: ClassVar[int | None] = None
    value_and_grad: Callable[..., tuple[float, Floats]]

    def terms(self, scores: Floats, items: Ints, grades: Floats) -> Floats:
        """Return the gradient if all items are graded, else zeros."""
        if len(items) < len(scores):
            return np.zeros(len(scores))
        relevance = np.empty(len(scores))
        relevance[items] = grades
        return self.value_and_grad(scores, relevance)[1]


class SeparableSurrogate:
    """A surrogate whose gradient is a sum over sets of `span` items, so that the grades of a few items are enough."""

    span: ClassVar[int | None] = 1
    value_and_grad: Callable[..., tuple[float, Floats]]

    def terms(self, scores: Floats, items: Ints, grades: Floats) -> Floats:
        """Return the share of the graded items in the gradient."""
        grad = np.zeros(len(scores))
        grad[items] = self.value_and_grad(scores[items], grades)[1]
        return grad


@kernel
def levels_of(relevance: Floats) -> tuple[Ints, int]:
    """Return the level of each item (a higher grade is a higher level), and the number of levels."""
    n_items, top, direct = len(relevance), 0, True
    levels = np.empty(n_items, np.int64)
    for i in range(n_items):
        grade = relevance[i]
        if not (0.0 <= grade <= MAX_DIRECT_GRADE and grade == np.floor(grade)):
            direct = False
            break
        levels[i] = int(grade)
        top = max(top, levels[i])
    if direct:
        return levels, top + 1
    order, level = sorted_order(relevance), 0
    for position in range(n_items):
        if position > 0 and relevance[order[position]] != relevance[order[position - 1]]:
            level += 1
        levels[order[position]] = level
    return levels, level + 1

"""RankSVM: a hinge for every pair of items with different grades."""

from typing import ClassVar

import numpy as np

from rankloop.core.kernels import kernel, ranking_of
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints
from rankloop.surrogates.base import levels_of


@kernel
def _value_and_grad(scores: Floats, relevance: Floats) -> tuple[float, Floats]:
    """Return loss and gradient, by one sweep in score order per distinct lower grade: O(m log m + m · grades)."""
    n_items = len(scores)
    order = ranking_of(scores)
    value, grad = 0.0, np.zeros(n_items)
    lower = np.empty(n_items, np.int64)
    levels, n_levels = levels_of(relevance)
    for level in range(n_levels - 1):
        n_lower, n_higher = 0, 0
        for item in order:
            if levels[item] == level:
                lower[n_lower] = item
                n_lower += 1
            elif levels[item] > level:
                n_higher += 1
        close, close_total, handled = 0, 0.0, 0  # the lower items inside the margin of the higher item at hand
        for item in order:
            if levels[item] > level:
                while close < n_lower and 1.0 + scores[lower[close]] - scores[item] > 0.0:
                    close_total += scores[lower[close]]
                    grad[lower[close]] += n_higher - handled
                    close += 1
                value += close * (1.0 - scores[item]) + close_total
                grad[item] -= close
                handled += 1
    return value, grad


@kernel
def rank_svm_terms(scores: Floats, items: Ints, grades: Floats) -> Floats:
    """Return the share of the graded items in the gradient.

    Args:
      scores: The scores of all items.
      items: The graded items.
      grades: Their grades.
    """
    terms = np.zeros(len(scores))
    if len(items) > 1:
        terms[items] = _value_and_grad(scores[items], grades)[1]
    return terms


@register("rank_svm")
class RankSVM:
    """A hinge for every pair of items with different grades, which should be a margin of 1 apart.

      Σ over pairs with relevance[i] > relevance[j] of max(0, 1 + scores[j] − scores[i]).

    Two grades that are seen together are enough to learn from.

    References:
      Joachims (2002), Optimizing Search Engines Using Clickthrough Data.

    Examples:
      >>> import numpy as np
      >>> value, grad = RankSVM().value_and_grad(np.array([0.5, 0.0]), np.array([1.0, 0.0]))
      >>> round(value, 3)
      0.5
    """

    span: ClassVar[int | None] = 2
    convex: ClassVar[bool] = True

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return _value_and_grad(scores, relevance)

    def terms(self, scores: Floats, items: Ints, grades: Floats) -> Floats:
        return rank_svm_terms(scores, items, grades)

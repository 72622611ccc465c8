"""The hinge of the one pair that is ordered worst."""

import numpy as np

from rankloop.core.checks import Positive
from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats
from rankloop.surrogates.base import ListwiseSurrogate, best_below, levels_of


@kernel
def worst_pair(scores: Floats, relevance: Floats, margin: float) -> tuple[float, Floats]:
    """Return the hinge of the worst-ordered pair, and its sub-gradient: −1 for the better item, 1 for its rival.

    Equations (2.26) and (2.28) of Chaudhuri (2016), in one pass: only the best item of lower grade can be the rival.

    Args:
      scores: The score of each item.
      relevance: The grade of each item.
      margin: The margin of the hinge.
    """
    levels, n_levels = levels_of(relevance)
    below = best_below(scores, levels, n_levels)
    worst, better, rival = 0.0, -1, -1
    for i in range(len(scores)):
        lower = below[levels[i]]
        if lower >= 0:
            gap = margin + scores[lower] - scores[i]
            if gap > worst:
                worst, better, rival = gap, i, lower
    grad = np.zeros(len(scores))
    if better >= 0:
        grad[better], grad[rival] = -1.0, 1.0
    return worst, grad


@register("max_pair")
class MaxPair(ListwiseSurrogate):
    """The hinge of the worst-ordered pair: the most by which an item fails to beat one of lower grade by a margin.

      max over pairs with relevance[i] > relevance[j] of max(0, `margin` + scores[j] − scores[i]), in O(items).

    With a margin of at least 1 it bounds 1 − M for every measure M in [0, 1] that is 1 on a perfect ranking. Use it for
    guarantees that do not grow with the length of the list; it moves two items per step.

    Args:
      margin: The margin of the hinge.

    References:
      Chaudhuri and Tewari (2015), Perceptron-like Algorithms for Online Learning to Rank.
    """

    margin: Positive = 1.0

    @property
    def bounds(self) -> tuple[str, ...]:
        """The measures M for which the value is at least 1 − M, however ties are broken."""
        return ("nDCG", "nDCG@2", "AP") if self.margin >= 1.0 else ()

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return worst_pair(scores, relevance, self.margin)

"""Surrogates of pairs of items with different grades: all pairs, the worst pair, or one pair for each item."""

from typing import ClassVar, Literal

import numpy as np

from rankloop.core.checks import Positive, check_at_least
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import discount, exponential_gain, kernel, ranking_of
from rankloop.core.registry import Examples, register
from rankloop.core.types import Floats, Ints
from rankloop.surrogates.base import ListwiseSurrogate, SeparableSurrogate, levels_of


@kernel
def _pair_hinges(scores: Floats, relevance: Floats) -> tuple[float, Floats]:
    """Return φ_svm of Chaudhuri (2016), section 3.3.3.1, and its gradient, by one sweep for each lower grade."""
    order, (levels, n_levels) = ranking_of(scores), levels_of(relevance)
    value, grad = 0.0, np.zeros(len(scores))
    lower = np.empty(len(scores), np.int64)
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


@register("rank_svm")
class RankSVM(SeparableSurrogate):
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

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return _pair_hinges(scores, relevance)


@kernel
def _best_below(scores: Floats, levels: Ints, n_levels: int) -> Ints:
    """Return for each level the item of highest score among all lower levels; −1 if there is none."""
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
    below = _best_below(scores, levels, n_levels)
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

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return worst_pair(scores, relevance, self.margin)


@kernel
def ndcg_weights(relevance: Floats, levels: Ints, n_levels: int, cutoff: int, mean: bool) -> Floats:
    """Return gain · discount / ideal DCG of each item in an order by grade: equation (2.11) of Chaudhuri (2016).

    Negative grades gain as much as 0, as in the measure.

    Args:
      relevance: The grade of each item.
      levels: The level of each item.
      n_levels: The number of levels.
      cutoff: The cutoff of nDCG.
      mean: If true, items of equal grade share the mean of their weights; else they take them in item order.
    """
    discounts, weights = np.zeros(len(relevance)), np.empty(len(relevance))
    for position in range(min(cutoff, len(relevance))):
        discounts[position] = discount(position)
    counts = np.zeros(n_levels, np.int64)
    for level in levels:
        counts[level] += 1
    share, rank_of_level, first = np.empty(n_levels), np.empty(n_levels, np.int64), 0
    for level in range(n_levels - 1, -1, -1):
        rank_of_level[level] = first
        share[level] = discounts[first : first + counts[level]].sum() / max(counts[level], 1)
        first += counts[level]
    ideal = 0.0
    for i in range(len(relevance)):
        worth = share[levels[i]] if mean else discounts[rank_of_level[levels[i]]]
        weights[i] = exponential_gain(max(relevance[i], 0.0)) * worth
        rank_of_level[levels[i]] += 1
        ideal += weights[i]
    return weights / ideal if ideal > 0.0 else np.zeros(len(relevance))


@kernel
def slam_of(
    scores: Floats, relevance: Floats, cutoff: int, binary: bool, mean: bool, margin: float
) -> tuple[float, Floats]:
    """Return Σ_i weights[i] · max(0, margin + best lower score − scores[i]), (2.9), and a sub-gradient, (2.13).

    Args:
      scores: The score of each item.
      relevance: The grade of each item; with the weights of nDCG negative grades count as 0.
      cutoff: The cutoff of nDCG.
      binary: If true, the weights are those of AP, equation (2.10) of Chaudhuri (2016), else those of nDCG@cutoff.
      mean: If true, items of equal grade share the mean of their weights.
      margin: The margin of the hinges.
    """
    if binary:
        levels, n_levels = (relevance >= 1.0).astype(np.int64), 2
        weights = levels / max(levels.sum(), 1)
    else:
        levels, n_levels = levels_of(np.maximum(relevance, 0.0))
        weights = ndcg_weights(relevance, levels, n_levels, cutoff, mean)
    below = _best_below(scores, levels, n_levels)
    value, grad = 0.0, np.zeros(len(scores))
    for i in range(len(scores)):
        rival = below[levels[i]]
        if rival >= 0 and weights[i] > 0.0:
            gap = margin + scores[rival] - scores[i]
            if gap > 0.0:
                value += weights[i] * gap
                grad[i] -= weights[i]
                grad[rival] += weights[i]
    return value, grad


@register("slam")
class Slam(ListwiseSurrogate):
    """A hinge for each item against the best item of lower grade, weighted so that it bounds nDCG or AP.

      Σ_i v_i · max(0, `margin` + max{scores[j] : relevance[j] < relevance[i]} − scores[i]).

    The weights v sum to 1 and make the value an upper bound on 1 − nDCG, 1 − nDCG@`cutoff` or 1 − AP for margins of at
    least 1: v = gain · discount / ideal DCG for nDCG, 1 / (number of relevant items) for AP (relevant from grade 1 on).
    Without a relevant item the value is 0. Use it with grades of all items when the top of the list matters most.

    Args:
      measure: The measure that is bounded.
      cutoff: The cutoff of nDCG; none if None.
      within: Items of equal grade share the mean of their weights ("mean") or take them in item order ("item_order");
        weights by score would not be convex.
      margin: The margin of the hinges.

    References:
      Chaudhuri and Tewari (2015), Perceptron-like Algorithms for Online Learning to Rank.

    Examples:
      >>> import numpy as np
      >>> value, grad = Slam().value_and_grad(np.array([0.5, 0.0]), np.array([1.0, 0.0]))
      >>> round(value, 3)
      0.5
    """

    measure: Literal["nDCG", "AP"] = "nDCG"
    cutoff: int | None = None
    within: Literal["mean", "item_order"] = "mean"
    margin: Positive = 1.0

    examples: ClassVar[Examples] = ({}, {"cutoff": 2}, {"measure": "AP"}, {"within": "item_order", "margin": 0.5})

    def __post_init__(self) -> None:
        check_at_least(1, cutoff=self.cutoff)
        if self.measure == "AP" and (self.cutoff is not None or self.within != "mean"):
            raise InvalidInput("AP has no cutoff, and its weights are all equal: leave out cutoff and within")

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        cutoff = len(scores) if self.cutoff is None else self.cutoff
        return slam_of(scores, relevance, cutoff, self.measure == "AP", self.within == "mean", self.margin)

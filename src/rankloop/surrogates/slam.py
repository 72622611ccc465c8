"""SLAM: a hinge per item against the best item of lower grade, weighted so that it bounds a measure."""

from typing import ClassVar, Literal

import numpy as np

from rankloop.core.checks import Positive
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import discount, exponential_gain, kernel
from rankloop.core.registry import Spec, register
from rankloop.core.types import Floats, Ints
from rankloop.surrogates.base import ListwiseSurrogate, best_below, levels_of


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
    n_items = len(relevance)
    discounts = np.zeros(n_items)
    for position in range(min(cutoff, n_items)):
        discounts[position] = discount(position)
    counts = np.zeros(n_levels, np.int64)
    for level in levels:
        counts[level] += 1
    weights, rank_of_level, first = np.empty(n_items), np.empty(n_levels, np.int64), 0
    share = np.empty(n_levels)
    for level in range(n_levels - 1, -1, -1):
        rank_of_level[level] = first
        share[level] = discounts[first : first + counts[level]].sum() / max(counts[level], 1)
        first += counts[level]
    ideal = 0.0
    for i in range(n_items):
        level = levels[i]
        weights[i] = exponential_gain(max(relevance[i], 0.0)) * (
            share[level] if mean else discounts[rank_of_level[level]]
        )
        rank_of_level[level] += 1
        ideal += weights[i]
    return weights / ideal if ideal > 0.0 else np.zeros(n_items)


@kernel
def _hinges(scores: Floats, levels: Ints, n_levels: int, weights: Floats, margin: float) -> tuple[float, Floats]:
    """Return Σ_i weights[i] · max(0, margin + best lower score − scores[i]) and a sub-gradient: equation (2.9)."""
    below = best_below(scores, levels, n_levels)
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


@kernel
def slam_of_ndcg(scores: Floats, relevance: Floats, cutoff: int, mean: bool, margin: float) -> tuple[float, Floats]:
    """Return loss and sub-gradient with the weights of nDCG@cutoff; negative grades count as 0.

    Args:
      scores: The score of each item.
      relevance: The grade of each item.
      cutoff: The cutoff of nDCG.
      mean: If true, items of equal grade share the mean of their weights.
      margin: The margin of the hinges.
    """
    levels, n_levels = levels_of(np.maximum(relevance, 0.0))
    return _hinges(scores, levels, n_levels, ndcg_weights(relevance, levels, n_levels, cutoff, mean), margin)


@kernel
def slam_of_ap(scores: Floats, relevance: Floats, margin: float) -> tuple[float, Floats]:
    """Return loss and sub-gradient with the weights of AP: equation (2.10) of Chaudhuri (2016).

    Args:
      scores: The score of each item.
      relevance: The grade of each item.
      margin: The margin of the hinges.
    """
    levels = np.empty(len(scores), np.int64)
    for i in range(len(scores)):
        levels[i] = relevance[i] >= 1.0
    return _hinges(scores, levels, 2, levels / max(levels.sum(), 1), margin)


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

    examples: ClassVar[tuple[Spec, ...]] = (
        {},
        {"cutoff": 2},
        {"measure": "AP"},
        {"within": "item_order"},
        {"margin": 0.5},
    )

    def __post_init__(self) -> None:
        if self.cutoff is not None and self.cutoff < 1:
            raise InvalidInput(f"cutoff = {self.cutoff}: at least the first position has to count (cutoff = 1)")
        if self.measure == "AP" and (self.cutoff is not None or self.within != "mean"):
            raise InvalidInput("AP has no cutoff, and its weights are all equal: leave out cutoff and within")

    @property
    def bounds(self) -> tuple[str, ...]:
        """The measures M for which the value is at least 1 − M, however ties are broken."""
        if self.margin < 1.0:
            return ()
        return (self.measure if self.cutoff is None else f"{self.measure}@{self.cutoff}",)

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        if self.measure == "AP":
            return slam_of_ap(scores, relevance, self.margin)
        cutoff = len(scores) if self.cutoff is None else self.cutoff
        return slam_of_ndcg(scores, relevance, cutoff, self.within == "mean", self.margin)

"""Measures of the order of all items: AUC, and the losses AUCLoss, PairwiseLoss and SumLoss."""

import math
from typing import ClassVar

from rankloop.core.registry import register
from rankloop.measures.base import EMPTY_VALUES_OF_SUMS, BinaryMeasure, RankedMeasure
from rankloop.measures.formulas import AUC_GAIN, AUC_LOSS, POSITION_SUM, WRONG_PAIRS


@register("AUC")
class AUC(BinaryMeasure):
    """Area under the ROC curve: the share of (relevant, other) pairs of items in the right order.

    (pairs with the relevant item above the other) / (all such pairs); 1 where every item is relevant. Items with equal
    scores stand by item number, so a tie does not count a half.

    Examples:
      >>> AUC()([1, 0, 2], [1.0, 0.0, 0.0])
      0.5

    References:
      Cortes and Mohri (2004), AUC optimization vs. error rate minimization.
    """

    _formula: ClassVar[int] = AUC_GAIN


@register("AUCLoss")
class AUCLoss(AUC):
    """The share of (relevant, other) pairs of items in the wrong order: 1 − AUC, the "AUC" of the regret papers.

    (pairs with the other item above the relevant one) / (all such pairs). For a query without a relevant item `zero`
    is a loss of 1 and `one` a loss of 0.

    Examples:
      >>> AUCLoss()([1, 2, 0], [1.0, 0.0, 0.0])
      1.0

    References:
      Chaudhuri and Tewari (2015), Online ranking with top-1 feedback.
    """

    higher_is_better: ClassVar[bool] = False
    _empty_values: ClassVar[dict[str, float]] = {"zero": 1.0, "one": 0.0, "skip": math.nan}
    _formula: ClassVar[int] = AUC_LOSS


@register("PairwiseLoss")
class PairwiseLoss(RankedMeasure):
    """The number of pairs of items in the wrong order, regardless of the distance of their grades.

    Σ_{p < p'} [grade at p < grade at p'], over all pairs of positions.

    Examples:
      >>> PairwiseLoss()([1, 2, 0], [2.0, 0.0, 1.0])
      3.0

    References:
      Chaudhuri and Tewari (2015), Online ranking with top-1 feedback.
    """

    higher_is_better: ClassVar[bool] = False
    _empty_values: ClassVar[dict[str, float]] = EMPTY_VALUES_OF_SUMS
    _formula: ClassVar[int] = WRONG_PAIRS


@register("SumLoss")
class SumLoss(RankedMeasure):
    """The sum of position times grade: a loss that is linear in the relevance.

    Σ_p (p + 1) · grade at p, over positions p = 0, 1, …; for grades 0 and 1 it differs from PairwiseLoss by a number
    that does not depend on the ranking.

    Examples:
      >>> SumLoss()([1, 2, 0], [2.0, 0.0, 1.0])
      8.0

    References:
      Ailon (2014), Improved bounds for online learning over the permutahedron and other ranking polytopes; Chaudhuri
      and Tewari (2015), Online ranking with top-1 feedback.
    """

    higher_is_better: ClassVar[bool] = False
    _empty_values: ClassVar[dict[str, float]] = EMPTY_VALUES_OF_SUMS
    _formula: ClassVar[int] = POSITION_SUM

"""Measures of the order of all items: pairs in the wrong order, and positions weighted by relevance."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints
from rankloop.measures.base import EMPTY_SUMS, BinaryMeasure, Kernels, RankedMeasure
from rankloop.measures.sorted_lists import all_in_shown_order

AUC_GAIN, AUC_LOSS, WRONG_PAIRS, POSITION_SUM = range(4)  # formulas


class OrderOptions(NamedTuple):
    """The parameters of a measure of the whole order, as its kernels take them."""

    formula: int
    relevant_from: float
    empty: float


@kernel
def _value(ranking: Ints, relevance: Floats, shown: int, options: OrderOptions) -> float:
    grades = all_in_shown_order(ranking, relevance, shown)
    if options.formula == POSITION_SUM:
        total = 0.0
        for position, grade in enumerate(grades):
            total += (position + 1) * grade
        return total if total > 0.0 else options.empty
    if options.formula == WRONG_PAIRS:
        wrong, any_relevant = 0, False
        for lower in range(len(grades)):
            any_relevant |= grades[lower] > 0.0
            for upper in range(lower):
                wrong += grades[upper] < grades[lower]
        return float(wrong) if any_relevant else options.empty
    wrong, n_relevant, n_others = 0, 0, 0
    for grade in grades:
        if grade >= options.relevant_from:
            n_relevant += 1
            wrong += n_others
        else:
            n_others += 1
    pairs = n_relevant * n_others
    if n_relevant == 0:
        return options.empty
    if pairs == 0:
        return 0.0 if options.formula == AUC_LOSS else 1.0
    return wrong / pairs if options.formula == AUC_LOSS else (pairs - wrong) / pairs


@kernel
def _values(rankings: Ints, relevance: Floats, offsets: Ints, shown: Ints, options: Any) -> Floats:
    values = np.empty(len(offsets) - 1)
    for q in range(len(values)):
        items = slice(offsets[q], offsets[q + 1])
        values[q] = _value(rankings[items], relevance[items], shown[q], options)
    return values


@dataclass(frozen=True, kw_only=True)
class _WholeOrder(RankedMeasure):
    _formula: ClassVar[int]
    _kernels: ClassVar[Kernels] = Kernels(_value, _values)

    @cached_property
    def _options(self) -> OrderOptions:
        return OrderOptions(self._formula, getattr(self, "relevant_from", 1.0), self._if_empty)


@register("AUC")
class AUC(_WholeOrder, BinaryMeasure):
    """Area under the ROC curve: the share of (relevant, other) pairs of items that stand in the right order.

    (pairs with the relevant item above the other) / (all such pairs); 1 where every item is relevant. Equal scores are
    ordered by item number first, they do not count a half. Cortes and Mohri (2004), "AUC optimization vs. error rate
    minimization".
    """

    _formula: ClassVar[int] = AUC_GAIN


@register("AUCLoss")
class AUCLoss(AUC):
    """The share of (relevant, other) pairs of items in the wrong order: 1 − AUC, the regret papers' "AUC".

    (pairs with the other item above the relevant one) / (all such pairs). The rule for queries without a relevant item
    is that of AUC turned around: `zero` is a loss of 1, `one` a loss of 0. Chaudhuri and Tewari (2015), "Online ranking
    with top-1 feedback".
    """

    higher_is_better: ClassVar[bool] = False
    _empty_values: ClassVar[dict[str, float]] = {"zero": 1.0, "one": 0.0, "skip": math.nan}
    _formula: ClassVar[int] = AUC_LOSS


@register("PairwiseLoss")
class PairwiseLoss(_WholeOrder):
    """The number of pairs of items in the wrong order, whatever the distance of their grades.

    Σ_{p < p'} [grade at p < grade at p'], over all pairs of positions. Chaudhuri and Tewari (2015), "Online ranking
    with top-1 feedback".
    """

    higher_is_better: ClassVar[bool] = False
    _empty_values: ClassVar[dict[str, float]] = EMPTY_SUMS
    _formula: ClassVar[int] = WRONG_PAIRS


@register("SumLoss")
class SumLoss(_WholeOrder):
    """Position times relevance, summed: a loss that is linear in the relevance.

    Σ_p (p + 1) · grade at p, over positions p = 0, 1, …; for grades 0 and 1 it differs from PairwiseLoss by a number
    that does not depend on the ranking. Ailon (2014), "Improved bounds for online learning over the permutahedron
    and other ranking polytopes"; Chaudhuri and Tewari (2015), "Online ranking with top-1 feedback".
    """

    higher_is_better: ClassVar[bool] = False
    _empty_values: ClassVar[dict[str, float]] = EMPTY_SUMS
    _formula: ClassVar[int] = POSITION_SUM

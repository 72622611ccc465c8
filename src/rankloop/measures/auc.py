"""The area under the ROC curve, as a gain and as the regret papers' loss."""

import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints
from rankloop.measures.base import BinaryMeasure, Kernels
from rankloop.measures.lists import all_in_shown_order


@kernel
def _value(ranking: Ints, relevance: Floats, shown: int, options: tuple[float, bool, float]) -> float:
    threshold, loss, empty = options
    wrong, n_relevant, n_others = 0, 0, 0
    for grade in all_in_shown_order(ranking, relevance, shown):
        if grade >= threshold:
            n_relevant += 1
            wrong += n_others
        else:
            n_others += 1
    pairs = n_relevant * n_others
    if n_relevant == 0:
        return empty
    if pairs == 0:
        return 0.0 if loss else 1.0
    return wrong / pairs if loss else (pairs - wrong) / pairs


@kernel
def _values(rankings: Ints, relevance: Floats, offsets: Ints, shown: Ints, options: Any) -> Floats:
    values = np.empty(len(offsets) - 1)
    for q in range(len(values)):
        items = slice(offsets[q], offsets[q + 1])
        values[q] = _value(rankings[items], relevance[items], shown[q], options)
    return values


@register("AUC")
class AUC(BinaryMeasure):
    """Area under the ROC curve: the share of (relevant, other) pairs of items that stand in the right order.

    (pairs with the relevant item above the other) / (all such pairs); 1 where every item is relevant. Equal scores are
    ordered by item number first, they do not count a half. Cortes and Mohri (2004), "AUC optimization vs. error rate
    minimization".
    """

    _kernels: ClassVar[Kernels] = Kernels(_value, _values)

    @cached_property
    def _options(self) -> tuple[float, ...]:
        return self.relevant_from, not self.higher_is_better, self._if_empty


@register("AUCLoss")
class AUCLoss(AUC):
    """The share of (relevant, other) pairs of items in the wrong order: 1 − AUC, the regret papers' "AUC".

    (pairs with the other item above the relevant one) / (all such pairs). The rule for queries without a relevant item
    is that of AUC turned around: `zero` is a loss of 1, `one` a loss of 0. Chaudhuri and Tewari (2015), "Online ranking
    with top-1 feedback".
    """

    higher_is_better: ClassVar[bool] = False
    _empty_values: ClassVar[dict[str, float]] = {"zero": 1.0, "one": 0.0, "skip": math.nan}

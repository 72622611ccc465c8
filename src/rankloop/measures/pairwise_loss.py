"""The number of pairs of items in the wrong order."""

from typing import Any, ClassVar

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints
from rankloop.measures.base import EMPTY_SUMS, Kernels, RankedMeasure
from rankloop.measures.lists import all_in_shown_order


@kernel
def _value(ranking: Ints, relevance: Floats, shown: int, options: tuple[float]) -> float:
    (empty,) = options
    grades = all_in_shown_order(ranking, relevance, shown)
    wrong, any_relevant = 0, False
    for lower in range(len(grades)):
        any_relevant |= grades[lower] > 0.0
        for upper in range(lower):
            wrong += grades[upper] < grades[lower]
    return float(wrong) if any_relevant else empty


@kernel
def _values(rankings: Ints, relevance: Floats, offsets: Ints, shown: Ints, options: Any) -> Floats:
    values = np.empty(len(offsets) - 1)
    for q in range(len(values)):
        items = slice(offsets[q], offsets[q + 1])
        values[q] = _value(rankings[items], relevance[items], shown[q], options)
    return values


@register("PairwiseLoss")
class PairwiseLoss(RankedMeasure):
    """The number of pairs of items in the wrong order, whatever the distance of their grades.

    Σ_{p < p'} [grade at p < grade at p'], over all pairs of positions. Chaudhuri and Tewari (2015), "Online ranking
    with top-1 feedback".
    """

    higher_is_better: ClassVar[bool] = False
    _empty_values: ClassVar[dict[str, float]] = EMPTY_SUMS
    _kernels: ClassVar[Kernels] = Kernels(_value, _values)

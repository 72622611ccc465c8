"""The sum of positions, weighted by relevance."""

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
    total = 0.0
    for position, grade in enumerate(all_in_shown_order(ranking, relevance, shown)):
        total += (position + 1) * grade
    return total if total > 0.0 else empty


@kernel
def _values(rankings: Ints, relevance: Floats, offsets: Ints, shown: Ints, options: Any) -> Floats:
    values = np.empty(len(offsets) - 1)
    for q in range(len(values)):
        items = slice(offsets[q], offsets[q + 1])
        values[q] = _value(rankings[items], relevance[items], shown[q], options)
    return values


@register("SumLoss")
class SumLoss(RankedMeasure):
    """Position times relevance, summed: a loss that is linear in the relevance.

    Σ_p (p + 1) · grade at p, over positions p = 0, 1, …; for grades 0 and 1 it differs from PairwiseLoss by a number
    that does not depend on the ranking. Ailon (2014), "Improved bounds for online learning over the permutahedron
    and other ranking polytopes"; Chaudhuri and Tewari (2015), "Online ranking with top-1 feedback".
    """

    higher_is_better: ClassVar[bool] = False
    _empty_values: ClassVar[dict[str, float]] = EMPTY_SUMS
    _kernels: ClassVar[Kernels] = Kernels(_value, _values)

"""Average precision: precision at each relevant item, averaged over all relevant items."""

from typing import Any, ClassVar

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints
from rankloop.measures.base import BinaryAtCutoff, Kernels
from rankloop.measures.lists import in_shown_order


@kernel
def _value(ranking: Ints, relevance: Floats, shown: int, options: tuple[int, float, float]) -> float:
    cutoff, threshold, empty = options
    last = min(shown, cutoff)
    total, n_relevant = 0.0, 0
    for position, grade in enumerate(in_shown_order(ranking, relevance)):
        if grade >= threshold:
            n_relevant += 1
            if position < last:
                total += n_relevant / (position + 1)
    return total / n_relevant if n_relevant else empty


@kernel
def _values(rankings: Ints, relevance: Floats, offsets: Ints, shown: Ints, options: Any) -> Floats:
    values = np.empty(len(offsets) - 1)
    for q in range(len(values)):
        items = slice(offsets[q], offsets[q + 1])
        values[q] = _value(rankings[items], relevance[items], shown[q], options)
    return values


@register("AP")
class AveragePrecision(BinaryAtCutoff):
    """Average precision: how early the relevant items come; its mean over queries is known as MAP.

    Σ_p [item at p relevant] · (relevant items at positions 0..p) / (p + 1), over positions before the cutoff, divided
    by the number of all relevant items, as trec_eval's map and map_cut do: with more relevant items than the cutoff,
    even the best ranking stays below 1.
    """

    _kernels: ClassVar[Kernels] = Kernels(_value, _values)

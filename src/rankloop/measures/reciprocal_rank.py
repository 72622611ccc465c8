"""Reciprocal rank: how far down the first relevant item is."""

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
    for position, grade in enumerate(in_shown_order(ranking, relevance)):
        if grade >= threshold:
            return 1.0 / (position + 1) if position < min(shown, cutoff) else 0.0
    return empty


@kernel
def _values(rankings: Ints, relevance: Floats, offsets: Ints, shown: Ints, options: Any) -> Floats:
    values = np.empty(len(offsets) - 1)
    for q in range(len(values)):
        items = slice(offsets[q], offsets[q + 1])
        values[q] = _value(rankings[items], relevance[items], shown[q], options)
    return values


@register("RR")
class ReciprocalRank(BinaryAtCutoff):
    """Reciprocal rank: for readers who want one relevant item; its mean over queries is known as MRR.

    1 / (p + 1) for the first position p with a relevant item, 0 when that is not before the cutoff.
    """

    _kernels: ClassVar[Kernels] = Kernels(_value, _values)

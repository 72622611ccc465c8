"""Precision: the share of relevant items among the first."""

from typing import Any, ClassVar

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints
from rankloop.measures.base import EVERYWHERE, BinaryAtCutoff, Kernels
from rankloop.measures.lists import in_shown_order


@kernel
def _value(ranking: Ints, relevance: Floats, shown: int, options: tuple[int, float, float]) -> float:
    cutoff, threshold, empty = options
    last = min(shown, cutoff, len(ranking))
    hits, n_relevant = 0, 0
    for position, grade in enumerate(in_shown_order(ranking, relevance)):
        if grade >= threshold:
            n_relevant += 1
            hits += position < last
    positions = max(last, 1) if cutoff == EVERYWHERE else cutoff
    return hits / positions if n_relevant else empty


@kernel
def _values(rankings: Ints, relevance: Floats, offsets: Ints, shown: Ints, options: Any) -> Floats:
    values = np.empty(len(offsets) - 1)
    for q in range(len(values)):
        items = slice(offsets[q], offsets[q + 1])
        values[q] = _value(rankings[items], relevance[items], shown[q], options)
    return values


@register("P")
class Precision(BinaryAtCutoff):
    """Precision: the share of relevant items among the first `cutoff`, whatever their order.

    (relevant items at positions before the cutoff) / cutoff, also where there are fewer items than that, as trec_eval
    does; without a cutoff, the share of relevant items in the whole list, which no ranking changes. The regret papers'
    Precision@n is this times n.
    """

    _kernels: ClassVar[Kernels] = Kernels(_value, _values)

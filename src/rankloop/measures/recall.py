"""Recall: the share of the relevant items that are found."""

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
    hits, n_relevant = 0, 0
    for position, grade in enumerate(in_shown_order(ranking, relevance)):
        if grade >= threshold:
            n_relevant += 1
            hits += position < last
    return hits / n_relevant if n_relevant else empty


@kernel
def _values(rankings: Ints, relevance: Floats, offsets: Ints, shown: Ints, options: Any) -> Floats:
    values = np.empty(len(offsets) - 1)
    for q in range(len(values)):
        items = slice(offsets[q], offsets[q + 1])
        values[q] = _value(rankings[items], relevance[items], shown[q], options)
    return values


@register("Recall")
class Recall(BinaryAtCutoff):
    """Recall: the share of the relevant items that stand among the first `cutoff`.

    (relevant items at positions before the cutoff) / (relevant items). Without a cutoff it is 1 for every ranking of
    all items; it then says something only of runs that left items out.
    """

    _kernels: ClassVar[Kernels] = Kernels(_value, _values)

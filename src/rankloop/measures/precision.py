"""Precision and recall: relevant items among the first, as a share of these or of all relevant ones."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints
from rankloop.measures.base import EVERYWHERE, BinaryAtCutoff, Kernels
from rankloop.measures.lists import in_shown_order


@kernel
def _value(ranking: Ints, relevance: Floats, shown: int, options: tuple[int, float, bool, float]) -> float:
    cutoff, threshold, of_relevant, empty = options
    last = min(shown, cutoff, len(ranking))
    hits, n_relevant = 0, 0
    for position, grade in enumerate(in_shown_order(ranking, relevance)):
        if grade >= threshold:
            n_relevant += 1
            hits += position < last
    if n_relevant == 0:
        return empty
    if of_relevant:
        return hits / n_relevant
    return hits / (max(last, 1) if cutoff == EVERYWHERE else cutoff)


@kernel
def _values(rankings: Ints, relevance: Floats, offsets: Ints, shown: Ints, options: Any) -> Floats:
    values = np.empty(len(offsets) - 1)
    for q in range(len(values)):
        items = slice(offsets[q], offsets[q + 1])
        values[q] = _value(rankings[items], relevance[items], shown[q], options)
    return values


@dataclass(frozen=True, kw_only=True)
class _ShareOfHits(BinaryAtCutoff):
    """Relevant items before the cutoff, as a share of the positions or of all relevant items."""

    _of_relevant: ClassVar[bool] = False
    _kernels: ClassVar[Kernels] = Kernels(_value, _values)

    @cached_property
    def _options(self) -> tuple[float, ...]:
        return self._last, self.relevant_from, self._of_relevant, self._if_empty


@register("P")
class Precision(_ShareOfHits):
    """Precision: the share of relevant items among the first `cutoff`, whatever their order.

    (relevant items at positions before the cutoff) / cutoff, also where there are fewer items than that, as trec_eval
    does; without a cutoff, the share of relevant items in the whole list, which no ranking changes. The regret papers'
    Precision@n is this times n.
    """


@register("Recall")
class Recall(_ShareOfHits):
    """Recall: the share of the relevant items that stand among the first `cutoff`.

    (relevant items at positions before the cutoff) / (relevant items). Without a cutoff it is 1 for every ranking of
    all items; it then says something only of runs that left items out.
    """

    _of_relevant: ClassVar[bool] = True

"""Relevant items near the top: precision, recall, average precision and reciprocal rank."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints
from rankloop.measures.base import EVERYWHERE, BinaryMeasure, Kernels
from rankloop.measures.sorted_lists import in_shown_order

PRECISION, RECALL, AVERAGE_PRECISION, RECIPROCAL_RANK = range(4)  # formulas


class BinaryOptions(NamedTuple):
    """The parameters of a measure of relevant items, as its kernels take them."""

    formula: int
    cutoff: int
    relevant_from: float
    empty: float


@kernel
def _value(ranking: Ints, relevance: Floats, shown: int, options: BinaryOptions) -> float:
    last = min(shown, options.cutoff, len(ranking))
    hits, n_relevant, precisions, first = 0, 0, 0.0, 0.0
    for position, grade in enumerate(in_shown_order(ranking, relevance)):
        if grade >= options.relevant_from:
            n_relevant += 1
            if position < last:
                hits += 1
                precisions += n_relevant / (position + 1)
                if hits == 1:
                    first = 1.0 / (position + 1)
    if n_relevant == 0:
        return options.empty
    if options.formula == RECIPROCAL_RANK:
        return first
    if options.formula == AVERAGE_PRECISION:
        return precisions / n_relevant
    if options.formula == RECALL:
        return hits / n_relevant
    return hits / (max(last, 1) if options.cutoff == EVERYWHERE else options.cutoff)


@kernel
def _values(rankings: Ints, relevance: Floats, offsets: Ints, shown: Ints, options: Any) -> Floats:
    values = np.empty(len(offsets) - 1)
    for q in range(len(values)):
        items = slice(offsets[q], offsets[q + 1])
        values[q] = _value(rankings[items], relevance[items], shown[q], options)
    return values


@dataclass(frozen=True, kw_only=True)
class _RelevantItems(BinaryMeasure):
    """A measure of the relevant items at the positions before a cutoff, of all when there is none."""

    cutoff: int | None = None

    _formula: ClassVar[int]
    _kernels: ClassVar[Kernels] = Kernels(_value, _values)

    @cached_property
    def _options(self) -> BinaryOptions:
        return BinaryOptions(self._formula, self._last, self.relevant_from, self._if_empty)


@register("P")
class Precision(_RelevantItems):
    """Precision: the share of relevant items among the first `cutoff`, whatever their order.

    (relevant items at positions before the cutoff) / cutoff, also where there are fewer items than that, as trec_eval
    does; without a cutoff, the share of relevant items in the whole list, which no ranking changes. The regret papers'
    Precision@n is this times n.
    """

    _formula: ClassVar[int] = PRECISION


@register("Recall")
class Recall(_RelevantItems):
    """Recall: the share of the relevant items that stand among the first `cutoff`.

    (relevant items at positions before the cutoff) / (relevant items). Without a cutoff it is 1 for every ranking of
    all items; it then says something only of runs that left items out.
    """

    _formula: ClassVar[int] = RECALL


@register("AP")
class AveragePrecision(_RelevantItems):
    """Average precision: how early the relevant items come; its mean over queries is known as MAP.

    Σ_p [item at p relevant] · (relevant items at positions 0..p) / (p + 1), over positions before the cutoff, divided
    by the number of all relevant items, as trec_eval's map and map_cut do: with more relevant items than the cutoff,
    even the best ranking stays below 1.
    """

    _formula: ClassVar[int] = AVERAGE_PRECISION


@register("RR")
class ReciprocalRank(_RelevantItems):
    """Reciprocal rank: for readers who want one relevant item; its mean over queries is known as MRR.

    1 / (p + 1) for the first position p with a relevant item, 0 when that is not before the cutoff.
    """

    _formula: ClassVar[int] = RECIPROCAL_RANK

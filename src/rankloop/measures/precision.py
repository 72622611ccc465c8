"""Relevant items near the top: precision, recall, average precision and reciprocal rank."""

from dataclasses import dataclass
from typing import ClassVar

from rankloop.core.registry import register
from rankloop.measures.base import BinaryMeasure
from rankloop.measures.formulas import AVERAGE_PRECISION, PRECISION, RECALL, RECIPROCAL_RANK


@dataclass(frozen=True, kw_only=True)
class _WithCutoff(BinaryMeasure):
    cutoff: int | None = None


@register("P")
class Precision(_WithCutoff):
    """Precision: the share of relevant items among the first `cutoff`.

    (relevant items at positions before the cutoff) / cutoff, also where there are fewer items, as in trec_eval.
    Without a cutoff it is the share of relevant items in the list, which no ranking changes. The Precision@n of the
    regret papers is n times this.

    Examples:
      >>> Precision(cutoff=2)([1, 0, 2], [1.0, 0.0, 1.0])
      0.5
    """

    _formula: ClassVar[int] = PRECISION


@register("Recall")
class Recall(_WithCutoff):
    """Recall: the share of the relevant items that stand among the first `cutoff`.

    (relevant items at positions before the cutoff) / (relevant items). Without a cutoff it is 1 for every ranking of
    all items, so it then judges only runs that left items out.

    Examples:
      >>> Recall(cutoff=2)([1, 0, 2], [1.0, 0.0, 1.0])
      0.5
    """

    _formula: ClassVar[int] = RECALL


@register("AP")
class AveragePrecision(_WithCutoff):
    """Average precision, whose mean over queries is MAP.

    Σ_p [item at p relevant] · (relevant items at positions 0..p) / (p + 1), over positions before the cutoff, divided
    by the number of all relevant items, as trec_eval's map and map_cut do. With more relevant items than the cutoff
    the best ranking stays below 1.

    Examples:
      >>> round(AveragePrecision()([1, 0, 2], [1.0, 0.0, 1.0]), 4)
      0.5833
    """

    _formula: ClassVar[int] = AVERAGE_PRECISION


@register("RR")
class ReciprocalRank(_WithCutoff):
    """Reciprocal rank, whose mean over queries is MRR: for users who need one relevant item.

    1 / (p + 1) for the first position p with a relevant item; 0 when that is not before the cutoff.

    Examples:
      >>> ReciprocalRank()([1, 0, 2], [1.0, 0.0, 1.0])
      0.5
    """

    _formula: ClassVar[int] = RECIPROCAL_RANK

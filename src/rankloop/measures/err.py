"""Expected reciprocal rank."""

from typing import ClassVar

from rankloop.core.checks import check_between
from rankloop.core.registry import register
from rankloop.measures.base import RankedMeasure
from rankloop.measures.formulas import RECIPROCAL_RANK_EXPECTED


@register("ERR")
class ERR(RankedMeasure):
    """Expected reciprocal rank: for users who stop at the first item that satisfies them.

    Σ_p R_p / (p + 1) · Π_{p' < p} (1 − R_p'), over positions before the cutoff, where R_p = (2^grade − 1) / 2^max_grade
    is the probability that the item at p satisfies.

    Args:
      max_grade: The highest grade of the scale, not of the query.
      cutoff: The number of positions that count; None: all.
      empty: See `RankedMeasure`.

    Examples:
      >>> ERR(max_grade=1)([1, 0, 2], [1.0, 0.0, 1.0])
      0.3333333333333333

    References:
      Chapelle, Metzler, Zhang and Grinspan (2009), Expected reciprocal rank for graded relevance.
    """

    max_grade: int = 4
    cutoff: int | None = None

    _formula: ClassVar[int] = RECIPROCAL_RANK_EXPECTED

    def __post_init__(self) -> None:
        super().__post_init__()
        check_between(1, 1000, max_grade=self.max_grade)

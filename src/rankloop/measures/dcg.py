"""Discounted gains: DCG and nDCG, and the expected rank utilities ERU and NERU."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from rankloop.core.checks import check_between
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import register
from rankloop.measures.base import EMPTY_VALUES_OF_SUMS, RankedMeasure
from rankloop.measures.formulas import DISCOUNTED_GAIN, NORMALISED_GAIN, RECIPROCAL_RANK_EXPECTED


@register("DCG")
class DCG(RankedMeasure):
    """Discounted cumulative gain: the worth of the items, less for lower positions.

    Σ_p gain(grade at p) / log₂(p + 2), over positions p = 0, 1, … before the cutoff.

    Args:
      gain: `exponential`: 2^grade − 1; `linear`: the grade itself, as in trec_eval.

    Examples:
      >>> DCG(gain="linear", cutoff=2)([1, 0, 2], [0.0, 3.0, 1.0])
      3.0

    References:
      Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques.
    """

    gain: Literal["exponential", "linear"] = "exponential"
    cutoff: int | None = None

    _empty_values: ClassVar[dict[str, float]] = EMPTY_VALUES_OF_SUMS
    _formula: ClassVar[int] = DISCOUNTED_GAIN


@register("nDCG")
class NDCG(RankedMeasure):
    """Normalised discounted cumulative gain: DCG divided by the best attainable DCG, from 0 to 1.

    DCG@cutoff of the ranking / DCG@cutoff of the items by descending grade. The usual choice for graded relevance;
    with `gain='linear'` it is trec_eval's ndcg and ndcg_cut.

    Args:
      gain: `exponential`: 2^grade − 1; `linear`: the grade itself.

    Examples:
      >>> round(NDCG()([1, 0, 2], [3.0, 0.0, 1.0]), 4)
      0.6443

    References:
      Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques.
    """

    gain: Literal["exponential", "linear"] = "exponential"
    cutoff: int | None = None

    _formula: ClassVar[int] = NORMALISED_GAIN


@dataclass(frozen=True, kw_only=True)
class _HalfLife(RankedMeasure):
    half_life: float = 5.0
    neutral: float = 0.0
    cutoff: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1.0 < self.half_life < math.inf:
            raise InvalidInput(f"half_life must be a finite number above 1, got {self.half_life}")
        if not 0.0 <= self.neutral < math.inf:
            raise InvalidInput(f"neutral must be a finite number of at least 0, got {self.neutral}")


@register("ERU")
class ERU(_HalfLife):
    """Expected rank utility: for users whose attention halves every few positions.

    Σ_p 2^{−p / (half_life − 1)} · max(grade at p − neutral, 0), over positions p = 0, 1, … before the cutoff.

    Args:
      half_life: The item at this place, counted from 1, is examined half as often as the first.
      neutral: Grades up to this are worth nothing.

    Examples:
      >>> ERU(half_life=2)([1, 0, 2], [0.0, 2.0, 4.0])
      3.0

    References:
      Breese, Heckerman and Kadie (1998), Empirical analysis of predictive algorithms for collaborative filtering.
    """

    _empty_values: ClassVar[dict[str, float]] = EMPTY_VALUES_OF_SUMS
    _formula: ClassVar[int] = DISCOUNTED_GAIN


@register("NERU")
class NERU(_HalfLife):
    """Normalised expected rank utility: ERU divided by the best attainable ERU, from 0 to 1.

    ERU@cutoff of the ranking / ERU@cutoff of the items by descending grade.

    Args:
      half_life: The item at this place, counted from 1, is examined half as often as the first.
      neutral: Grades up to this are worth nothing.

    Examples:
      >>> NERU(half_life=2)([1, 0, 2], [0.0, 2.0, 4.0])
      0.6

    References:
      Breese, Heckerman and Kadie (1998), Empirical analysis of predictive algorithms for collaborative filtering.
    """

    _formula: ClassVar[int] = NORMALISED_GAIN


@register("ERR")
class ERR(RankedMeasure):
    """Expected reciprocal rank: for users who stop at the first item that satisfies them.

    Σ_p R_p / (p + 1) · Π_{p' < p} (1 − R_p'), over positions before the cutoff, where R_p = (2^grade − 1) / 2^max_grade
    is the probability that the item at p satisfies.

    Args:
      max_grade: The highest grade of the scale, not of the query.

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

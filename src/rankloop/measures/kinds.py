"""The measures: discounted gains, relevant items near the top, and the order of all items."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from rankloop.core.checks import check_between, check_not_negative
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import register
from rankloop.measures import formulas
from rankloop.measures.base import BinaryMeasure, RankedMeasure


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

    _best: ClassVar[float] = 0.0
    _formula: ClassVar[int] = formulas.DISCOUNTED_GAIN


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
    """

    gain: Literal["exponential", "linear"] = "exponential"
    cutoff: int | None = None

    _formula: ClassVar[int] = formulas.NORMALISED_GAIN


@dataclass(frozen=True, kw_only=True)
class _HalfLife(RankedMeasure):
    half_life: float = 5.0
    neutral: float = 0.0
    cutoff: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1.0 < self.half_life < math.inf:
            raise InvalidInput(f"half_life must be a finite number above 1, got {self.half_life}")
        check_not_negative(neutral=self.neutral)


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

    _best: ClassVar[float] = 0.0
    _formula: ClassVar[int] = formulas.DISCOUNTED_GAIN


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
    """

    _formula: ClassVar[int] = formulas.NORMALISED_GAIN


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

    _formula: ClassVar[int] = formulas.RECIPROCAL_RANK_EXPECTED

    def __post_init__(self) -> None:
        super().__post_init__()
        check_between(1, 1000, max_grade=self.max_grade)


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

    _formula: ClassVar[int] = formulas.PRECISION


@register("Recall")
class Recall(_WithCutoff):
    """Recall: the share of the relevant items that stand among the first `cutoff`.

    (relevant items at positions before the cutoff) / (relevant items). Without a cutoff it is 1 for every ranking of
    all items, so it then judges only runs that left items out.

    Examples:
      >>> Recall(cutoff=2)([1, 0, 2], [1.0, 0.0, 1.0])
      0.5
    """

    _formula: ClassVar[int] = formulas.RECALL


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

    _formula: ClassVar[int] = formulas.AVERAGE_PRECISION


@register("RR")
class ReciprocalRank(_WithCutoff):
    """Reciprocal rank, whose mean over queries is MRR: for users who need one relevant item.

    1 / (p + 1) for the first position p with a relevant item; 0 when that is not before the cutoff.

    Examples:
      >>> ReciprocalRank()([1, 0, 2], [1.0, 0.0, 1.0])
      0.5
    """

    _formula: ClassVar[int] = formulas.RECIPROCAL_RANK


@register("AUC")
class AUC(BinaryMeasure):
    """Area under the ROC curve: the share of (relevant, other) pairs of items in the right order.

    (pairs with the relevant item above the other) / (all such pairs); 1 where every item is relevant. Items with equal
    scores stand by item number, so a tie does not count a half.

    Examples:
      >>> AUC()([1, 0, 2], [1.0, 0.0, 0.0])
      0.5

    References:
      Cortes and Mohri (2004), AUC optimization vs. error rate minimization.
    """

    _formula: ClassVar[int] = formulas.AUC_GAIN


@register("AUCLoss")
class AUCLoss(AUC):
    """The share of (relevant, other) pairs of items in the wrong order: 1 − AUC, the "AUC" of the regret papers.

    (pairs with the other item above the relevant one) / (all such pairs). For a query without a relevant item `zero`
    is a loss of 1 and `one` a loss of 0.

    Examples:
      >>> AUCLoss()([1, 2, 0], [1.0, 0.0, 0.0])
      1.0

    References:
      Chaudhuri and Tewari (2015), Online ranking with top-1 feedback.
    """

    higher_is_better: ClassVar[bool] = False
    _worst: ClassVar[float] = 1.0
    _best: ClassVar[float] = 0.0
    _formula: ClassVar[int] = formulas.AUC_LOSS


@register("PairwiseLoss")
class PairwiseLoss(RankedMeasure):
    """The number of pairs of items in the wrong order, regardless of the distance of their grades.

    Σ_{p < p'} [grade at p < grade at p'], over all pairs of positions.

    Examples:
      >>> PairwiseLoss()([1, 2, 0], [2.0, 0.0, 1.0])
      3.0

    References:
      Chaudhuri and Tewari (2015), Online ranking with top-1 feedback.
    """

    higher_is_better: ClassVar[bool] = False
    _best: ClassVar[float] = 0.0
    _formula: ClassVar[int] = formulas.WRONG_PAIRS


@register("SumLoss")
class SumLoss(RankedMeasure):
    """The sum of position times grade: a loss that is linear in the relevance.

    Σ_p (p + 1) · grade at p, over positions p = 0, 1, …; for grades 0 and 1 it differs from PairwiseLoss by a number
    that does not depend on the ranking.

    Examples:
      >>> SumLoss()([1, 2, 0], [2.0, 0.0, 1.0])
      8.0

    References:
      Ailon (2014), Improved bounds for online learning over the permutahedron and other ranking polytopes; Chaudhuri
      and Tewari (2015), Online ranking with top-1 feedback.
    """

    higher_is_better: ClassVar[bool] = False
    _best: ClassVar[float] = 0.0
    _formula: ClassVar[int] = formulas.POSITION_SUM

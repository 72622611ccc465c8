"""Discounted gains: cumulative gain and expected rank utility, plain and normalised."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import discount, exponential_gain, kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints
from rankloop.measures.base import EMPTY_SUMS, Kernels, RankedMeasure
from rankloop.measures.sorted_lists import descending, in_shown_order

MAX_EXPONENT = 1000.0  # 2 to a higher power, summed, may overflow
LOGARITHMIC = math.inf  # as a half-life: the discount is 1 / log₂(position + 2)


class GainOptions(NamedTuple):
    """The parameters of a discounted gain, as its kernels take them."""

    cutoff: int
    half_life: float
    neutral: float  # grades up to it are worth nothing
    exponential: bool  # the gain is 2^grade − 1
    normalised: bool
    empty: float


@kernel
def _total(grades: Floats, n_positions: int, options: GainOptions) -> float:
    total, seen, decay = 0.0, 1.0, 2.0 ** (-1.0 / (options.half_life - 1.0))
    for position in range(min(n_positions, len(grades))):
        worth = grades[position] - options.neutral
        if worth > 0.0:
            gain = exponential_gain(worth) if options.exponential else worth
            total += gain * (discount(position) if options.half_life == LOGARITHMIC else seen)
        seen *= decay
    return total


@kernel
def _value(ranking: Ints, relevance: Floats, shown: int, options: GainOptions) -> float:
    grades = in_shown_order(ranking, relevance)
    ideal = descending(grades)
    if options.exponential and len(ideal) and ideal[0] > MAX_EXPONENT:
        raise InvalidInput("a grade is too large for the exponential gain 2^grade; use gain='linear'")
    best = _total(ideal, options.cutoff, options)
    if best == 0.0:
        return options.empty
    total = _total(grades, min(shown, options.cutoff), options)
    return total / best if options.normalised else total


@kernel
def _values(rankings: Ints, relevance: Floats, offsets: Ints, shown: Ints, options: Any) -> Floats:
    values = np.empty(len(offsets) - 1)
    for q in range(len(values)):
        items = slice(offsets[q], offsets[q + 1])
        values[q] = _value(rankings[items], relevance[items], shown[q], options)
    return values


@dataclass(frozen=True, kw_only=True)
class _DiscountedGain(RankedMeasure):
    """A sum over positions of discount times gain, or its share of the best one."""

    _normalised: ClassVar[bool] = False
    _kernels: ClassVar[Kernels] = Kernels(_value, _values)

    @cached_property
    def _options(self) -> GainOptions:
        return GainOptions(
            cutoff=self._last,
            half_life=getattr(self, "half_life", LOGARITHMIC),
            neutral=getattr(self, "neutral", 0.0),
            exponential=getattr(self, "gain", "linear") == "exponential",
            normalised=self._normalised,
            empty=self._if_empty,
        )


@register("DCG")
class DCG(_DiscountedGain):
    """Discounted cumulative gain: what the items are worth, less the lower they stand.

    Σ_p gain(grade at p) / log₂(p + 2) over positions p = 0, 1, … before the cutoff, with gain 2^grade − 1
    (`exponential`) or the grade itself (`linear`, trec_eval's). Järvelin and Kekäläinen (2002), "Cumulated gain-based
    evaluation of IR techniques".
    """

    gain: Literal["exponential", "linear"] = "exponential"
    cutoff: int | None = None

    _empty_values: ClassVar[dict[str, float]] = EMPTY_SUMS


@register("nDCG")
class NDCG(_DiscountedGain):
    """Normalised discounted cumulative gain: DCG as a share of the best attainable one, between 0 and 1.

    DCG@cutoff of the ranking / DCG@cutoff of the items by descending grade. The usual choice for graded relevance;
    with `gain='linear'` it is trec_eval's ndcg and ndcg_cut. Järvelin and Kekäläinen (2002).
    """

    gain: Literal["exponential", "linear"] = "exponential"
    cutoff: int | None = None

    _normalised: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class _HalfLife(_DiscountedGain):
    """The parameters of ERU and NERU: a reader sees position `half_life` half as often as the first."""

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
    """Expected rank utility: for readers whose attention halves every few positions.

    Σ_p 2^{−p / (half_life − 1)} · max(grade at p − neutral, 0), over positions p = 0, 1, … before the cutoff: the
    `half_life`-th item is seen half as often as the first, and a grade up to `neutral` is worth nothing. Breese,
    Heckerman and Kadie (1998), "Empirical analysis of predictive algorithms for collaborative filtering".
    """

    _empty_values: ClassVar[dict[str, float]] = EMPTY_SUMS


@register("NERU")
class NERU(_HalfLife):
    """Normalised expected rank utility: ERU as a share of the best attainable one, between 0 and 1.

    ERU@cutoff of the ranking / ERU@cutoff of the items by descending grade. Breese, Heckerman and Kadie (1998).
    """

    _normalised: ClassVar[bool] = True

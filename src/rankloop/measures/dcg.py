"""Discounted cumulative gain, plain and normalised."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import discount, exponential_gain, kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints
from rankloop.measures.base import EMPTY_SUMS, Kernels, RankedMeasure
from rankloop.measures.lists import descending, in_shown_order

MAX_EXPONENT = 1000.0  # 2 to a higher power, summed, may overflow


@kernel
def _total(grades: Floats, cutoff: int, exponential: bool) -> float:
    total = 0.0
    for position in range(min(cutoff, len(grades))):
        grade = grades[position]
        if grade > 0.0:
            gain = exponential_gain(grade) if exponential else grade
            total += gain * discount(position)
    return total


@kernel
def _value(ranking: Ints, relevance: Floats, shown: int, options: tuple[int, bool, bool, float]) -> float:
    cutoff, exponential, normalised, empty = options
    grades = in_shown_order(ranking, relevance)
    ideal = descending(grades)
    if exponential and len(ideal) and ideal[0] > MAX_EXPONENT:
        raise InvalidInput("a grade is too large for the exponential gain 2^grade; use gain='linear'")
    best = _total(ideal, cutoff, exponential)
    if best == 0.0:
        return empty
    total = _total(grades, min(shown, cutoff), exponential)
    return total / best if normalised else total


@kernel
def _values(rankings: Ints, relevance: Floats, offsets: Ints, shown: Ints, options: Any) -> Floats:
    values = np.empty(len(offsets) - 1)
    for q in range(len(values)):
        items = slice(offsets[q], offsets[q + 1])
        values[q] = _value(rankings[items], relevance[items], shown[q], options)
    return values


@dataclass(frozen=True, kw_only=True)
class _CumulatedGain(RankedMeasure):
    """What DCG and nDCG are told: how a grade becomes a gain, and how many positions count."""

    gain: Literal["exponential", "linear"] = "exponential"
    cutoff: int | None = None

    _normalised: ClassVar[bool] = False
    _kernels: ClassVar[Kernels] = Kernels(_value, _values)

    @cached_property
    def _options(self) -> tuple[float, ...]:
        return self._last, self.gain == "exponential", self._normalised, self._if_empty


@register("DCG")
class DCG(_CumulatedGain):
    """Discounted cumulative gain: what the items are worth, less the lower they stand.

    Σ_p gain(grade at p) / log₂(p + 2) over positions p = 0, 1, … before the cutoff, with gain 2^grade − 1
    (`exponential`) or the grade itself (`linear`, trec_eval's). Järvelin and Kekäläinen (2002), "Cumulated gain-based
    evaluation of IR techniques".
    """

    _empty_values: ClassVar[dict[str, float]] = EMPTY_SUMS


@register("nDCG")
class NDCG(_CumulatedGain):
    """Normalised discounted cumulative gain: DCG as a share of the best attainable one, between 0 and 1.

    DCG@cutoff of the ranking / DCG@cutoff of the items by descending grade. The usual choice for graded relevance;
    with `gain='linear'` it is trec_eval's ndcg and ndcg_cut. Järvelin and Kekäläinen (2002).
    """

    _normalised: ClassVar[bool] = True

"""Expected rank utility, plain and normalised."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints
from rankloop.measures.base import EMPTY_SUMS, Kernels, RankedMeasure
from rankloop.measures.lists import descending, in_shown_order


@kernel
def _total(grades: Floats, cutoff: int, half_life: float, neutral: float) -> float:
    total, seen, decay = 0.0, 1.0, 2.0 ** (-1.0 / (half_life - 1.0))
    for position in range(min(cutoff, len(grades))):
        total += seen * max(grades[position] - neutral, 0.0)
        seen *= decay
    return total


@kernel
def _value(ranking: Ints, relevance: Floats, shown: int, options: tuple[int, float, float, bool, float]) -> float:
    cutoff, half_life, neutral, normalised, empty = options
    grades = in_shown_order(ranking, relevance)
    best = _total(descending(grades), cutoff, half_life, neutral)
    if best == 0.0:
        return empty
    total = _total(grades, min(shown, cutoff), half_life, neutral)
    return total / best if normalised else total


@kernel
def _values(rankings: Ints, relevance: Floats, offsets: Ints, shown: Ints, options: Any) -> Floats:
    values = np.empty(len(offsets) - 1)
    for q in range(len(values)):
        items = slice(offsets[q], offsets[q + 1])
        values[q] = _value(rankings[items], relevance[items], shown[q], options)
    return values


@dataclass(frozen=True, kw_only=True)
class _HalfLife(RankedMeasure):
    """What ERU and NERU are told: a reader sees position `half_life` half as often as the first."""

    half_life: float = 5.0
    neutral: float = 0.0
    cutoff: int | None = None

    _normalised: ClassVar[bool] = False
    _kernels: ClassVar[Kernels] = Kernels(_value, _values)

    @cached_property
    def _options(self) -> tuple[float, ...]:
        return self._last, self.half_life, self.neutral, self._normalised, self._if_empty

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

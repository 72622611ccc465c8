"""Expected reciprocal rank."""

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import exponential_gain, kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints
from rankloop.measures.base import Kernels, RankedMeasure
from rankloop.measures.sorted_lists import in_shown_order


@kernel
def _value(ranking: Ints, relevance: Floats, shown: int, options: tuple[int, int, float]) -> float:
    cutoff, max_grade, empty = options
    last = min(shown, cutoff)
    total, still_reading, any_relevant = 0.0, 1.0, False
    for position, grade in enumerate(in_shown_order(ranking, relevance)):
        if grade > max_grade:
            raise InvalidInput(
                "a grade is above max_grade; name the highest grade of the scale, as in ERR(max_grade=5)"
            )
        any_relevant |= grade > 0.0
        if grade > 0.0 and position < last:
            satisfied = exponential_gain(grade) / 2.0**max_grade
            total += still_reading * satisfied / (position + 1)
            still_reading *= 1.0 - satisfied
    return total if any_relevant else empty


@kernel
def _values(rankings: Ints, relevance: Floats, offsets: Ints, shown: Ints, options: Any) -> Floats:
    values = np.empty(len(offsets) - 1)
    for q in range(len(values)):
        items = slice(offsets[q], offsets[q + 1])
        values[q] = _value(rankings[items], relevance[items], shown[q], options)
    return values


@register("ERR")
class ERR(RankedMeasure):
    """Expected reciprocal rank: how far down a reader who stops at the first satisfying item has to go.

    Σ_p R_p / (p + 1) · Π_{p' < p} (1 − R_p'), over positions before the cutoff, where R_p = (2^grade − 1) / 2^max_grade
    is the probability that the item at p satisfies. `max_grade` is the highest grade of the scale, not of the query.
    Chapelle, Metzler, Zhang and Grinspan (2009), "Expected reciprocal rank for graded relevance".
    """

    max_grade: int = 4
    cutoff: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.max_grade <= 1000:
            raise InvalidInput(f"max_grade must be between 1 and 1000, got {self.max_grade}")

    _kernels: ClassVar[Kernels] = Kernels(_value, _values)

    @cached_property
    def _options(self) -> tuple[float, ...]:
        return self._last, self.max_grade, self._if_empty

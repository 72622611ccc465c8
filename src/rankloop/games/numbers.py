"""From the doubles of a measure to numbers that can be compared with certainty."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints

SAME = 1e-9  # relative to the largest value: what differs by less is equal, unless it lies in the doubtful zone
DOUBTFUL = (1e-12, 1e-7)  # a number in here is neither surely 0 nor surely not
DENOMINATOR = 100_000  # rationals up to it are 1e-10 apart, far beyond the error of a double
ROUNDING = 1e-14
LARGEST = 2**40  # whole numbers whose sums still fit into 64 bits


def whole_numbers(values: Floats) -> Ints | None:
    """`values` times their common denominator when each of them is a fraction with a small denominator, else None.

    A double lies within 1e-14 of such a fraction by chance once in 10,000 times, so a list of irrational values passes
    practically never.
    """
    fractions = [Fraction(float(value)).limit_denominator(DENOMINATOR) for value in values]
    errors = [abs(float(fraction) - value) for fraction, value in zip(fractions, values)]
    if max(errors) > ROUNDING * max(1.0, float(np.abs(values).max())):
        return None
    common = math.lcm(*(fraction.denominator for fraction in fractions))
    if common * max(1.0, float(np.abs(values).max())) > LARGEST:
        return None
    return np.array([int(fraction * common) for fraction in fractions], dtype=np.int64)


def level_numbers(values: Floats) -> Ints:
    """Equal values get equal numbers, larger values larger ones."""
    order = np.argsort(values, kind="stable")
    gaps = np.diff(values[order]) / (np.abs(values).max() or 1.0)
    is_zero(gaps)
    numbers = np.empty(len(values), dtype=np.int64)
    numbers[order] = np.concatenate(([0], np.cumsum(gaps > SAME)))
    return numbers


def is_zero(numbers: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which of these doubles, of the size of 1, stand for 0; `InvalidInput` when one is too close to call."""
    size = np.abs(numbers)
    doubtful = size[(size > DOUBTFUL[0]) & (size < DOUBTFUL[1])]
    if len(doubtful):
        raise InvalidInput(f"{doubtful[0]:.1e} is too close to 0 to be told from it in floating point: no verdict")
    return size <= SAME

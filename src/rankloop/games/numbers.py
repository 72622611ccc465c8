"""Decide if a number is zero: floats with a zone of doubt, fractions as integers, sums with 200 decimal digits."""

import decimal
import math
from collections.abc import Hashable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from math import comb
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints

EQUALITY_TOLERANCE = 1e-9  # relative to the largest value
DOUBTFUL_RANGE = (1e-12, 1e-7)  # a float in this range is neither certainly 0 nor certainly different from 0
MAX_DENOMINATOR = 100_000  # rationals up to it are 1e-10 apart, far beyond the error of a double
ROUNDING_ERROR = 1e-14
MAX_WHOLE_NUMBER = 2**40  # whole numbers whose sums still fit into 64 bits
DECIMAL_DIGITS = 200
MIN_CERTAIN_VALUE = (
    Decimal(10) ** -100
)  # rounding errors stay below 2^n_items · 10^-190, so below 10^-130 up to 200 items

Terms = list[tuple[int | Fraction, "NamedNumber"]]


def common_integers(values: Floats) -> Ints | None:
    """Return `values` times their common denominator if all are fractions with a small denominator, else None.

    A float lies within 1e-14 of such a fraction by chance once in 10,000 times, so a list of irrational values
    practically never passes.
    """
    fractions = [Fraction(float(value)).limit_denominator(MAX_DENOMINATOR) for value in values]
    errors = [abs(float(fraction) - value) for fraction, value in zip(fractions, values)]
    if max(errors) > ROUNDING_ERROR * max(1.0, float(np.abs(values).max())):
        return None
    common = reduce(math.lcm, (fraction.denominator for fraction in fractions))
    if common * max(1.0, float(np.abs(values).max())) > MAX_WHOLE_NUMBER:
        return None
    return np.array([int(fraction * common) for fraction in fractions], dtype=np.int64)


def level_numbers(values: Floats) -> Ints:
    """Return a number for each value: equal values get equal numbers, larger values larger ones."""
    order = np.argsort(values, kind="stable")
    gaps = np.diff(values[order]) / (np.abs(values).max() or 1.0)
    is_zero(gaps)
    numbers = np.empty(len(values), dtype=np.int64)
    numbers[order] = np.concatenate(([0], np.cumsum(gaps > EQUALITY_TOLERANCE)))
    return numbers


def is_zero(numbers: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Mark the floats, of magnitude about 1, that stand for 0; raise `InvalidInput` if one is too close to call."""
    size = np.abs(numbers)
    doubtful = size[(size > DOUBTFUL_RANGE[0]) & (size < DOUBTFUL_RANGE[1])]
    if len(doubtful):
        raise InvalidInput(f"no verdict: {doubtful[0]:.1e} is too small to tell from 0 in floating point")
    return size <= EQUALITY_TOLERANCE


class NamedNumber(NamedTuple):
    """Number with a name: numbers with equal names are equal, to the last digit."""

    name: Hashable
    value: Decimal


def fraction(numerator: int, denominator: int) -> NamedNumber:
    """Return a rational number whose name is the fraction.

    Args:
      numerator: Of the fraction.
      denominator: Of the fraction.
    """
    with decimal.localcontext(prec=DECIMAL_DIGITS):
        return NamedNumber(("fraction", Fraction(numerator, denominator)), Decimal(numerator) / Decimal(denominator))


def is_nonzero(terms: Terms) -> bool | None:
    """Decide if Σ factor · number differs from 0; None when neither can be shown."""
    by_name: dict[Hashable, Fraction] = {}
    values: dict[Hashable, Decimal] = {}
    rational = Fraction(0)
    for factor, number in terms:
        if isinstance(number.name, tuple) and number.name[0] == "fraction":
            rational += Fraction(factor) * number.name[1]
        else:
            by_name[number.name] = by_name.get(number.name, Fraction(0)) + Fraction(factor)
            values[number.name] = number.value
    left = {name: factor for name, factor in by_name.items() if factor}
    if not left:
        return rational != 0
    with decimal.localcontext(prec=DECIMAL_DIGITS):
        total = _decimal(rational) + sum((_decimal(f) * values[name] for name, f in left.items()), Decimal(0))
    return True if abs(total) > MIN_CERTAIN_VALUE else None


def difference_terms(numbers: Sequence[NamedNumber]) -> Terms:
    """Return the terms of the n-th difference of n + 1 numbers: Σ_u (−1)^(n − u) · binomial(n, u) · numbers[u]."""
    order = len(numbers) - 1
    return [((-1) ** (order - u) * comb(order, u), number) for u, number in enumerate(numbers)]


def log_discounts(n_positions: int) -> list[Decimal]:
    """Return 1 / log₂(p + 2) for positions p = 0, 1, …, to 200 digits."""
    with decimal.localcontext(prec=DECIMAL_DIGITS):
        return [Decimal(2).ln() / Decimal(p + 2).ln() for p in range(n_positions)]


def half_life_discounts(n_positions: int, half_life: float) -> list[Decimal]:
    """Return 2^(−p / (half_life − 1)) for positions p = 0, 1, …, to 200 digits.

    Args:
      n_positions: The number of positions.
      half_life: The position, counted from 1, whose discount is one half.
    """
    with decimal.localcontext(prec=DECIMAL_DIGITS):
        decay = Decimal(2) ** (Decimal(-1) / (Decimal(half_life) - 1))
        return [decay**p for p in range(n_positions)]


def one_over_best(gains: Sequence[Fraction], discounts: Sequence[Decimal]) -> NamedNumber:
    """Return 1 / (value of the best ranking of items with these gains).

    Args:
      gains: The gains of the items.
      discounts: The discounts of the positions.
    """
    best = tuple(sorted(gains, reverse=True)[: len(discounts)])
    with decimal.localcontext(prec=DECIMAL_DIGITS):
        return NamedNumber(best, 1 / sum((_decimal(gain) * worth for gain, worth in zip(best, discounts)), Decimal(0)))


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)

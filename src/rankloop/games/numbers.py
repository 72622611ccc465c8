"""Whether a number is 0: doubles with a zone of doubt, fractions as whole numbers, alternating sums in 200 digits."""

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

SAME = 1e-9  # relative to the largest value: what differs by less is equal, unless it lies in the doubtful zone
DOUBTFUL = (1e-12, 1e-7)  # a number in here is neither surely 0 nor surely not
DENOMINATOR = 100_000  # rationals up to it are 1e-10 apart, far beyond the error of a double
ROUNDING = 1e-14
MAX_WHOLE_NUMBER = 2**40  # whole numbers whose sums still fit into 64 bits
DIGITS = 200
CERTAIN = Decimal(10) ** -100  # rounding errors stay below 2^n_items · 10^-190, so below 10^-130 up to 200 items

Terms = list[tuple[int | Fraction, "Known"]]


def whole_numbers(values: Floats) -> Ints | None:
    """`values` times their common denominator when each of them is a fraction with a small denominator, else None.

    A double lies within 1e-14 of such a fraction by chance once in 10,000 times, so a list of irrational values passes
    practically never.
    """
    fractions = [Fraction(float(value)).limit_denominator(DENOMINATOR) for value in values]
    errors = [abs(float(fraction) - value) for fraction, value in zip(fractions, values)]
    if max(errors) > ROUNDING * max(1.0, float(np.abs(values).max())):
        return None
    common = reduce(math.lcm, (fraction.denominator for fraction in fractions))
    if common * max(1.0, float(np.abs(values).max())) > MAX_WHOLE_NUMBER:
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


class Known(NamedTuple):
    """A number with a name: equal names are equal numbers, to the last digit."""

    name: Hashable
    value: Decimal


def fraction(numerator: int, denominator: int) -> Known:
    """A rational number, named by itself."""
    with decimal.localcontext(prec=DIGITS):
        return Known(("fraction", Fraction(numerator, denominator)), Decimal(numerator) / Decimal(denominator))


def is_nonzero(terms: Terms) -> bool | None:
    """Whether Σ factor · number is different from 0; None when neither can be shown."""
    by_name: dict[Hashable, Fraction] = {}
    values: dict[Hashable, Decimal] = {}
    rational = Fraction(0)
    for factor, known in terms:
        if isinstance(known.name, tuple) and known.name[0] == "fraction":
            rational += Fraction(factor) * known.name[1]
        else:
            by_name[known.name] = by_name.get(known.name, Fraction(0)) + Fraction(factor)
            values[known.name] = known.value
    left = {name: factor for name, factor in by_name.items() if factor}
    if not left:
        return rational != 0
    with decimal.localcontext(prec=DIGITS):
        total = _decimal(rational) + sum((_decimal(f) * values[name] for name, f in left.items()), Decimal(0))
    return True if abs(total) > CERTAIN else None


def difference_terms(numbers: Sequence[Known]) -> Terms:
    """The last difference of n + 1 numbers: Σ_u (−1)^(n − u) · binomial(n, u) · numbers[u]."""
    order = len(numbers) - 1
    return [((-1) ** (order - u) * comb(order, u), number) for u, number in enumerate(numbers)]


def log_discounts(n_positions: int) -> list[Decimal]:
    """1 / log₂(p + 2) for positions p = 0, 1, …, to 200 digits."""
    with decimal.localcontext(prec=DIGITS):
        return [Decimal(2).ln() / Decimal(p + 2).ln() for p in range(n_positions)]


def half_life_discounts(n_positions: int, half_life: float) -> list[Decimal]:
    """2^(−p / (half_life − 1)) for positions p = 0, 1, …, to 200 digits."""
    with decimal.localcontext(prec=DIGITS):
        decay = Decimal(2) ** (Decimal(-1) / (Decimal(half_life) - 1))
        return [decay**p for p in range(n_positions)]


def one_over_best(gains: Sequence[Fraction], discounts: Sequence[Decimal]) -> Known:
    """1 / (what the best ranking of items with these gains is worth)."""
    best = tuple(sorted(gains, reverse=True)[: len(discounts)])
    with decimal.localcontext(prec=DIGITS):
        return Known(best, 1 / sum((_decimal(gain) * worth for gain, worth in zip(best, discounts)), Decimal(0)))


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)

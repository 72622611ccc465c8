"""Alternating sums in 200 digits: whether they are 0 is decided by their terms, not by rounding."""

from __future__ import annotations

import decimal
from collections.abc import Hashable, Sequence
from decimal import Decimal
from fractions import Fraction
from math import comb
from typing import NamedTuple

DIGITS = 200
CERTAIN = Decimal(10) ** -100  # rounding errors stay below 2^n_items · 10^-190, so below 10^-130 up to 200 items

Terms = list[tuple[int | Fraction, "Known"]]


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

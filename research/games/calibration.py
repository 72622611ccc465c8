"""No surrogate that is calibrated for nDCG can be learned from k grades, for any k ≤ m − 2: the pair that proves it.

A surrogate is calibrated for nDCG if its best scores stand in the order of E[G(R)/Z(R)], Z the ideal DCG. With grades 0
and 1, take a set S of k + 1 items and one more item b. World `even` draws a set of even size among the subsets of S,
all alike, and calls its members relevant; `odd` draws one of odd size. Any k items miss a member of S, and given the
grades of the others its grade is a fair coin in both worlds: all that k grades can show is the same. But an item of S
is worth Δ/2^k more in `odd`, Δ = Σ_j (−1)^j·binomial(k, j)/Z_{j+1}, and Δ > 0 for every k, since 1/Z is completely
monotone (docs, theory of games). Mixed with rounds in which b alone is relevant, b stands above S in one world and
below it in the other.
"""

import decimal
import itertools
from decimal import Decimal
from fractions import Fraction
from math import comb
from typing import NamedTuple

from rankloop.core.errors import InvalidInput
from rankloop.games.closed_forms import DECIMAL_DIGITS, log_discounts

DECIMAL_ERROR = Decimal(10) ** -150  # far above what 200 digits lose in these sums
MAX_DENOMINATOR = 10**40

World = dict[tuple[int, ...], Fraction]  # relevances with their probabilities


class CalibrationPair(NamedTuple):
    """Two worlds that k grades cannot tell apart and that want different orders of E[G/Z], with exact probabilities."""

    n_items: int
    depth: int
    even: World
    odd: World


def calibration_pair(n_items: int, depth: int) -> CalibrationPair:
    """Items 0 to k are S, the last item is b; what lies between is never relevant."""
    if not 1 <= depth <= n_items - 2:
        raise InvalidInput(
            f"depth = {depth} with {n_items} items: the pair exists for 1 ≤ depth ≤ items − 2; from items − 1 grades "
            "on nDCG of grades 0 and 1 can be learned"
        )
    worths = [_worth(depth, parity) for parity in (0, 1)]
    middle = Fraction(str((worths[0] + worths[1]) / 2)).limit_denominator(MAX_DENOMINATOR)
    share = middle / (1 + middle)  # of the rounds in which b alone is relevant, so that it is worth as much as S
    alone = (*[0] * (n_items - 1), 1)
    worlds = [
        {alone: share} | dict.fromkeys(_members(n_items, depth, parity), (1 - share) / 2**depth) for parity in (0, 1)
    ]
    return CalibrationPair(n_items, depth, *worlds)


def normalised_gains(world: World) -> list[Decimal]:
    """E[G/Z] of every item, to 200 digits."""
    n_items = len(next(iter(world)))
    ideal = _ideal(n_items)
    with decimal.localcontext(prec=DECIMAL_DIGITS):
        totals = [Decimal(0)] * n_items
        for relevance, probability in world.items():
            count = sum(relevance)
            for item in range(n_items):
                if relevance[item]:
                    totals[item] += _decimal(probability) / ideal[count]
    return totals


def seen_by(world: World, items: tuple[int, ...]) -> dict[tuple[int, ...], Fraction]:
    """The probabilities of all grades on some items, exactly."""
    probabilities: dict[tuple[int, ...], Fraction] = {}
    for relevance, probability in world.items():
        grades = tuple(relevance[item] for item in items)
        probabilities[grades] = probabilities.get(grades, Fraction(0)) + probability
    return probabilities


def check_calibration_pair(pair: CalibrationPair) -> None:
    """Raise `InvalidInput` unless the pair proves what it says; every set of k items is enumerated, exactly."""
    for world in (pair.even, pair.odd):
        if sum(world.values()) != 1 or min(world.values()) < 0:
            raise InvalidInput("the probabilities of a world do not add up to 1")
    for items in itertools.combinations(range(pair.n_items), pair.depth):
        if seen_by(pair.even, items) != seen_by(pair.odd, items):
            raise InvalidInput(f"the grades of the items {items} tell the worlds apart")
    if not reversed_items(pair):
        raise InvalidInput("some order of the items is right in both worlds")


def reversed_items(pair: CalibrationPair) -> list[tuple[int, int]]:
    """Pairs of items (a, b) with a surely above b in `odd` and surely below in `even`: no order is right in both."""
    even, odd = normalised_gains(pair.even), normalised_gains(pair.odd)
    items = range(pair.n_items)
    return [
        (a, b) for a in items for b in items if odd[a] - odd[b] > DECIMAL_ERROR and even[b] - even[a] > DECIMAL_ERROR
    ]


def worth_difference(depth: int) -> Decimal:
    """Δ/2^k > 0: how much more an item of S is worth in a world of odd sets than in one of even sets."""
    with decimal.localcontext(prec=DECIMAL_DIGITS):
        return _worth(depth, 1) - _worth(depth, 0)


def _worth(depth: int, parity: int) -> Decimal:
    """E[G/Z] of an item of S when subsets of this parity are drawn: 2^−k·Σ binomial(k, j)/Z_{j+1}, j + 1 of parity."""
    ideal = _ideal(depth + 1)
    with decimal.localcontext(prec=DECIMAL_DIGITS):
        parts = [Decimal(comb(depth, j)) / ideal[j + 1] for j in range(depth + 1) if (j + 1) % 2 == parity]
        return sum(parts, Decimal(0)) / Decimal(2**depth)


def _members(n_items: int, depth: int, parity: int) -> list[tuple[int, ...]]:
    """The relevances of all subsets of S whose size has this parity."""
    rows = itertools.product((0, 1), repeat=depth + 1)
    return [(*row, *[0] * (n_items - depth - 1)) for row in rows if sum(row) % 2 == parity]


def _ideal(n_items: int) -> list[Decimal]:
    """Z_0, Z_1, …: the ideal DCG with so many relevant items."""
    with decimal.localcontext(prec=DECIMAL_DIGITS):
        return list(itertools.accumulate(log_discounts(n_items), initial=Decimal(0)))


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)

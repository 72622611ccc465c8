"""nDCG and NERU: what a ranking is worth over what the best ranking of the same items would be worth."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from math import comb
from typing import Any

from rankloop.core.registry import entry_of
from rankloop.games.thresholds.base import Thresholds, Unseen
from rankloop.games.thresholds.numbers import (
    Known,
    Terms,
    difference_terms,
    half_life_discounts,
    is_nonzero,
    log_discounts,
    one_over_best,
)
from rankloop.games.thresholds.position_weights import Size, Weighted, proved, runs, swapped, thresholds_of, trivial


def normalised_sum(measure: Any, size: Size) -> Thresholds | None:
    """With one gain the scale depends on how many items have it; with several, on all of them."""
    gains = gains_of(measure, size.max_grade)
    if not any(gains):
        return trivial()
    positions = min(size.n_items, measure.cutoff or size.n_items)
    if entry_of(measure).kind == "nDCG":
        discounts = log_discounts(positions)
    else:
        discounts = half_life_discounts(positions, measure.half_life)
    if len({gain for gain in gains if gain}) > 1:
        return _every_item_together(gains, discounts, size)
    gain = max(gains)
    sizes = sizes_of_terms(size.n_items, lambda relevant: one_over_best([gain] * relevant, discounts))
    if sizes is None:
        return None
    return thresholds_of(Weighted(runs(size.n_items, measure.cutoff), sizes, first_gain(gains)))


def gains_of(measure: Any, max_grade: int) -> list[Fraction]:
    """What each grade is worth to a sum over positions, exactly."""
    if entry_of(measure).kind in ("ERU", "NERU"):
        return [max(grade - Fraction(measure.neutral), Fraction(0)) for grade in range(max_grade + 1)]
    if measure.gain == "linear":
        return [Fraction(grade) for grade in range(max_grade + 1)]
    return [Fraction(2**grade - 1) for grade in range(max_grade + 1)]


def first_gain(gains: Sequence[Fraction]) -> int:
    """The lowest grade that is worth something."""
    return next(grade for grade, gain in enumerate(gains) if gain)


def sizes_of_terms(n_items: int, scale: Callable[[int], Known]) -> tuple[int, ...] | None:
    """How many other items the terms of scale(relevant items) · (r_a − r_b) hold, for grades 0 and 1."""
    scales = [scale(relevant) for relevant in range(1, n_items)]
    found = [is_nonzero(difference_terms(scales[:count])) for count in range(1, n_items)]
    if None in found:
        return None
    return tuple(others for others, there in enumerate(found) if there)


def _every_item_together(gains: Sequence[Fraction], discounts: Sequence[Decimal], size: Size) -> Thresholds | None:
    """Several gains under a scale of all of them: swapping places 0 and 1 changes the term of all items."""
    low, high = sorted({gain for gain in gains if gain})[:2]
    for rest in (low, high):
        values = [low, high] + [rest] * (size.n_items - 2)
        if is_nonzero(_term_of_all(values, discounts)):
            grades = tuple(gains.index(value) for value in values)
            order = tuple(range(size.n_items))
            unseen = Unseen(first=order, second=swapped(size.n_items, 0, 1), items=order, grades=grades)
            return proved(size.n_items, size.n_items, unseen)
    return None


def _term_of_all(values: Sequence[Fraction], discounts: Sequence[Decimal]) -> Terms:
    """The alternating sum of (gain of item 0 − gain of item 1) / best over all sets of items; all but two are alike."""
    first, second, *rest = values
    terms: Terms = []
    for others, a, b in itertools.product(range(len(rest) + 1), (0, 1), (0, 1)):
        if a or b:
            sign = (-1) ** (len(values) - others - a - b)
            factor = sign * comb(len(rest), others) * (a * first - b * second)
            terms.append((factor, one_over_best([first] * a + [second] * b + rest[:others], discounts)))
    return terms

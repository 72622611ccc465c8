"""Thresholds by formula, for every number of items; the proofs are in docs/theory/games.md.

Most measures weigh positions: (something without the ranking) + scale(relevance) · Σ_p weight[p] · gain(grade at p).

With x = E[scale · gain] per item, a ranking is best when it sorts x: the borders are those where two items of groups of
positions with adjacent weights have equal x, and nothing else (the renamings of any x ≠ constant average to a constant,
so that every direction of x occurs). Across such a border the difference of losses is, up to a factor, scale · (gain of
one − gain of the other). Its terms depend only on how many other items they hold: `sizes` lists these numbers.
"""

import decimal
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from math import comb
from typing import Any, NamedTuple

from rankloop.core.protocols import Measure
from rankloop.core.registry import entry_of
from rankloop.games.certificate import Border, Order, Thresholds, Unseen

DECIMAL_DIGITS = 200
MIN_CERTAIN_VALUE = Decimal("1e-100")  # rounding errors stay below 2^n_items · 10^-190: 10^-130 up to 200 items
MAX_ITEMS = 200  # beyond, 200 digits no longer outweigh the binomial coefficients


def _is_nonzero(terms: Iterable[tuple[int | Fraction, Decimal]]) -> bool | None:
    """Decide if Σ factor · number differs from 0; None when neither can be shown."""
    # The same number often occurs with opposite factors, which cancel exactly.
    factors: dict[Decimal, Fraction] = defaultdict(Fraction)
    for factor, number in terms:
        factors[number] += factor
    if not any(factors.values()):
        return False
    with decimal.localcontext(prec=DECIMAL_DIGITS):
        total = sum((_decimal(factor) * number for number, factor in factors.items()), Decimal(0))
    return True if abs(total) > MIN_CERTAIN_VALUE else None


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def _difference_terms(numbers: Sequence[Decimal]) -> list[tuple[int, Decimal]]:
    """Return the terms of the n-th difference of n + 1 numbers: Σ_u (−1)^(n − u) · binomial(n, u) · numbers[u]."""
    order = len(numbers) - 1
    return [((-1) ** (order - u) * comb(order, u), number) for u, number in enumerate(numbers)]


def log_discounts(n_positions: int) -> list[Decimal]:
    """Return 1 / log₂(p + 2) for positions p = 0, 1, …, to 200 digits."""
    with decimal.localcontext(prec=DECIMAL_DIGITS):
        return [Decimal(2).ln() / Decimal(p + 2).ln() for p in range(n_positions)]


def _half_life_discounts(n_positions: int, half_life: float) -> list[Decimal]:
    """Return 2^(−p / (half_life − 1)) for positions p = 0, 1, …, to 200 digits."""
    with decimal.localcontext(prec=DECIMAL_DIGITS):
        decay = Decimal(2) ** (Decimal(-1) / (Decimal(half_life) - 1))
        return [decay**p for p in range(n_positions)]


def _one_over_best(gains: Sequence[Fraction], discounts: Sequence[Decimal]) -> Decimal:
    """Return 1 / (value of the best ranking of items with these gains)."""
    with decimal.localcontext(prec=DECIMAL_DIGITS):
        best = zip(sorted(gains, reverse=True), discounts)
        return 1 / sum((_decimal(gain) * discount for gain, discount in best), Decimal(0))


def _thresholds(learnable: int, fast: int, unseen: Unseen | None, border: Border | None = None) -> Thresholds:
    return Thresholds(learnable=learnable, fast=fast, unseen=unseen, border=border, refuted=(), source="closed form")


TRIVIAL_THRESHOLDS = _thresholds(0, 0, None)


class Weighted(NamedTuple):
    """Measure that weighs positions, reduced to what decides its thresholds."""

    groups: tuple[int, ...]  # the lengths of the runs of positions with equal weight, from the top
    sizes: tuple[int, ...] = (0,)  # other items in a term, besides one of the two
    grade: int = 1  # a grade with a gain


def _falling_weights(m: int, cutoff: int | None = None) -> tuple[int, ...]:
    """Return groups of one position each up to the cutoff, and one group of all positions behind it."""
    positions = min(m, cutoff or m)
    return (1,) * positions + ((m - positions,) if positions < m else ())


def _top_or_not(m: int, cutoff: int | None) -> tuple[int, ...]:
    """Return two groups of positions: up to the cutoff and behind it."""
    return (cutoff, m - cutoff) if cutoff is not None and cutoff < m else (m,)


def _group_of(groups: tuple[int, ...]) -> list[int]:
    """Return the group of each position."""
    return [group for group, length in enumerate(groups) for _ in range(length)]


def _swapped(m: int, item: int, other: int) -> Order:
    """Return the ranking 0, 1, 2, … with two items exchanged."""
    exchange = {item: other, other: item}
    return tuple(exchange.get(i, i) for i in range(m))


def _unseen(m: int, item: int, other: int, items: Sequence[int], grades: tuple[int, ...]) -> Unseen:
    """Return the proof that a term of the difference between 0, 1, 2, … and the swap of two items is never revealed."""
    return Unseen(first=tuple(range(m)), second=_swapped(m, item, other), items=tuple(items), grades=grades)


def _border(groups: tuple[int, ...], item: int, items: Sequence[int], grades: tuple[int, ...], gain: int) -> Border:
    """Return the border between an item that ends its group and the next, with a term that neither top holds."""
    # Its witness has one relevant item at a time: likelier in better groups, equally likely for the two.
    m, group_of = sum(groups), _group_of(groups)
    height = [float(len(groups) - group) for group in group_of]
    height[item] = height[item + 1] = len(groups) - group_of[item] - 0.5
    total = sum(height)
    witness = tuple((tuple(gain * (i == best) for i in range(m)), height[best] / total) for best in range(m))
    order, other = tuple(range(m)), _swapped(m, item, item + 1)
    return Border(first=order, second=other, witness=witness, items=tuple(items), grades=grades)


def _position_thresholds(form: Weighted) -> Thresholds:
    """Return both thresholds of a measure that weighs positions."""
    groups, sizes, grade = form
    m = sum(groups)
    if len(groups) == 1:
        return TRIVIAL_THRESHOLDS
    item = groups[0] - 1
    others = [i for i in range(m) if i not in (item, item + 1)]
    largest = sorted([item, *others[: max(sizes)]])
    unseen = _unseen(m, item, item + 1, largest, (grade,) * len(largest))
    border = None
    for depth in range(1, m + 1):
        hidden = _hidden_term(form, depth)
        if hidden is None:
            return _thresholds(len(largest), depth, unseen, border)
        border = _border(groups, hidden[0], hidden[1], (grade,) * len(hidden[1]), grade)
    raise AssertionError("the grades of all items hide no term")


def _hidden_term(form: Weighted, depth: int) -> tuple[int, list[int]] | None:
    """Return an item that ends its group, and a term of its difference to the next that neither top holds, or None."""
    # One pair for each border between adjacent groups is enough: all others are renamings.
    # Inside a group the order is free, so that the top consists of the groups that fit completely, and any `room` items
    # of the group that is cut.
    ends, group_of = list(itertools.accumulate(form.groups)), _group_of(form.groups)
    cut = next((group for group, end in enumerate(ends) if end > depth), len(ends))
    room = depth - ([0, *ends])[cut] if cut < len(ends) else 0
    for group, end in enumerate(ends[:-1]):
        others = [i for i in range(len(group_of)) if i not in (end - 1, end)]
        below, above = [i for i in others if group_of[i] > cut], [i for i in others if group_of[i] < cut]
        at_cut = [i for i in others if group_of[i] == cut]
        for size in form.sizes:
            worst = (below + at_cut + above)[:size]
            n_at_cut = sum(group_of[i] == cut for i in worst)
            if group > cut or any(group_of[i] > cut for i in worst) or n_at_cut > room - (group == cut):
                return end - 1, sorted([end - 1, *worst])
    return None


def closed_form(measure: Measure, n_items: int, max_grade: int) -> Thresholds | None:
    """Return the thresholds of a measure by formula; None when there is no formula for it.

    Args:
      measure: The measure as `measure_for` returns it.
      n_items: The number of items.
      max_grade: Grades are 0, 1, … up to this.
    """
    if n_items == 1:
        return TRIVIAL_THRESHOLDS
    if n_items > MAX_ITEMS:
        return None
    match entry_of(measure).kind:
        case "PairwiseLoss" if max_grade > 1:  # [r_i < r_j] is a term of two items.
            border = _border((1,) * n_items, n_items - 2, (n_items - 2, n_items - 1), (1, 2), 1)
            return _thresholds(2, n_items, _unseen(n_items, 0, 1, (0, 1), (1, 2)), border)
        case "SumLoss" | "PairwiseLoss":  # With binary grades they are the same up to a constant.
            return _position_thresholds(Weighted(_falling_weights(n_items)))
        case "DCG" | "ERU" | "nDCG" | "NERU":
            return _discounted_sum(measure, n_items, max_grade)
        case "P" | "Recall" | "AUC" | "AUCLoss" | "AP" | "RR":
            return _binary_measure(measure, n_items, max_grade)
        case "ERR" if max_grade <= measure.max_grade:  # type: ignore[attr-defined]
            return _first_satisfying(measure, n_items, 1)
    return None


def _discounted_sum(measure: Any, m: int, max_grade: int) -> Thresholds | None:
    """DCG and ERU: Σ_p weight[p] · gain(grade at p), falling weights up to the cutoff; nDCG and NERU with a scale."""
    # With one gain the scale depends on how many items have it; with several, on all of them.
    kind = entry_of(measure).kind
    if kind in ("ERU", "NERU"):
        gains = [max(grade - Fraction(measure.neutral), Fraction(0)) for grade in range(max_grade + 1)]
    else:
        gains = [Fraction(grade if measure.gain == "linear" else 2**grade - 1) for grade in range(max_grade + 1)]
    if not any(gains):
        return TRIVIAL_THRESHOLDS
    groups, first_gain = _falling_weights(m, measure.cutoff), next(grade for grade, gain in enumerate(gains) if gain)
    if kind in ("DCG", "ERU"):
        return _position_thresholds(Weighted(groups, (0,), first_gain))
    positions = min(m, measure.cutoff or m)
    discounts = log_discounts(positions) if kind == "nDCG" else _half_life_discounts(positions, measure.half_life)
    if len({gain for gain in gains if gain}) > 1:
        return _every_item_together(gains, discounts, m)
    # A term of one of the two items and t others has the coefficient ± Δ^t scale, from one relevant item on.
    scales = [_one_over_best([max(gains)] * relevant, discounts) for relevant in range(1, m)]
    is_present = [_is_nonzero(_difference_terms(scales[: others + 1])) for others in range(m - 1)]
    if None in is_present:
        return None
    sizes = tuple(others for others, present in enumerate(is_present) if present)
    return _position_thresholds(Weighted(groups, sizes, first_gain))


def _every_item_together(gains: Sequence[Fraction], discounts: Sequence[Decimal], m: int) -> Thresholds | None:
    """Return the thresholds for several gains under a common scale: a swap of the first two changes every term."""
    low, high = sorted({gain for gain in gains if gain})[:2]
    for other_gain in (low, high):
        values = [low, high] + [other_gain] * (m - 2)
        if _is_nonzero(_terms_of_all(values, discounts)):
            grades = tuple(gains.index(value) for value in values)
            return _thresholds(m, m, _unseen(m, 0, 1, range(m), grades))
    return None


def _terms_of_all(values: Sequence[Fraction], discounts: Sequence[Decimal]) -> Iterator[tuple[Fraction, Decimal]]:
    """Yield the alternating sum of (gain of item 0 − gain of item 1) / best over all sets of items."""
    first, second, *others_gains = values
    for others, a, b in itertools.product(range(len(others_gains) + 1), (0, 1), (0, 1)):
        if a or b:
            sign = (-1) ** (len(values) - others - a - b)
            factor = sign * comb(len(others_gains), others) * (a * first - b * second)
            yield factor, _one_over_best([first] * a + [second] * b + others_gains[:others], discounts)


def _binary_measure(measure: Any, m: int, max_grade: int) -> Thresholds:
    """P, Recall, AUC, AP and RR: all grades from `relevant_from` on are alike, so the lowest of them decides."""
    grade = next((grade for grade in range(1, max_grade + 1) if grade >= measure.relevant_from), None)
    if grade is None:
        return TRIVIAL_THRESHOLDS
    match entry_of(measure).kind:
        case "P":
            return _position_thresholds(Weighted(_top_or_not(m, measure.cutoff), (0,), grade))
        case "RR":
            return _first_satisfying(measure, m, grade)
        case "AUC" | "AUCLoss":
            # The t-th difference of 1 / (s · (m − s)), by s relevant items, is 0 only for t = m − 2 and odd m.
            return _position_thresholds(Weighted(_falling_weights(m), tuple(range(m - 1 - m % 2)), grade))
        case "AP" if measure.cutoff != 1 and m == 2:
            return _position_thresholds(Weighted((1, 1), (0,), grade))
        case "AP" if measure.cutoff != 1:
            # Swapping the first two positions changes it by (r_0 − r_1) / (2 · relevant items): all items but one.
            all_but_second, grades = [i for i in range(m) if i != 1], (grade,) * (m - 1)
            border = _border(_falling_weights(m, measure.cutoff), 0, all_but_second, grades, grade)
            return _thresholds(m - 1, m, _unseen(m, 0, 1, all_but_second, grades), border)
    # Recall, and AP@1, which is the same. The t-th difference of 1/s at 1 is ± 1/(t + 1): terms of every size.
    return _position_thresholds(Weighted(_top_or_not(m, measure.cutoff), tuple(range(m - 1)), grade))


def _first_satisfying(measure: Any, m: int, grade: int) -> Thresholds:
    """RR and ERR: the term of a set of items is ± 1 / (position of its last item), 0 behind the cutoff."""
    depth = min(measure.cutoff or m, m - 1)
    return _thresholds(depth, depth, _unseen(m, depth - 1, depth, range(depth), (grade,) * depth))

"""Thresholds by formula, for every number of items; the proofs are in docs/theory/games.md.

Most measures weigh positions: (something without the ranking) + scale(relevance) · Σ_p weight[p] · gain(grade at p).

With x = E[scale · gain] per item, a ranking is best when it sorts x: the borders are those where two items of groups of
positions with adjacent weights have equal x, and nothing else (the renamings of any x ≠ constant average to a constant,
so that every direction of x occurs). Across such a border the difference of losses is, up to a factor, scale · (gain of
one − gain of the other). Its terms depend only on how many other items they hold: `sizes` lists these numbers.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from math import comb
from typing import Any, NamedTuple

from rankloop.core.protocols import Measure
from rankloop.core.registry import entry_of
from rankloop.games.certificate import Border, Order, Thresholds, Unseen, swapped
from rankloop.games.game import (
    NamedNumber,
    Terms,
    difference_terms,
    fraction,
    half_life_discounts,
    is_nonzero,
    log_discounts,
    one_over_best,
)

MAX_ITEMS = 200  # beyond, 200 digits no longer outweigh the binomial coefficients


class GameSize(NamedTuple):
    """Number of items and highest grade."""

    n_items: int
    max_grade: int


class Weighted(NamedTuple):
    """Measure that weighs positions, reduced to what decides its thresholds.

    `groups` are the lengths of the runs of positions with equal weight, from the top.
    """

    groups: tuple[int, ...]
    sizes: tuple[int, ...]  # other items in a term, besides one of the two
    grade: int = 1  # a grade with a gain


class BorderPair(NamedTuple):
    """Two items of adjacent groups, the better placed one first, and the number of groups above them."""

    item: int
    other: int
    group: int


class HiddenTerm(NamedTuple):
    """Two neighbours, and the items of a term of their difference."""

    pair: BorderPair
    items: tuple[int, ...]


def _trivial() -> Thresholds:
    """Return the thresholds of a game in which the order does not matter."""
    return Thresholds(learnable=0, fast=0, unseen=None, border=None, refuted=(), source="closed form")


def _proved_thresholds(learnable: int, fast: int, unseen: Unseen, border: Border | None = None) -> Thresholds:
    return Thresholds(learnable=learnable, fast=fast, unseen=unseen, border=border, refuted=(), source="closed form")


def _runs(n_items: int, cutoff: int | None) -> tuple[int, ...]:
    """Return groups of one position each up to the cutoff, and one group of all positions behind it."""
    positions = min(n_items, cutoff or n_items)
    return (1,) * positions + ((n_items - positions,) if positions < n_items else ())


def _top_or_not(n_items: int, cutoff: int | None) -> tuple[int, ...]:
    """Return two groups of positions: up to the cutoff and behind it."""
    positions = min(n_items, cutoff or n_items)
    return (positions, n_items - positions) if positions < n_items else (n_items,)


def _position_thresholds(form: Weighted) -> Thresholds:
    """Return both thresholds of a measure that weighs positions."""
    n_items = sum(form.groups)
    if len(form.groups) == 1:
        return _trivial()
    pair = next(_pairs(form.groups))
    others = [i for i in range(n_items) if i not in (pair.item, pair.other)]
    largest = tuple(sorted([pair.item, *others[: max(form.sizes)]]))
    unseen = Unseen(
        first=tuple(range(n_items)),
        second=swapped(n_items, pair.item, pair.other),
        items=largest,
        grades=(form.grade,) * len(largest),
    )
    fast = next(depth for depth in range(1, n_items + 1) if _hidden_term(form, depth) is None)
    hidden = _hidden_term(form, fast - 1) if fast > 1 else None
    return _proved_thresholds(len(largest), fast, unseen, None if hidden is None else _border(form, hidden))


def _hidden_term(form: Weighted, depth: int) -> HiddenTerm | None:
    """Return two neighbours and a term of their difference that the top of neither holds; None if there is none.

    Inside a group the order is free, so that the top consists of the groups that fit completely, and any `room` items
    of the group that is cut.
    """
    ends = list(itertools.accumulate(form.groups))
    group_of = [g for g, length in enumerate(form.groups) for _ in range(length)]
    cut = next((g for g, end in enumerate(ends) if end > depth), len(ends))
    room = depth - ([0, *ends])[cut] if cut < len(ends) else 0
    for pair in _pairs(form.groups):
        others = [i for i in range(len(group_of)) if i not in (pair.item, pair.other)]
        below = [i for i in others if group_of[i] > cut]
        at_cut = [i for i in others if group_of[i] == cut]
        above = [i for i in others if group_of[i] < cut]
        left = room - (pair.group == cut)
        for size in form.sizes:
            worst = (below + at_cut + above)[:size]
            out = sum(group_of[i] > cut for i in worst), sum(group_of[i] == cut for i in worst)
            if pair.group > cut or out[0] > 0 or out[1] > left:
                return HiddenTerm(pair, tuple(sorted([pair.item, *worst])))
    return None


def _one_hot_border(groups: tuple[int, ...], pair: BorderPair, grade: int) -> tuple[tuple[Order, float], ...]:
    """Return one relevant item at a time with probabilities: likelier in better groups, equally likely for the pair."""
    n_items, n_groups = sum(groups), len(groups)
    height = [float(n_groups - g) for g, length in enumerate(groups) for _ in range(length)]
    height[pair.item] = height[pair.other] = n_groups - pair.group - 0.5
    total = sum(height)
    return tuple((tuple(grade * (i == item) for i in range(n_items)), height[item] / total) for item in range(n_items))


def _pairs(groups: tuple[int, ...]) -> Iterator[BorderPair]:
    """Yield one pair per border between adjacent groups: all others are renamings of these."""
    for group, end in enumerate(itertools.accumulate(groups[:-1])):
        yield BorderPair(end - 1, end, group)


def _border(form: Weighted, hidden: HiddenTerm) -> Border:
    n_items, pair = sum(form.groups), hidden.pair
    return Border(
        first=tuple(range(n_items)),
        second=swapped(n_items, pair.item, pair.other),
        witness=_one_hot_border(form.groups, pair, form.grade),
        items=hidden.items,
        grades=(form.grade,) * len(hidden.items),
    )


def closed_form(measure: Measure, n_items: int, max_grade: int) -> Thresholds | None:
    """Return the thresholds of a measure by formula; None when there is no formula for it.

    Args:
      measure: The measure as `measure_for` returns it.
      n_items: The number of items.
      max_grade: Grades are 0, 1, … up to this.
    """
    kind, size = entry_of(measure).kind, GameSize(n_items, max_grade)
    if kind not in _RULES | _BINARY_RULES or n_items > MAX_ITEMS:
        return None
    if n_items == 1:
        return _trivial()
    if kind in _RULES:
        return _RULES[kind](measure, size)
    least = measure.relevant_from  # type: ignore[attr-defined]
    grade = next((grade for grade in range(1, max_grade + 1) if grade >= least), None)
    return _trivial() if grade is None else _BINARY_RULES[kind](measure, size, grade)


def _sum_loss(measure: Any, size: GameSize) -> Thresholds | None:
    return _position_thresholds(Weighted(_runs(size.n_items, None), (0,)))


def _pairwise_loss(measure: Any, size: GameSize) -> Thresholds | None:
    """Binary grades give SumLoss up to a constant. With more grades, [r_i < r_j] is a term of two items."""
    if size.max_grade == 1:
        return _sum_loss(measure, size)
    m = size.n_items
    last = BorderPair(m - 2, m - 1, m - 2)
    border = Border(
        first=tuple(range(m)),
        second=swapped(m, last.item, last.other),
        witness=_one_hot_border((1,) * m, last, 1),
        items=(last.item, last.other),
        grades=(1, 2),
    )
    return _proved_thresholds(
        2, m, Unseen(first=tuple(range(m)), second=swapped(m, 0, 1), items=(0, 1), grades=(1, 2)), border
    )


def _plain_sum(measure: Any, size: GameSize) -> Thresholds | None:
    """DCG and ERU: Σ_p weight[p] · gain(grade at p), falling weights up to the cutoff."""
    gains = _gains_of(measure, size.max_grade)
    if not any(gains):
        return _trivial()
    return _position_thresholds(Weighted(_runs(size.n_items, measure.cutoff), (0,), _first_gain(gains)))


def _normalised_sum(measure: Any, size: GameSize) -> Thresholds | None:
    """Handle nDCG and NERU: with one gain the scale depends on how many items have it; with several, on all of them."""
    gains = _gains_of(measure, size.max_grade)
    if not any(gains):
        return _trivial()
    positions = min(size.n_items, measure.cutoff or size.n_items)
    if entry_of(measure).kind == "nDCG":
        discounts = log_discounts(positions)
    else:
        discounts = half_life_discounts(positions, measure.half_life)
    if len({gain for gain in gains if gain}) > 1:
        return _every_item_together(gains, discounts, size)
    gain = max(gains)
    sizes = _sizes_of_terms(size.n_items, lambda relevant: one_over_best([gain] * relevant, discounts))
    if sizes is None:
        return None
    return _position_thresholds(Weighted(_runs(size.n_items, measure.cutoff), sizes, _first_gain(gains)))


def _gains_of(measure: Any, max_grade: int) -> list[Fraction]:
    if entry_of(measure).kind in ("ERU", "NERU"):
        return [max(grade - Fraction(measure.neutral), Fraction(0)) for grade in range(max_grade + 1)]
    if measure.gain == "linear":
        return [Fraction(grade) for grade in range(max_grade + 1)]
    return [Fraction(2**grade - 1) for grade in range(max_grade + 1)]


def _first_gain(gains: Sequence[Fraction]) -> int:
    return next(grade for grade, gain in enumerate(gains) if gain)


def _sizes_of_terms(n_items: int, scale: Callable[[int], NamedNumber]) -> tuple[int, ...] | None:
    """Return the numbers of other items in the terms of scale(relevant items) · (r_a − r_b), for grades 0 and 1."""
    scales = [scale(relevant) for relevant in range(1, n_items)]
    is_present = [is_nonzero(difference_terms(scales[:count])) for count in range(1, n_items)]
    if None in is_present:
        return None
    return tuple(others for others, present in enumerate(is_present) if present)


def _every_item_together(gains: Sequence[Fraction], discounts: Sequence[Decimal], size: GameSize) -> Thresholds | None:
    """Return the thresholds for several gains under a common scale: a swap of the first two changes every term."""
    low, high = sorted({gain for gain in gains if gain})[:2]
    for other_gain in (low, high):
        values = [low, high] + [other_gain] * (size.n_items - 2)
        if is_nonzero(_term_of_all(values, discounts)):
            grades = tuple(gains.index(value) for value in values)
            order = tuple(range(size.n_items))
            unseen = Unseen(first=order, second=swapped(size.n_items, 0, 1), items=order, grades=grades)
            return _proved_thresholds(size.n_items, size.n_items, unseen)
    return None


def _term_of_all(values: Sequence[Fraction], discounts: Sequence[Decimal]) -> Terms:
    """Return the alternating sum of (gain of item 0 − gain of item 1) / best over all sets of items."""
    first, second, *others_gains = values
    terms: Terms = []
    for others, a, b in itertools.product(range(len(others_gains) + 1), (0, 1), (0, 1)):
        if a or b:
            sign = (-1) ** (len(values) - others - a - b)
            factor = sign * comb(len(others_gains), others) * (a * first - b * second)
            terms.append((factor, one_over_best([first] * a + [second] * b + others_gains[:others], discounts)))
    return terms


def _precision(measure: Any, size: GameSize, grade: int) -> Thresholds | None:
    return _position_thresholds(Weighted(_top_or_not(size.n_items, measure.cutoff), (0,), grade))


def _recall(measure: Any, size: GameSize, grade: int) -> Thresholds | None:
    """The t-th difference of 1/s at 1 is ± 1/(t + 1): terms of every size."""
    return _position_thresholds(
        Weighted(_top_or_not(size.n_items, measure.cutoff), tuple(range(size.n_items - 1)), grade)
    )


def _auc(measure: Any, size: GameSize, grade: int) -> Thresholds | None:
    """Pairs in the wrong order over the number of pairs, s·(m − s) with s relevant items."""
    sizes = _sizes_of_terms(size.n_items, lambda relevant: fraction(1, relevant * (size.n_items - relevant)))
    return None if sizes is None else _position_thresholds(Weighted(_runs(size.n_items, None), sizes, grade))


def _average_precision(measure: Any, size: GameSize, grade: int) -> Thresholds | None:
    """Swapping the first two positions changes it by (r_0 − r_1) / (2 · relevant items): terms of all items but one."""
    m, cutoff = size.n_items, measure.cutoff
    if cutoff == 1:
        return _recall(measure, size, grade)
    if m == 2:
        return _position_thresholds(Weighted((1, 1), (0,), grade))
    all_but_second = tuple(i for i in range(m) if i != 1)
    grades = (grade,) * (m - 1)
    order, other = tuple(range(m)), swapped(m, 0, 1)
    witness = _one_hot_border(_runs(m, cutoff), BorderPair(0, 1, 0), grade)
    border = Border(first=order, second=other, witness=witness, items=all_but_second, grades=grades)
    return _proved_thresholds(m - 1, m, Unseen(first=order, second=other, items=all_but_second, grades=grades), border)


def _expected_reciprocal_rank(measure: Any, size: GameSize) -> Thresholds | None:
    return None if measure.max_grade < size.max_grade else _first_satisfying(measure, size, 1)


def _first_satisfying(measure: Any, size: GameSize, grade: int) -> Thresholds | None:
    """RR and ERR: the term of a set of items is ± 1 / (position of its last item), 0 behind the cutoff."""
    m = size.n_items
    depth = min(measure.cutoff or m, m - 1)
    other = swapped(m, depth - 1, depth)
    unseen = Unseen(first=tuple(range(m)), second=other, items=tuple(range(depth)), grades=(grade,) * depth)
    return _proved_thresholds(depth, depth, unseen)


_RULES: dict[str, Callable[[Any, GameSize], Thresholds | None]] = {
    "SumLoss": _sum_loss,
    "PairwiseLoss": _pairwise_loss,
    "DCG": _plain_sum,
    "ERU": _plain_sum,
    "nDCG": _normalised_sum,
    "NERU": _normalised_sum,
    "ERR": _expected_reciprocal_rank,
}
_BINARY_RULES: dict[
    str, Callable[[Any, GameSize, int], Thresholds | None]
] = {  # with the lowest grade that is relevant
    "P": _precision,
    "Recall": _recall,
    "AUC": _auc,
    "AUCLoss": _auc,
    "AP": _average_precision,
    "RR": _first_satisfying,
}

"""Measures that weigh positions: (something without the ranking) + scale(relevance) · Σ_p weight[p] · gain(grade at p).

With x = E[scale · gain] per item, a ranking is best when it sorts x: the borders are those where two items of groups of
positions with adjacent weights have equal x, and nothing else (the renamings of any x ≠ constant average to a constant,
so that every direction of x occurs). Across such a border the difference of losses is, up to a factor, scale · (gain of
one − gain of the other). Its terms depend only on how many other items they hold: `sizes` lists these numbers.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from rankloop.games.thresholds.base import Border, Order, Thresholds, Unseen


class Size(NamedTuple):
    """How large the game is."""

    n_items: int
    max_grade: int


class Weighted(NamedTuple):
    """What decides: lengths of the runs of positions with equal weight from the top, and the sizes of the terms."""

    groups: tuple[int, ...]
    sizes: tuple[int, ...]  # other items in a term, besides one of the two
    grade: int = 1  # a grade with a gain


class Pair(NamedTuple):
    """Two items of adjacent groups, the better placed one first, and how many groups stand before them."""

    item: int
    other: int
    group: int


def trivial() -> Thresholds:
    """The order does not matter."""
    return Thresholds(learnable=0, fast=0, unseen=None, border=None, refuted=(), source="closed form")


def proved(learnable: int, fast: int, unseen: Unseen, border: Border | None = None) -> Thresholds:
    """Thresholds with their proofs, by formula."""
    return Thresholds(learnable=learnable, fast=fast, unseen=unseen, border=border, refuted=(), source="closed form")


def runs(n_items: int, cutoff: int | None) -> tuple[int, ...]:
    """Positions with strictly falling weights, and those from the cutoff on, which weigh nothing, as one group."""
    positions = min(n_items, cutoff or n_items)
    return (1,) * positions + ((n_items - positions,) if positions < n_items else ())


def top_or_not(n_items: int, cutoff: int | None) -> tuple[int, ...]:
    """Two groups: before the cutoff and behind."""
    positions = min(n_items, cutoff or n_items)
    return (positions, n_items - positions) if positions < n_items else (n_items,)


def thresholds_of(form: Weighted) -> Thresholds:
    """Both thresholds of a measure that weighs positions."""
    n_items = sum(form.groups)
    if len(form.groups) == 1:
        return trivial()
    pair = next(_pairs(form.groups))
    others = [i for i in range(n_items) if i not in (pair.item, pair.other)]
    largest = tuple(sorted([pair.item, *others[: max(form.sizes)]]))
    unseen = Unseen(
        first=tuple(range(n_items)),
        second=swapped(n_items, pair.item, pair.other),
        items=largest,
        grades=(form.grade,) * len(largest),
    )
    fast = next(depth for depth in range(1, n_items + 1) if hidden_term(form, depth) is None)
    hidden = hidden_term(form, fast - 1) if fast > 1 else None
    return proved(len(largest), fast, unseen, None if hidden is None else _border(form, *hidden))


def hidden_term(form: Weighted, depth: int) -> tuple[Pair, tuple[int, ...]] | None:
    """Two neighbours and a term of their difference that none of their tops of this depth holds; None if there is none.

    Inside a group the order is free, so that the tops are: the whole groups that fit, and any `room` items of the
    group that is cut.
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
                return pair, tuple(sorted([pair.item, *worst]))
    return None


def one_hot_border(groups: tuple[int, ...], pair: Pair, grade: int) -> tuple[tuple[Order, float], ...]:
    """A distribution with one relevant item at a time, likelier in better groups, equally likely for the pair."""
    n_items, n_groups = sum(groups), len(groups)
    height = [float(n_groups - g) for g, length in enumerate(groups) for _ in range(length)]
    height[pair.item] = height[pair.other] = n_groups - pair.group - 0.5
    total = sum(height)
    return tuple((tuple(grade * (i == item) for i in range(n_items)), height[item] / total) for item in range(n_items))


def swapped(n_items: int, item: int, other: int) -> Order:
    """0, 1, 2, … with two items exchanged."""
    exchange = {item: other, other: item}
    return tuple(exchange.get(i, i) for i in range(n_items))


def _pairs(groups: tuple[int, ...]) -> Iterator[Pair]:
    """One pair per border between adjacent groups: all others are renamings of these."""
    for group, end in enumerate(itertools.accumulate(groups[:-1])):
        yield Pair(end - 1, end, group)


def _border(form: Weighted, pair: Pair, items: tuple[int, ...]) -> Border:
    n_items = sum(form.groups)
    return Border(
        first=tuple(range(n_items)),
        second=swapped(n_items, pair.item, pair.other),
        witness=one_hot_border(form.groups, pair, form.grade),
        items=items,
        grades=(form.grade,) * len(items),
    )

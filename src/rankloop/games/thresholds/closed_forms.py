"""Thresholds that are proved for every number of items; the proofs are in docs/theory/games.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rankloop.core.protocols import Measure
from rankloop.core.registry import entry_of
from rankloop.games.thresholds.base import Border, Thresholds, Unseen
from rankloop.games.thresholds.normalisation import first_gain, gains_of, normalised_sum, sizes_of_terms
from rankloop.games.thresholds.numbers import fraction
from rankloop.games.thresholds.position_weights import (
    Pair,
    Size,
    Weighted,
    one_hot_border,
    proved,
    runs,
    swapped,
    thresholds_of,
    top_or_not,
    trivial,
)

MAX_ITEMS = 200  # beyond, 200 digits no longer outweigh the binomial coefficients


def closed_form(measure: Measure, n_items: int, max_grade: int) -> Thresholds | None:
    """The thresholds of a measure, by formula; None when there is none for it."""
    rule = _RULES.get(entry_of(measure).kind)
    if rule is None or n_items > MAX_ITEMS:
        return None
    return trivial() if n_items == 1 else rule(measure, Size(n_items, max_grade))


def _sum_loss(measure: Any, size: Size) -> Thresholds | None:
    return thresholds_of(Weighted(runs(size.n_items, None), (0,)))


def _pairwise_loss(measure: Any, size: Size) -> Thresholds | None:
    """Binary grades: SumLoss up to a constant. With more grades, whether r_i < r_j is a term of two items."""
    if size.max_grade == 1:
        return _sum_loss(measure, size)
    m = size.n_items
    last = Pair(m - 2, m - 1, m - 2)
    border = Border(
        first=tuple(range(m)),
        second=swapped(m, last.item, last.other),
        witness=one_hot_border((1,) * m, last, 1),
        items=(last.item, last.other),
        grades=(1, 2),
    )
    return proved(2, m, Unseen(first=tuple(range(m)), second=swapped(m, 0, 1), items=(0, 1), grades=(1, 2)), border)


def _plain_sum(measure: Any, size: Size) -> Thresholds | None:
    """DCG and ERU: Σ_p weight[p] · gain(grade at p), falling weights up to the cutoff."""
    gains = gains_of(measure, size.max_grade)
    if not any(gains):
        return trivial()
    return thresholds_of(Weighted(runs(size.n_items, measure.cutoff), (0,), first_gain(gains)))


def _precision(measure: Any, size: Size) -> Thresholds | None:
    grade = _relevant_grade(measure, size)
    if grade is None:
        return trivial()
    return thresholds_of(Weighted(top_or_not(size.n_items, measure.cutoff), (0,), grade))


def _recall(measure: Any, size: Size) -> Thresholds | None:
    """The t-th difference of 1/s at 1 is ± 1/(t + 1): terms of every size."""
    grade = _relevant_grade(measure, size)
    if grade is None:
        return trivial()
    return thresholds_of(Weighted(top_or_not(size.n_items, measure.cutoff), tuple(range(size.n_items - 1)), grade))


def _auc(measure: Any, size: Size) -> Thresholds | None:
    """Pairs in the wrong order over the number of pairs, s·(m − s) with s relevant items."""
    grade = _relevant_grade(measure, size)
    if grade is None:
        return trivial()
    sizes = sizes_of_terms(size.n_items, lambda relevant: fraction(1, relevant * (size.n_items - relevant)))
    return None if sizes is None else thresholds_of(Weighted(runs(size.n_items, None), sizes, grade))


def _average_precision(measure: Any, size: Size) -> Thresholds | None:
    """Swapping the first two places changes it by (r_0 − r_1) / (2 · relevant items): terms of all items but one."""
    grade = _relevant_grade(measure, size)
    if grade is None:
        return trivial()
    m, cutoff = size.n_items, measure.cutoff
    if cutoff == 1:
        return _recall(measure, size)
    if m == 2:
        return thresholds_of(Weighted((1, 1), (0,), grade))
    all_but_second = tuple(i for i in range(m) if i != 1)
    grades = (grade,) * (m - 1)
    order, other = tuple(range(m)), swapped(m, 0, 1)
    witness = one_hot_border(runs(m, cutoff), Pair(0, 1, 0), grade)
    border = Border(first=order, second=other, witness=witness, items=all_but_second, grades=grades)
    return proved(m - 1, m, Unseen(first=order, second=other, items=all_but_second, grades=grades), border)


def _first_satisfying(measure: Any, size: Size) -> Thresholds | None:
    """RR and ERR: the term of a set of items is ± 1 / (place of its last item), 0 behind the cutoff."""
    if entry_of(measure).kind == "ERR":
        if measure.max_grade < size.max_grade:
            return None
        grade: int | None = 1
    else:
        grade = _relevant_grade(measure, size)
    if grade is None:
        return trivial()
    m = size.n_items
    depth = min(measure.cutoff or m, m - 1)
    other = swapped(m, depth - 1, depth)
    unseen = Unseen(first=tuple(range(m)), second=other, items=tuple(range(depth)), grades=(grade,) * depth)
    return proved(depth, depth, unseen)


_RULES: dict[str, Callable[[Any, Size], Thresholds | None]] = {
    "SumLoss": _sum_loss,
    "PairwiseLoss": _pairwise_loss,
    "DCG": _plain_sum,
    "ERU": _plain_sum,
    "nDCG": normalised_sum,
    "NERU": normalised_sum,
    "P": _precision,
    "Recall": _recall,
    "AUC": _auc,
    "AUCLoss": _auc,
    "AP": _average_precision,
    "RR": _first_satisfying,
    "ERR": _first_satisfying,
}


def _relevant_grade(measure: Any, size: Size) -> int | None:
    """The lowest grade that counts as relevant; None when none does."""
    return next((grade for grade in range(1, size.max_grade + 1) if grade >= measure.relevant_from), None)

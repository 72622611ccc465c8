"""Pairs of items of different grade, all of them, without looking at pairs."""

from typing import ClassVar, Literal

import numpy as np

import rankloop.training.risks.base  # noqa: F401  (declares the category)
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.registry import Spec, register
from rankloop.core.types import Floats, Ints
from rankloop.surrogates.base import levels_of

Costs = tuple[tuple[float, ...], ...]


@kernel
def _ordinal(scores: Floats, levels: Ints, costs: Floats, grad: Floats) -> float:
    """One list. A sweep over scores − ½ and scores + ½ in ascending order, which are two sorted halves to merge."""
    n_items, n_levels = len(scores), len(costs)
    behind = np.zeros(n_levels)  # h: items of a level whose scores − ½ was passed
    ahead = np.zeros(n_levels)  # u: items of a level whose scores + ½ is still to come
    for level in levels:
        ahead[level] += 1.0
    n_pairs = 0.5 * (n_items * n_items - np.sum(ahead * ahead))
    grad[:] = 0.0
    if n_pairs == 0.0:
        return 0.0
    order = np.argsort(scores, kind="mergesort")
    value, low, high = 0.0, 0, 0
    while high < n_items:
        item = order[min(low, n_items - 1)]
        if low < n_items and scores[item] - 0.5 <= scores[order[high]] + 0.5:
            level, weight = levels[item], 0.0
            for k in range(level):
                weight += costs[k, level] * ahead[k]
            value -= weight * (scores[item] - 0.5)
            grad[item] -= weight
            behind[level] += 1.0
            low += 1
        else:
            item = order[high]
            level, weight = levels[item], 0.0
            for k in range(level + 1, n_levels):
                weight += costs[level, k] * behind[k]
            value += weight * (scores[item] + 0.5)
            grad[item] += weight
            ahead[level] -= 1.0
            high += 1
    grad /= n_pairs
    return value / n_pairs


@kernel
def _of_lists(scores: Floats, levels: Ints, offsets: Ints, costs: Floats) -> tuple[float, Floats]:
    value, grad = 0.0, np.empty(len(scores))
    for q in range(len(offsets) - 1):
        own = slice(offsets[q], offsets[q + 1])
        value += _ordinal(scores[own], levels[own], costs, grad[own])
    return value, grad


@register("ordinal", category="risk")
class Ordinal:
    """Ordinal regression: a hinge for every pair of items of different grade, in O(m log m).

    (1/M) Σ over pairs with relevance[i] < relevance[j] of C(i, j) · max(0, 1 + scores[i] − scores[j]), M their number.
    The cost C is 1 (`costs` = "equal"), the difference of the grades ("difference") or of their gains 2^grade − 1
    ("gain"), or a matrix: `costs[a][b]` for putting an item of grade a above one of grade b > a.

    The loss to begin with: it learns where the direct bounds on a measure give up.
    References: Herbrich, Graepel and Obermayer (2000), Large Margin Rank Boundaries for Ordinal Regression; Joachims
    (2006), Training Linear SVMs in Linear Time.
    """

    costs: Literal["equal", "difference", "gain"] | Costs = "equal"

    examples: ClassVar[tuple[Spec, ...]] = (
        {},
        {"costs": "gain"},
        {"costs": "difference"},
        {"costs": ((0.0, 1.0, 3.0, 4.0, 5.0), *((0.0, 0.0, 0.5, 1.0, 2.0),) * 4)},
    )

    def __post_init__(self) -> None:
        if not isinstance(self.costs, str):
            square = all(len(row) == len(self.costs) for row in self.costs)
            if not square or not np.all(np.isfinite(self.costs)) or np.any(np.array(self.costs) < 0.0):
                raise InvalidInput(f"costs must be a square of finite numbers from 0, got {self.costs}")

    def of_lists(self, scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
        levels, n_levels = levels_of(relevance)
        return _of_lists(scores, levels, offsets, self._matrix(relevance, levels, n_levels))

    def _matrix(self, relevance: Floats, levels: Ints, n_levels: int) -> Floats:
        """costs[a, b] for the levels a < b that occur."""
        if self.costs == "equal":
            return np.ones((n_levels, n_levels))
        if not isinstance(self.costs, str):
            return self._given(relevance, n_levels)
        worth = np.zeros(n_levels)
        worth[levels] = relevance if self.costs == "difference" else 2.0**relevance - 1.0
        return np.abs(worth[None, :] - worth[:, None])

    def _given(self, relevance: Floats, n_levels: int) -> Floats:
        costs = np.array(self.costs)
        whole = np.all((relevance == np.floor(relevance)) & (relevance >= 0.0) & (relevance < len(costs)))
        if not whole:
            raise InvalidInput(f"costs is for the grades 0 to {len(costs) - 1}; other grades occur")
        return costs[:n_levels, :n_levels].copy()

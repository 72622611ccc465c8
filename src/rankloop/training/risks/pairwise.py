"""Losses over pairs of items: one should stand above the other by a margin."""

from typing import ClassVar, Literal

import numpy as np

import rankloop.training.risks.base  # noqa: F401  (declares the category)
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel, ranking_of
from rankloop.core.registry import Spec, register
from rankloop.core.types import Floats, Ints
from rankloop.surrogates.base import levels_of

Costs = tuple[tuple[float, ...], ...]


@kernel
def _ordinal(scores: Floats, levels: Ints, costs: Floats, grad: Floats) -> float:
    """Return the loss of one list by a sweep over scores − ½ and scores + ½ in ascending order (Algorithm 1)."""
    # `costs[a, b]` is 0 unless a < b.
    n_items, n_levels = len(scores), len(costs)
    behind = np.zeros(n_levels)  # h of Algorithm 1: items of a level whose scores − ½ was passed
    ahead = np.zeros(n_levels)  # u of Algorithm 1: items of a level whose scores + ½ was not passed
    for level in levels:
        ahead[level] += 1.0
    n_pairs = 0.5 * (n_items * n_items - np.sum(ahead * ahead))
    grad[:] = 0.0
    if n_pairs == 0.0:
        return 0.0
    # Both halves have the order of the scores, so that sorting once and merging is enough.
    order, value, low = ranking_of(-scores), 0.0, 0
    for last in order:
        high = scores[last] + 0.5
        while low < n_items and scores[order[low]] - 0.5 <= high:
            item, weight = order[low], 0.0
            for level in range(n_levels):  # over all levels: a loop of one length is predicted
                weight += costs[level, levels[item]] * ahead[level]
            value -= weight * (scores[item] - 0.5)
            grad[item] -= weight
            behind[levels[item]] += 1.0
            low += 1
        weight = 0.0
        for level in range(n_levels):
            weight += costs[levels[last], level] * behind[level]
        value += weight * high
        grad[last] += weight
        ahead[levels[last]] -= 1.0
    grad /= n_pairs
    return value / n_pairs


@kernel
def _ordinal_of_lists(scores: Floats, levels: Ints, offsets: Ints, costs: Floats) -> tuple[float, Floats]:
    """Return Σ over queries of the ordinal loss, equation (4) of the supplement, and its gradient."""
    value, grad = 0.0, np.empty(len(scores))
    for q in range(len(offsets) - 1):
        items = slice(offsets[q], offsets[q + 1])
        value += _ordinal(scores[items], levels[items], costs, grad[items])
    return value, grad


@register("ordinal", category="risk")
class Ordinal:
    """Ordinal regression: a hinge for every pair of items of different grade, in O(m log m).

    (1/M) Σ over pairs with relevance[i] < relevance[j] of C(i, j) · max(0, 1 + scores[i] − scores[j]), M their number:
    equations (3) and (4) and Algorithm 1 of the supplement of Le and Smola, Direct Optimization of Ranking Measures.
    The cost C is 1 (`costs` = "equal"), the difference of the grades ("difference") or of their gains 2^grade − 1
    ("gain"), or a matrix: `costs[a][b]` for putting an item of grade a above one of grade b > a.

    The default: it learns on data where the direct bounds on a measure have their minimum at w = 0.
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
        costs = (
            1.0 - np.tri(n_levels) if self.costs == "equal" else np.triu(self._matrix(relevance, levels, n_levels), 1)
        )
        return _ordinal_of_lists(scores, levels, offsets, costs)

    def _matrix(self, relevance: Floats, levels: Ints, n_levels: int) -> Floats:
        """Return costs[a, b] for the levels a < b that occur."""
        if isinstance(self.costs, str):
            worth = np.zeros(n_levels)
            worth[levels] = relevance if self.costs == "difference" else 2.0**relevance - 1.0
            return np.abs(worth[None, :] - worth[:, None])
        costs = np.array(self.costs)
        if not np.all((relevance == np.floor(relevance)) & (relevance >= 0.0) & (relevance < len(costs))):
            raise InvalidInput(f"costs is for the grades 0 to {len(costs) - 1}; other grades occur")
        return costs[:n_levels, :n_levels].copy()


def hinge_of_pairs(scores: Floats, pairs: Ints, costs: Floats) -> tuple[float, Floats]:
    """Return (1/|P|) Σ over pairs (i, j) of cost · max(0, 1 + scores[i] − scores[j]) (equation 6, Algorithm 2).

    Args:
      scores: Of all items.
      pairs: (n_pairs, 2); the second item of a pair should stand above the first.
      costs: (n_pairs,).
    """
    worse, better = pairs.T
    gaps, n_items, n_pairs = 1.0 + scores[worse] - scores[better], len(scores), max(len(pairs), 1)
    prices = np.where(gaps > 0.0, costs, 0.0)
    grad = np.bincount(worse, prices, n_items) - np.bincount(better, prices, n_items)
    return float((prices * gaps).sum()) / n_pairs, grad / n_pairs


@register("preferences", category="risk")
class Preferences:
    """Preferences: a hinge for every listed pair of items, which need not agree with any grades.

    (1/|P|) Σ over pairs (i, j) of cost · max(0, 1 + scores[i] − scores[j]): j should stand above i (equations 5 to 7 of
    the supplement of Le and Smola; value and gradient are both divided by |P|). Pairs come from
    `RankBundle.fit_pairs`, with their costs, and may contradict each other; where there are grades, all pairs of
    different grade are taken, as by `ordinal`.
    Reference: Joachims (2002), Optimizing Search Engines Using Clickthrough Data.
    """

    def of_lists(self, scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
        return Ordinal().of_lists(scores, relevance, offsets)


@kernel
def _clicked_pairs(scores: Floats, weights: Floats, offsets: Ints) -> tuple[float, Floats]:
    """Return Σ weight · max(0, 1 + other − clicked) over clicked and other items of a query, and its gradient."""
    value, grad = 0.0, np.zeros(len(scores))
    for q in range(len(offsets) - 1):
        for clicked in range(offsets[q], offsets[q + 1]):
            if weights[clicked] <= 0.0:
                continue
            for other in range(offsets[q], offsets[q + 1]):
                gap = 1.0 + scores[other] - scores[clicked]
                if other != clicked and gap > 0.0:
                    value += weights[clicked] * gap
                    grad[other] += weights[clicked]
                    grad[clicked] -= weights[clicked]
    return value, grad


@register("clicked_pairs", category="risk")
class ClickedPairs:
    """Clicked pairs: every clicked item should stand above every other of its list, by a margin.

    Σ over clicked items i of weight_i · Σ over the others j of max(0, 1 + scores[j] − scores[i]), which bounds the
    weighted ranks of what was clicked from above. With weights 1 / P(position examined) it is unbiased.
    Reference: Joachims, Swaminathan and Schnabel (2017), Unbiased Learning-to-Rank with Biased Feedback.
    """

    def of_lists(self, scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
        return _clicked_pairs(scores, relevance, offsets)

    @staticmethod
    def n_pairs(relevance: Floats, offsets: Ints) -> int:
        """Return the number of pairs of a clicked item and another of its list."""
        n_clicks = np.concatenate([[0], np.cumsum(relevance > 0.0)])
        return int(((n_clicks[offsets[1:]] - n_clicks[offsets[:-1]]) * (np.diff(offsets) - 1)).sum())

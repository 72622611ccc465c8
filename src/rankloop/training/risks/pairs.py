"""Preferences: any list of pairs, from grades or from elsewhere."""

import numpy as np

import rankloop.training.risks.base  # noqa: F401  (declares the category)
from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints


@kernel
def hinge_of_pairs(scores: Floats, pairs: Ints, costs: Floats) -> tuple[float, Floats]:
    """(1/|P|) Σ over rows (i, j) of `pairs` of costs · max(0, 1 + scores[i] − scores[j]): j should stand above i."""
    value, grad = 0.0, np.zeros(len(scores))
    for p in range(len(pairs)):
        worse, better = pairs[p, 0], pairs[p, 1]
        gap = 1.0 + scores[worse] - scores[better]
        if gap > 0.0:
            value += costs[p] * gap
            grad[worse] += costs[p]
            grad[better] -= costs[p]
    n_pairs = max(len(pairs), 1)
    return value / n_pairs, grad / n_pairs


@kernel
def pairs_of(relevance: Floats) -> Ints:
    """Every (worse, better) of different grade in one list."""
    n_items, n_pairs = len(relevance), 0
    for i in range(n_items):
        for j in range(n_items):
            n_pairs += relevance[i] < relevance[j]
    pairs, position = np.empty((n_pairs, 2), np.int64), 0
    for i in range(n_items):
        for j in range(n_items):
            if relevance[i] < relevance[j]:
                pairs[position, 0], pairs[position, 1] = i, j
                position += 1
    return pairs


@kernel
def _of_lists(scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
    value, grad = 0.0, np.empty(len(scores))
    for q in range(len(offsets) - 1):
        own = slice(offsets[q], offsets[q + 1])
        pairs = pairs_of(relevance[own])
        part, grad[own] = hinge_of_pairs(scores[own], pairs, np.ones(len(pairs)))
        value += part
    return value, grad


@register("preferences", category="risk")
class Preferences:
    """Preferences: a hinge for every listed pair of items, which need not agree with any grades.

    (1/|P|) Σ over pairs (i, j) of cost · max(0, 1 + scores[i] − scores[j]): j should stand above i. Pairs come from
    `RankBundle.fit_pairs`, with their costs, and may contradict each other; where there are grades, all pairs of
    different grade are taken, which `ordinal` does faster.
    Reference: Joachims (2002), Optimizing Search Engines Using Clickthrough Data.
    """

    def of_lists(self, scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
        return _of_lists(scores, relevance, offsets)

"""Regret against the best fixed ranking of the rounds so far, exactly."""

from __future__ import annotations

from itertools import permutations
from typing import Protocol

import numpy as np

from rankloop.core.protocols import Measure
from rankloop.core.types import Floats, Ints, Problem
from rankloop.experiments.additive import shares
from rankloop.measures.pairwise_loss import PairwiseLoss

BRUTE_FORCE_UP_TO = 5  # items: 120 rankings


class BestFixed(Protocol):
    """Knows after any number of rounds how the best fixed ranking would have done in them."""

    def add(self, rankings: Ints, relevance: Floats) -> None:
        """Rounds that were played, both (n_rounds, n_items)."""

    def lead(self) -> float:
        """By how much, summed over the rounds, the best fixed ranking is better than what was shown; ≥ 0 for gains
        and losses alike unless what was shown changed with the rounds."""


class BySorting:
    """For additive measures: the best ranking is in the order of the summed gains."""

    def __init__(self, measure: Measure, n_items: int) -> None:
        self.measure = measure
        self.weights = np.zeros(n_items)
        self.summed = np.zeros(n_items)
        self.earned = 0.0

    def add(self, rankings: Ints, relevance: Floats) -> None:
        found = shares(self.measure, relevance)
        if found is None:
            raise TypeError(f"{self.measure} is not additive")
        self.weights = found.weights
        self.summed += found.gains.sum(axis=0)
        self.earned += float((np.take_along_axis(found.gains, rankings, axis=1) * found.weights).sum())

    def lead(self) -> float:
        best = float((self.weights * -np.sort(-self.summed)).sum())
        return best - self.earned if self.measure.higher_is_better else self.earned - best


class ByTrying:
    """For any measure of a handful of items: every ranking is tried on every relevance that occurs."""

    def __init__(self, measure: Measure, n_items: int) -> None:
        self.measure = measure
        rankings = np.array(list(permutations(range(n_items))))
        self.number = {tuple(ranking): number for number, ranking in enumerate(rankings.tolist())}
        self.scores = -np.argsort(rankings, axis=1).astype(np.float64)
        self.known: dict[bytes, Floats] = {}
        self.totals = np.zeros(len(rankings))
        self.earned = 0.0

    def add(self, rankings: Ints, relevance: Floats) -> None:
        for ranking, grades in zip(rankings.tolist(), relevance):
            values = self._values(grades)
            self.totals += values
            self.earned += float(values[self.number[tuple(ranking)]])

    def lead(self) -> float:
        if self.measure.higher_is_better:
            return float(self.totals.max()) - self.earned
        return self.earned - float(self.totals.min())

    def _values(self, grades: Floats) -> Floats:
        key = grades.tobytes()
        if key not in self.known:
            n_rankings, n_items = self.scores.shape
            offsets = np.arange(0, self.scores.size + 1, n_items)
            values = self.measure.of_scores(self.scores.ravel(), np.tile(grades, n_rankings), offsets)
            self.known[key] = np.nan_to_num(values)  # a skipped round favours no ranking
        return self.known[key]


def best_fixed(measure: Measure, problem: Problem) -> BestFixed | None:
    """Who keeps account of the best fixed ranking; None where it is out of reach (too many items, or no fixed set)."""
    if problem.n_items is None:
        return None
    graded_pairs = isinstance(measure, PairwiseLoss) and problem.max_grade > 1
    if not graded_pairs and shares(measure, np.zeros((1, problem.n_items))) is not None:
        return BySorting(measure, problem.n_items)
    return ByTrying(measure, problem.n_items) if problem.n_items <= BRUTE_FORCE_UP_TO else None

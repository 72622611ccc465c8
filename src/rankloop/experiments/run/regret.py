"""The best fixed ranking of the rounds that were played, against which regret is measured.

Most measures are additive: c(relevance) + Σ_p weights[p] · gains[item at p]. Summed over rounds they are again of this
form, and by the rearrangement inequality the best ranking stands in the order of the summed gains. For other measures
all rankings of a few items are tried.
"""

from functools import singledispatch
from itertools import permutations
from typing import NamedTuple, Protocol

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import discounts
from rankloop.core.protocols import Measure
from rankloop.core.types import Floats, Ints, Problem
from rankloop.measures.dcg import DCG, ERU, NDCG, NERU
from rankloop.measures.precision import Precision, Recall
from rankloop.measures.whole_order import AUC, AUCLoss, PairwiseLoss, SumLoss

BRUTE_FORCE_UP_TO = 5  # items: 120 rankings


class BestFixed(Protocol):
    """Knows after any number of rounds how the best fixed ranking would have done in them."""

    def add(self, rankings: Ints, relevance: Floats) -> None:
        """Rounds that were played, both (n_rounds, n_items)."""

    def lead(self) -> float:
        """By how much, summed over the rounds, the best fixed ranking is better than what was shown; ≥ 0 for gains
        and losses alike unless what was shown changed with the rounds."""


def best_fixed(measure: Measure, problem: Problem) -> BestFixed | None:
    """Who keeps account of the best fixed ranking; None where it is out of reach (too many items, or no fixed set)."""
    if problem.n_items is None:
        return None
    graded_pairs = isinstance(measure, PairwiseLoss) and problem.max_grade > 1
    if not graded_pairs and shares(measure, np.zeros((1, problem.n_items))) is not None:
        return BySorting(measure, problem.n_items)
    return ByTrying(measure, problem.n_items) if problem.n_items <= BRUTE_FORCE_UP_TO else None


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


class Shares(NamedTuple):
    """What a position is worth, (n_items,), and what each item is worth in each round, (n_rounds, n_items)."""

    weights: Floats
    gains: Floats


@singledispatch
def shares(measure: Measure, relevance: Floats) -> Shares | None:
    """The two factors of an additive measure for rounds with these grades, (n_rounds, n_items); None for all others."""
    return None


@shares.register(DCG)
@shares.register(NDCG)
def _(measure: DCG | NDCG, relevance: Floats) -> Shares:
    weights = discounts(relevance.shape[1], measure.cutoff)
    gains = np.maximum(relevance, 0.0)
    if measure.gain == "exponential":
        gains = 2.0**gains - 1.0
    return Shares(weights, _of_the_best(gains, weights) if isinstance(measure, NDCG) else gains)


@shares.register(ERU)
@shares.register(NERU)
def _(measure: ERU | NERU, relevance: Floats) -> Shares:
    positions = np.arange(relevance.shape[1])
    weights = _until(measure.cutoff, 2.0 ** (-positions / (measure.half_life - 1.0)))
    gains = np.maximum(np.maximum(relevance, 0.0) - measure.neutral, 0.0)
    return Shares(weights, _of_the_best(gains, weights) if isinstance(measure, NERU) else gains)


@shares.register
def _(measure: SumLoss, relevance: Floats) -> Shares:
    return Shares(np.arange(1.0, relevance.shape[1] + 1.0), np.maximum(relevance, 0.0))


@shares.register
def _(measure: PairwiseLoss, relevance: Floats) -> Shares:
    """Only with two grades: then an item of the higher grade counts the others above it, its position up to c."""
    grades = np.maximum(relevance, 0.0)
    low, high = grades.min(axis=1, keepdims=True), grades.max(axis=1, keepdims=True)
    if np.any((grades != low) & (grades != high)):
        raise InvalidInput("the best fixed ranking for PairwiseLoss is known only where each round has two grades")
    return Shares(np.arange(float(relevance.shape[1])), (grades > low).astype(np.float64))


@shares.register
def _(measure: Precision, relevance: Floats) -> Shares:
    n_items = relevance.shape[1]
    return Shares(
        _until(measure.cutoff, np.full(n_items, 1.0 / (measure.cutoff or n_items))), _relevant(measure, relevance)
    )


@shares.register
def _(measure: Recall, relevance: Floats) -> Shares:
    relevant = _relevant(measure, relevance)
    return Shares(_until(measure.cutoff, np.ones(relevance.shape[1])), _over(relevant, relevant.sum(axis=1)))


@shares.register(AUC)
@shares.register(AUCLoss)
def _(measure: AUC | AUCLoss, relevance: Floats) -> Shares:
    relevant = _relevant(measure, relevance)
    n_items, n_relevant = relevance.shape[1], relevant.sum(axis=1)
    positions = np.arange(float(n_items))
    weights = -positions if measure.higher_is_better else positions
    return Shares(weights, _over(relevant, n_relevant * (n_items - n_relevant)))


def _relevant(measure: Precision | Recall | AUC | AUCLoss, relevance: Floats) -> Floats:
    return (relevance >= measure.relevant_from).astype(np.float64)


def _until(cutoff: int | None, weights: Floats) -> Floats:
    if cutoff is not None:
        weights[cutoff:] = 0.0
    return weights


def _of_the_best(gains: Floats, weights: Floats) -> Floats:
    return _over(gains, (-np.sort(-gains, axis=1) * weights).sum(axis=1))


def _over(gains: Floats, totals: Floats) -> Floats:
    """Each round's gains divided by its total; a round with total 0 favours no ranking."""
    return np.divide(gains, totals[:, None], out=np.zeros_like(gains), where=totals[:, None] > 0.0)

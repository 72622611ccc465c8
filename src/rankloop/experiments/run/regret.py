"""The best fixed ranking of the rounds that were played, against which regret is measured.

Most measures are additive: c(relevance) + Σ_p weights[p] · gains[item at p]. Summed over rounds they are again of this
form, and by the rearrangement inequality the best ranking stands in the order of the summed gains. For other measures
all rankings of a few items are tried.
"""

from itertools import permutations

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import discounts
from rankloop.core.protocols import Measure
from rankloop.core.types import Floats, Ints, Problem
from rankloop.measures.kinds import AUC, DCG, ERU, NDCG, NERU, AUCLoss, PairwiseLoss, Precision, Recall, SumLoss

BRUTE_FORCE_UP_TO = 5  # items: 120 rankings


def best_fixed(measure: Measure, problem: Problem) -> "BySorting | ByTrying | None":
    """Return an object that follows the best fixed ranking; None if there are too many items or no fixed set.

    Args:
      measure: The measure.
      problem: The problem of the stream.
    """
    if problem.n_items is None:
        return None
    graded_pairs = isinstance(measure, PairwiseLoss) and problem.max_grade > 1
    if not graded_pairs and _shares(measure, np.zeros((1, problem.n_items))) is not None:
        return BySorting(measure, problem.n_items)
    return ByTrying(measure, problem.n_items) if problem.n_items <= BRUTE_FORCE_UP_TO else None


class BySorting:
    """Best fixed ranking of an additive measure: the order of the summed gains."""

    def __init__(self, measure: Measure, n_items: int) -> None:
        self.measure = measure
        self.weights, self.summed = np.zeros(n_items), np.zeros(n_items)
        self.earned = 0.0

    def add(self, rankings: Ints, relevance: Floats) -> None:
        """Add rounds that were played, one row of items and grades each."""
        factors = _shares(self.measure, relevance)
        if factors is None:
            raise TypeError(f"{self.measure} is no sum over items, so its best fixed ranking is unknown")
        self.weights, gains = factors
        self.summed += gains.sum(axis=0)
        self.earned += float((np.take_along_axis(gains, rankings, axis=1) * self.weights).sum())

    def lead(self) -> float:
        """Return the sum over rounds by which the best fixed ranking is better than the shown rankings."""
        best = float((self.weights * -np.sort(-self.summed)).sum())
        return best - self.earned if self.measure.higher_is_better else self.earned - best


class ByTrying:
    """Best fixed ranking of any measure of a few items: all rankings are evaluated on every relevance that occurs."""

    def __init__(self, measure: Measure, n_items: int) -> None:
        self.measure = measure
        rankings = np.array(list(permutations(range(n_items))))
        self.number = {tuple(ranking): number for number, ranking in enumerate(rankings.tolist())}
        self.scores = -np.argsort(rankings, axis=1).astype(np.float64)
        self.values_by_grades: dict[bytes, Floats] = {}
        self.totals, self.earned = np.zeros(len(rankings)), 0.0

    def add(self, rankings: Ints, relevance: Floats) -> None:
        """Add rounds that were played, one row of items and grades each."""
        n_rankings, n_items = self.scores.shape
        offsets = np.arange(0, self.scores.size + 1, n_items)
        for ranking, grades in zip(rankings.tolist(), relevance):
            key = grades.tobytes()
            if key not in self.values_by_grades:
                values = self.measure.of_scores(self.scores.ravel(), np.tile(grades, n_rankings), offsets)
                self.values_by_grades[key] = np.nan_to_num(values)  # a skipped round favours no ranking
            self.totals += self.values_by_grades[key]
            self.earned += float(self.values_by_grades[key][self.number[tuple(ranking)]])

    def lead(self) -> float:
        """Return the sum over rounds by which the best fixed ranking is better than the shown rankings."""
        if self.measure.higher_is_better:
            return float(self.totals.max()) - self.earned
        return self.earned - float(self.totals.min())


def _shares(measure: Measure, relevance: Floats) -> tuple[Floats, Floats] | None:
    """Return the factors of an additive measure: weights of positions, and gains of the items in each round."""
    n_items, grades = relevance.shape[1], np.maximum(relevance, 0.0)
    positions, cutoff = np.arange(float(n_items)), getattr(measure, "cutoff", None) or n_items
    counted = (positions < cutoff).astype(np.float64)
    relevant = (relevance >= getattr(measure, "relevant_from", 0.0)).astype(np.float64)
    match measure:
        case DCG() | NDCG():
            weights = discounts(n_items, measure.cutoff)
            gains = 2.0**grades - 1.0 if measure.gain == "exponential" else grades
        case ERU() | NERU():
            weights = counted * 2.0 ** (-positions / (measure.half_life - 1.0))
            gains = np.maximum(grades - measure.neutral, 0.0)
        case SumLoss():
            weights, gains = positions + 1.0, grades
        case PairwiseLoss():  # with two grades, an item of the higher one counts the others above it
            low, high = grades.min(axis=1, keepdims=True), grades.max(axis=1, keepdims=True)
            if np.any((grades != low) & (grades != high)):
                raise InvalidInput("the best fixed ranking for PairwiseLoss is known only if each round has two grades")
            weights, gains = positions, (grades > low).astype(np.float64)
        case Precision():
            weights, gains = counted / cutoff, relevant
        case Recall():
            weights, gains = counted, _over(relevant, relevant.sum(axis=1))
        case AUC() | AUCLoss():
            weights, n_relevant = -positions if measure.higher_is_better else positions, relevant.sum(axis=1)
            gains = _over(relevant, n_relevant * (n_items - n_relevant))
        case _:
            return None
    if isinstance(measure, NDCG | NERU):  # by those of the best ranking
        gains = _over(gains, (-np.sort(-gains, axis=1) * weights).sum(axis=1))
    return weights, gains


def _over(gains: Floats, totals: Floats) -> Floats:
    """Divide each round's gains by its total; a round with total 0 favours no ranking."""
    return np.divide(gains, totals[:, None], out=np.zeros(gains.shape), where=totals[:, None] > 0.0)

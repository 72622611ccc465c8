"""How much a perceptron can lose at most, and what no deterministic learner can avoid.

`norm` is ‖w‖ of the comparator w, `radius` the largest length of a feature vector (R_X), and `comparator_loss` the
summed surrogate of w over the rounds with a mistake. On data that a unit vector ranks with a margin γ, take
norm = 1 / γ and comparator_loss = 0: the corollaries 2, 7 and 11.
Reference: Chaudhuri and Tewari (2015), Perceptron-like Algorithms for Online Learning to Rank.
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of
from rankloop.core.types import Floats
from rankloop.data.dataset import Dataset
from rankloop.learners.ranking_perceptron import cutoff_and_kind
from rankloop.measures.base import parse_measure
from rankloop.surrogates.base import levels_of
from rankloop.surrogates.pairwise import ndcg_weights


class SlamWeights(NamedTuple):
    """Weights v of a list as the bounds need them: number of positive ones, their ratio, the smallest."""

    positive: int
    ratio: float  # v_max of the papers: the largest by the smallest positive weight
    smallest: float


def slam_weights(relevance: Floats, measure: str = "nDCG") -> SlamWeights:
    """The weights of one query under nDCG, nDCG@k or AP, equal grades sharing theirs."""
    cutoff, binary = cutoff_and_kind(parse_measure(measure))
    if binary:
        relevant = int((relevance >= 1.0).sum())
        return SlamWeights(relevant, 1.0, 1.0 / relevant if relevant else math.inf)
    weights = ndcg_weights(relevance, *levels_of(relevance), cutoff, True)
    positive = weights[weights > 0.0]
    if not len(positive):
        return SlamWeights(0, 1.0, math.inf)
    return SlamWeights(len(positive), float(positive.max() / positive.min()), float(positive.min()))


def margin_of(dataset: Dataset, weights: Floats) -> float:
    """The γ of equation 2.21: the least w·(better − worse) over pairs of different grade; negative when w misranks."""
    scores = scores_of(dataset.features, weights)
    return min(_margin(scores[a:b], dataset.relevance[a:b]) for a, b in pairwise(dataset.offsets))


def _margin(scores: Floats, relevance: Floats) -> float:
    cuts = np.unique(relevance)[1:]
    gaps = [float(scores[relevance >= grade].min() - scores[relevance < grade].max()) for grade in cuts]
    return min(gaps, default=math.inf)


def perceptron_mistakes(norm: float, radius: float, comparator_loss: float = 0.0) -> float:
    """Theorem 1: the mistakes of `perceptron`, at most L + R·‖w‖·√L + R²·‖w‖²; L the hinge losses of the comparator."""
    return _self_bounded(norm, radius**2, comparator_loss)


def ranking_perceptron_loss(
    norm: float, radius: float, weights: SlamWeights, comparator_loss: float = 0.0, tight: bool = True
) -> float:
    """Theorems 6 and 8: the summed 1 − measure of `ranking_perceptron` with the best learning rate.

    L + ‖w‖·√(C·L) + C·‖w‖², with C = 4·R²·(positive weights)·(ratio) as printed, the factor v_max that equation 2.19
    lacks under its root put in, or C = 4·R² / (smallest positive weight), which is several times smaller (`tight`).
    `weights` are the worst over the queries.
    """
    return _self_bounded(norm, self_bounding(radius, weights, tight), comparator_loss)


def self_bounding(radius: float, weights: SlamWeights, tight: bool = True) -> float:
    """The C with ‖gradient‖² ≤ C · surrogate on a mistake (Lemma 5); 1 / C is the learning rate of the theory."""
    factor = 1.0 / weights.smallest if tight else weights.positive * weights.ratio
    return 4.0 * radius**2 * factor


def max_pair_perceptron_loss(norm: float, radius: float, comparator_loss: float = 0.0) -> float:
    """Theorem 10: the summed loss of `max_pair_perceptron`, at most L + 2·‖w‖·R·√L + 4·‖w‖²·R² for any list length."""
    return _self_bounded(norm, 4.0 * radius**2, comparator_loss)


def unavoidable_loss(radius: float, margin: float, measure: str = "nDCG") -> float:
    """Return what no deterministic learner can avoid: ⌊4·R²/γ²⌋ times the loss of one swapped pair.

    Theorem 9 of the papers has ⌊R²/γ²⌋; its own construction works with four times as many queries, and then equals
    the upper bound of Corollary 11 (docs/theory/ranking-functions.md). The stream is `lower_bound` with margin γ/2.
    """
    _, binary = cutoff_and_kind(parse_measure(measure))
    swapped = 1.0 - 1.0 / 2.0 if binary else 1.0 - 1.0 / math.log2(3.0)
    return math.floor(4.0 * radius**2 / margin**2) * swapped


def _self_bounded(norm: float, constant: float, comparator_loss: float) -> float:
    """The largest F with F ≤ L + ‖w‖·√(C·F), as the papers bound it."""
    if min(norm, constant, comparator_loss) < 0.0:
        raise InvalidInput(
            f"norm, radius and comparator_loss are at least 0, got {norm}, {constant}, {comparator_loss}"
        )
    return comparator_loss + norm * math.sqrt(constant * comparator_loss) + constant * norm**2

"""From how many grades at once a surrogate can be learned: Lemma 25 of the thesis, for any surrogate.

A gradient that is a function of the grades is a sum of terms, each a product over a set of items. It can be estimated
without bias from k grades at a time exactly if no set has more than k items. docs/theory/further.md has what follows.
"""

from collections.abc import Callable
from itertools import combinations, product

import numpy as np

from rankloop.core.types import Floats

NEGLIGIBLE = 1e-10

Gradient = Callable[[Floats, Floats], Floats]  # of scores and grades
Slope = Callable[[Floats], Floats]  # the derivative of a loss of one margin


def span_of(gradient: Gradient, scores: Floats, max_grade: int = 1) -> int:
    """Return the number of items in the largest term of a gradient at these scores, by enumeration.

    The coefficient of the grades g on a set A is Σ_{B ⊆ A} (−1)^{|A∖B|} gradient(g on B, 0 elsewhere).

    Args:
      gradient: The gradient in the scores.
      scores: The scores; random ones, so that nothing cancels by accident.
      max_grade: Grades are 0, 1, … up to this.
    """
    n_items = len(scores)
    for size in range(n_items, 0, -1):
        for items in combinations(range(n_items), size):
            for grades in product(range(1, max_grade + 1), repeat=size):
                coefficient = np.zeros(n_items)
                for kept in product((False, True), repeat=size):
                    relevance = np.zeros(n_items)
                    relevance[list(items)] = np.where(kept, grades, 0)
                    coefficient += (-1.0) ** (size - sum(kept)) * gradient(scores, relevance)
                if np.abs(coefficient).max() > NEGLIGIBLE:
                    return size
    return 0


def pairwise(slope: Slope) -> Gradient:
    """Return the gradient of Σ f(s_i − s_j) over pairs with r_i > r_j.

    Args:
      slope: f′.
    """

    def gradient(scores: Floats, grades: Floats) -> Floats:
        better = np.greater.outer(grades, grades)
        slopes = np.where(better, slope(np.subtract.outer(scores, scores)), 0.0)
        return np.asarray(slopes.sum(axis=1) - slopes.sum(axis=0))

    return gradient


def ordinal(slope: Slope, thresholds: Floats) -> Gradient:
    """Return the gradient of Σ_i Σ_θ f(±(s_i − θ)), + for the thresholds that the grade of item i reaches.

    Args:
      slope: f′.
      thresholds: One for each grade from 1 on.
    """

    def gradient(scores: Floats, grades: Floats) -> Floats:
        reached = np.where(np.greater_equal.outer(grades, np.arange(1, len(thresholds) + 1)), 1.0, -1.0)
        return np.asarray((reached * slope(reached * np.subtract.outer(scores, thresholds))).sum(axis=1))

    return gradient


def logistic(margin: Floats) -> Floats:
    """Return the derivative of ln(1 + e^−margin), of RankNet."""
    return np.asarray(-1.0 / (1.0 + np.exp(margin)))


def exponential(margin: Floats) -> Floats:
    """Return the derivative of e^−margin, of RankBoost."""
    return np.asarray(-np.exp(-margin))


def hinge(margin: Floats) -> Floats:
    """Return the derivative of max(0, 1 − margin), of RankSVM."""
    return np.where(margin < 1.0, -1.0, 0.0)


def linear(margin: Floats) -> Floats:
    """Return the derivative of −margin."""
    return np.full_like(margin, -1.0)

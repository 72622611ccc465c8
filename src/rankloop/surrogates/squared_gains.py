"""Squared distance between scores and gains: right for DCG, from one grade at a time."""

from typing import ClassVar

import numpy as np

from rankloop.core.kernels import exponential_gain, kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints


@kernel
def _terms(scores: Floats, items: Ints, grades: Floats) -> tuple[float, Floats]:
    value, grad = 0.0, np.zeros(len(scores))
    for position in range(len(items)):
        gap = scores[items[position]] - exponential_gain(grades[position])
        value += gap * gap
        grad[items[position]] = 2.0 * gap
    return value, grad


@register("squared_gains")
class SquaredGains:
    """Squared distance between scores and the gains 2^grade − 1: calibrated for DCG.

    Σ_i (scores[i] − (2^relevance[i] − 1))². Its best scores are the expected gains, and sorting by those maximises
    expected DCG, which `squared` on the grades themselves does not. One grade at a time is enough to learn from. For
    nDCG nothing of the kind exists: `calibrated_squared` needs all grades, and no other surrogate does with fewer than
    all but one.
    Reference: Cossock and Zhang (2006), Subset Ranking Using Regression.
    """

    span: ClassVar[int | None] = 1
    convex: ClassVar[bool] = True

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return _terms(scores, np.arange(len(scores)), relevance)

    def terms(self, scores: Floats, items: Ints, grades: Floats) -> Floats:
        return _terms(scores, items, grades)[1]

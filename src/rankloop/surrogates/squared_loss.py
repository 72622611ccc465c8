"""Squared distance between scores and grades."""

from typing import ClassVar

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints


@kernel
def _value_and_grad(scores: Floats, relevance: Floats) -> tuple[float, Floats]:
    value = 0.0
    grad = np.empty(len(scores))
    for i in range(len(scores)):
        gap = scores[i] - relevance[i]
        value += gap * gap
        grad[i] = 2.0 * gap
    return value, grad


@kernel
def squared_term(score: float, grade: float) -> float:
    """What one grade adds to the gradient."""
    return 2.0 * (score - grade)


@kernel
def _terms(scores: Floats, items: Ints, grades: Floats) -> Floats:
    terms = np.zeros(len(scores))
    for position in range(len(items)):
        terms[items[position]] = squared_term(scores[items[position]], grades[position])
    return terms


@register("squared")
class Squared:
    """Squared distance between scores and grades: every item is judged alone.

    Σ_i (scores[i] − relevance[i])². Use it when scores should predict grades; one grade at a time is enough to learn
    from.
    Reference: Cossock and Zhang (2006), Subset Ranking Using Regression.
    """

    span: ClassVar[int | None] = 1
    convex: ClassVar[bool] = True

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return _value_and_grad(scores, relevance)

    def terms(self, scores: Floats, items: Ints, grades: Floats) -> Floats:
        return _terms(scores, items, grades)

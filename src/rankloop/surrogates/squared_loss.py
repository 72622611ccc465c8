"""Squared distance between scores and grades."""

from typing import ClassVar, Literal

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.registry import Spec, register
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
    from. Where only some are seen (`topk_gradient`), `divided` says what is divided by the probability p_i to see item
    i. "residual", the default: item i has the slope 2·(scores[i] − relevance[i]) / p_i if seen, else 0. "grade": it has
    2·(scores[i] − relevance[i] / p_i) if seen, else 2·scores[i], as Chaudhuri (2016) prints it: the scores are known
    without looking. Both are unbiased; the first is mostly steadier, as a small residual stays small.
    Reference: Cossock and Zhang (2006), Subset Ranking Using Regression.
    """

    divided: Literal["residual", "grade"] | None = None  # None, as in specs of 0.1: the residual

    span: ClassVar[int | None] = 1
    convex: ClassVar[bool] = True
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"divided": "grade"})

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return _value_and_grad(scores, relevance)

    def terms(self, scores: Floats, items: Ints, grades: Floats) -> Floats:
        return _terms(scores, items, grades)

    def known_part(self, scores: Floats) -> Floats:
        """The part of the gradient that is added whole, whatever is seen."""
        return 2.0 * scores if self.divided == "grade" else np.zeros(len(scores))

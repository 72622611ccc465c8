"""ListNet without its normalisation: a Kullback-Leibler divergence that grades enter one at a time."""

from typing import ClassVar

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints


@kernel
def kl_term(score: float, grade: float) -> float:
    """What one grade adds to the gradient."""
    slope: float = np.exp(score) - np.exp(grade)
    return slope


@kernel
def _value_and_grad(scores: Floats, items: Ints, grades: Floats) -> tuple[float, Floats]:
    """The loss of these items and its gradient over all scores."""
    value, grad = 0.0, np.zeros(len(scores))
    for position in range(len(items)):
        score, grade = scores[items[position]], grades[position]
        value += np.exp(grade) * (grade - score) - np.exp(grade) + np.exp(score)
        grad[items[position]] = kl_term(score, grade)
    return value, grad


@register("kl")
class KL:
    """Un-normalised ListNet: a Kullback-Leibler divergence that learns from single grades.

    Σ_i e^r_i · (r_i − s_i) − e^r_i + e^s_i with s the scores and r the relevance.
    Use it when only some items are graded: one grade at a time is enough to learn from. It grows like e^score, so large
    steps overflow; such a step is refused.
    Reference: Chaudhuri and Tewari (2017), Online Learning to Rank with Top-k Feedback.
    """

    span: ClassVar[int | None] = 1
    convex: ClassVar[bool] = True

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return _value_and_grad(scores, np.arange(len(scores)), relevance)

    def terms(self, scores: Floats, items: Ints, grades: Floats) -> Floats:
        return _value_and_grad(scores, items, grades)[1]

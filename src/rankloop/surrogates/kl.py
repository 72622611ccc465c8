"""ListNet without its normalisation: a Kullback-Leibler divergence that grades enter one at a time."""

from typing import ClassVar

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints


@kernel
def kl_term(score: float, grade: float) -> float:
    """Return the share of one grade in the gradient.

    Args:
      score: The score of the item.
      grade: Its grade.
    """
    slope: float = np.exp(score) - np.exp(grade)
    return slope


@kernel
def _value_and_grad(scores: Floats, items: Ints, grades: Floats) -> tuple[float, Floats]:
    """Return the loss of these items and its gradient over all scores."""
    value, grad = 0.0, np.zeros(len(scores))
    for position in range(len(items)):
        score, grade = scores[items[position]], grades[position]
        value += np.exp(grade) * (grade - score) - np.exp(grade) + np.exp(score)
        grad[items[position]] = kl_term(score, grade)
    return value, grad


@register("kl")
class KL:
    """ListNet without its normalisation: a Kullback-Leibler divergence that learns from single grades.

      Σ_i e^r_i · (r_i − s_i) − e^r_i + e^s_i, with s the scores and r the relevance.

    Use it when only some items are graded. It grows like e^score, so large steps overflow; such a step is refused.

    References:
      Chaudhuri and Tewari (2017), Online Learning to Rank with Top-k Feedback.

    Examples:
      >>> import numpy as np
      >>> value, grad = KL().value_and_grad(np.array([0.5, 0.0]), np.array([1.0, 0.0]))
      >>> round(value, 3)
      0.29
    """

    span: ClassVar[int | None] = 1
    convex: ClassVar[bool] = True

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return _value_and_grad(scores, np.arange(len(scores)), relevance)

    def terms(self, scores: Floats, items: Ints, grades: Floats) -> Floats:
        return _value_and_grad(scores, items, grades)[1]

"""SmoothDCG@1: the gain of the first item, with a softmax instead of the maximum."""

from typing import ClassVar

import numpy as np

from rankloop.core.checks import Positive
from rankloop.core.kernels import exponential_gain, kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints


@kernel
def _softmax(scores: Floats, smoothing: float) -> Floats:
    """Return exp(score / smoothing) / Σ exp(score / smoothing), computed so that it cannot overflow."""
    if len(scores) == 0:
        return np.empty(0)
    odds: Floats = np.exp((scores - scores.max()) / smoothing)
    probabilities: Floats = odds / odds.sum()
    return probabilities


@kernel
def smooth_terms(scores: Floats, items: Ints, grades: Floats, smoothing: float) -> tuple[float, Floats]:
    """Return minus the expected gain of the first position over these items, and its gradient over all scores.

    Args:
      scores: The scores of all items.
      items: The graded items.
      grades: Their grades.
      smoothing: The temperature of the softmax.
    """
    probabilities = _softmax(scores, smoothing)
    expected = 0.0
    for position in range(len(items)):
        expected += probabilities[items[position]] * exponential_gain(grades[position])
    grad = probabilities * (expected / smoothing)
    for position in range(len(items)):
        grad[items[position]] -= probabilities[items[position]] * exponential_gain(grades[position]) / smoothing
    return -expected, grad


@register("smooth_dcg")
class SmoothDCG:
    """Minus the expected gain of the first position when it is drawn by a softmax of the scores.

      −Σ_i (2^relevance[i] − 1) · softmax(scores / `smoothing`)[i].

    It approaches DCG@1 as `smoothing` falls, but is flatter: its steps depend on learning_rate / smoothing² only, which
    should be near 0.1. It is not convex, so there is no regret guarantee. Single grades are enough to learn from.

    Args:
      smoothing: The temperature of the softmax.

    References:
      Chapelle and Wu (2010), Gradient Descent Optimization of Smoothed Information Retrieval Metrics.

    Examples:
      >>> import numpy as np
      >>> value, grad = SmoothDCG().value_and_grad(np.array([0.5, 0.0]), np.array([1.0, 0.0]))
      >>> round(value, 3)
      -0.622
    """

    smoothing: Positive = 1.0

    span: ClassVar[int | None] = 1
    convex: ClassVar[bool] = False

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return smooth_terms(scores, np.arange(len(scores)), relevance, self.smoothing)

    def terms(self, scores: Floats, items: Ints, grades: Floats) -> Floats:
        return smooth_terms(scores, items, grades, self.smoothing)[1]

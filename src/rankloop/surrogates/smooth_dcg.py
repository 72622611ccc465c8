"""SmoothDCG@1: the gain of the first item, with a softmax instead of the maximum."""

from typing import ClassVar

import numpy as np

from rankloop.core.checks import check_positive
from rankloop.core.kernels import exponential_gain, kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints


@kernel
def _softmax(scores: Floats, smoothing: float) -> Floats:
    if len(scores) == 0:
        return np.empty(0)
    odds: Floats = np.exp((scores - scores.max()) / smoothing)
    odds /= odds.sum()
    return odds


@kernel
def smooth_terms(scores: Floats, items: Ints, grades: Floats, smoothing: float) -> tuple[float, Floats]:
    """Minus the expected gain of the first position over these items, and its gradient over all scores."""
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
    """SmoothDCG@1: minus the gain to expect in the first position when it is drawn by a softmax of the scores.

    −Σ_i (2^relevance[i] − 1) · softmax(scores / `smoothing`)[i].
    Closer to DCG@1 as `smoothing` falls, but flatter: its steps depend on learning_rate / smoothing² only, keep that
    near 0.1. Not convex, so there is no regret guarantee; one grade at a time is enough to learn from.
    Reference: Chapelle and Wu (2010), Gradient Descent Optimization of Smoothed Information Retrieval Metrics.
    """

    smoothing: float = 1.0

    span: ClassVar[int | None] = 1
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive("smoothing", self.smoothing)

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return smooth_terms(scores, np.arange(len(scores)), relevance, self.smoothing)

    def terms(self, scores: Floats, items: Ints, grades: Floats) -> Floats:
        return smooth_terms(scores, items, grades, self.smoothing)[1]

"""Surrogates that learn from single grades, and squared distance to normalised gains, which needs them all."""

from typing import ClassVar, Literal

import numpy as np

from rankloop.core.checks import Positive
from rankloop.core.kernels import discount, exponential_gain, kernel, ranking_of
from rankloop.core.registry import Examples, register
from rankloop.core.types import Floats, Ints
from rankloop.surrogates.base import ListwiseSurrogate, SeparableSurrogate


@kernel
def _kl(scores: Floats, grades: Floats) -> tuple[float, Floats]:
    """Return φ_KL of Chaudhuri (2016), section 3.3.3.1, and its gradient."""
    value, grad = 0.0, np.empty(len(scores))
    for i in range(len(scores)):
        score, grade = scores[i], grades[i]
        value += np.exp(grade) * (grade - score) - np.exp(grade) + np.exp(score)
        grad[i] = np.exp(score) - np.exp(grade)
    return value, grad


@register("kl")
class KL(SeparableSurrogate):
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

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return _kl(scores, relevance)


@kernel
def _squared(scores: Floats, targets: Floats) -> tuple[float, Floats]:
    """Return Σ (score − target)², φ_sq of Chaudhuri (2016), section 3.3.3.1, and its gradient."""
    value, gaps = 0.0, scores - targets
    for gap in gaps:
        value += gap**2
    return value, 2.0 * gaps


@register("squared")
class Squared(SeparableSurrogate):
    """The squared distance between scores and grades.

      Σ_i (scores[i] − relevance[i])².

    Use it when scores should predict grades; single grades are enough to learn from.

    Args:
      divided: The part of the gradient that `topk_gradient` divides by the probability p_i of seeing item i. With
        "residual" item i has the slope 2·(scores[i] − relevance[i]) / p_i if seen, else 0. With "grade" it has
        2·(scores[i] − relevance[i] / p_i) if seen, else 2·scores[i], as Chaudhuri (2016) prints it. Both are unbiased;
        the first mostly has less variance.

    References:
      Cossock and Zhang (2006), Subset Ranking Using Regression.

    Examples:
      >>> import numpy as np
      >>> value, grad = Squared().value_and_grad(np.array([0.5, 0.0]), np.array([1.0, 0.0]))
      >>> round(value, 3)
      0.25
    """

    divided: Literal["residual", "grade"] = "residual"
    examples: ClassVar[Examples] = ({}, {"divided": "grade"})

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return _squared(scores, relevance)


@kernel
def _gains(grades: Floats) -> Floats:
    """Return 2^grade − 1 of each grade."""
    gains = np.empty(len(grades))
    for i in range(len(grades)):
        gains[i] = exponential_gain(grades[i])
    return gains


@register("squared_gains")
class SquaredGains(SeparableSurrogate):
    """The squared distance between scores and the gains 2^grade − 1: calibrated for DCG.

      Σ_i (scores[i] − (2^relevance[i] − 1))².

    Its best scores are the expected gains, and sorting by those maximises expected DCG, which `squared` on the grades
    does not. Single grades are enough to learn from. For nDCG there is no such surrogate: `calibrated_squared` needs
    all grades.

    References:
      Cossock and Zhang (2006), Subset Ranking Using Regression.
    """

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return _squared(scores, _gains(relevance))


@kernel
def normalised_gains(relevance: Floats) -> Floats:
    """Return (2^relevance − 1) / ideal DCG; negative grades count as 0, and all are 0 if nothing is relevant."""
    gains = _gains(np.maximum(relevance, 0.0))
    ideal = 0.0
    for position, item in enumerate(ranking_of(gains)):
        ideal += gains[item] * discount(position)
    return gains / ideal if ideal > 0.0 else np.zeros(len(relevance))


@register("calibrated_squared")
class CalibratedSquared(ListwiseSurrogate):
    """The squared distance between scores and normalised gains: calibrated for nDCG.

      Σ_i (scores[i] − gain_i)², with gain = (2^relevance − 1) / ideal DCG.

    Its best scores order the items by their expected normalised gain, which maximises expected nDCG. The ideal DCG
    needs every grade, and no method can learn such a loss from the first grade alone.

    References:
      Ravikumar, Tewari and Yang (2011), On NDCG Consistency of Listwise Ranking Methods.
    """

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return _squared(scores, normalised_gains(relevance))


@kernel
def _smoothed(scores: Floats, items: Ints, grades: Floats, smoothing: float) -> tuple[float, Floats]:
    """Return −φ_SD of Chaudhuri (2016), section 3.3.3.2, over these items, and its gradient over all scores."""
    if len(scores) == 0:
        return 0.0, np.empty(0)
    probabilities = np.exp((scores - scores.max()) / smoothing)  # the differences keep it from overflowing
    probabilities /= probabilities.sum()
    expected = 0.0
    for position in range(len(items)):
        expected += probabilities[items[position]] * exponential_gain(grades[position])
    grad = probabilities * (expected / smoothing)
    for position in range(len(items)):
        grad[items[position]] -= probabilities[items[position]] * exponential_gain(grades[position]) / smoothing
    return -expected, grad


@register("smooth_dcg")
class SmoothDCG(SeparableSurrogate):
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

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return _smoothed(scores, np.arange(len(scores)), relevance, self.smoothing)

    def terms(self, scores: Floats, items: Ints, grades: Floats) -> Floats:
        # Unlike the sums of other surrogates, the softmax needs the scores of the items without a grade, too.
        return _smoothed(scores, items, grades, self.smoothing)[1]

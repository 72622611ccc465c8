"""Squared distance between scores and a target: the grades, the gains, or the normalised gains."""

from typing import ClassVar, Literal

import numpy as np

from rankloop.core.kernels import discount, exponential_gain, kernel, ranking_of
from rankloop.core.registry import Spec, register
from rankloop.core.types import Floats, Ints
from rankloop.surrogates.base import ListwiseSurrogate


@kernel
def squared_term(score: float, target: float) -> float:
    """Return the share of one target in the gradient.

    Args:
      score: The score of the item.
      target: Its target.
    """
    return 2.0 * (score - target)


@kernel
def _value_and_grad(scores: Floats, items: Ints, targets: Floats) -> tuple[float, Floats]:
    """Return the loss of these items and its gradient over all scores."""
    value, grad = 0.0, np.zeros(len(scores))
    for position in range(len(items)):
        score = scores[items[position]]
        value += (score - targets[position]) ** 2
        grad[items[position]] = squared_term(score, targets[position])
    return value, grad


@register("squared")
class Squared:
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

    span: ClassVar[int | None] = 1
    convex: ClassVar[bool] = True
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"divided": "grade"})

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return _value_and_grad(scores, np.arange(len(scores)), relevance)

    def terms(self, scores: Floats, items: Ints, grades: Floats) -> Floats:
        return _value_and_grad(scores, items, grades)[1]

    def known_part(self, scores: Floats) -> Floats:
        """Return the part of the gradient that needs no grade."""
        return 2.0 * scores if self.divided == "grade" else np.zeros(len(scores))


@kernel
def _gains(grades: Floats) -> Floats:
    """Return 2^grade − 1 of each grade."""
    gains = np.empty(len(grades))
    for i in range(len(grades)):
        gains[i] = exponential_gain(grades[i])
    return gains


@register("squared_gains")
class SquaredGains:
    """The squared distance between scores and the gains 2^grade − 1: calibrated for DCG.

      Σ_i (scores[i] − (2^relevance[i] − 1))².

    Its best scores are the expected gains, and sorting by those maximises expected DCG, which `squared` on the grades
    does not. Single grades are enough to learn from. For nDCG there is no such surrogate: `calibrated_squared` needs
    all grades.

    References:
      Cossock and Zhang (2006), Subset Ranking Using Regression.
    """

    span: ClassVar[int | None] = 1
    convex: ClassVar[bool] = True

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return _value_and_grad(scores, np.arange(len(scores)), _gains(relevance))

    def terms(self, scores: Floats, items: Ints, grades: Floats) -> Floats:
        return _value_and_grad(scores, items, _gains(grades))[1]


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
        return _value_and_grad(scores, np.arange(len(scores)), normalised_gains(relevance))

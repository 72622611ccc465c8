"""Losses that judge every item alone."""

import numpy as np

import rankloop.training.risks.base  # noqa: F401  (declares the category)
from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints


@register("least_squares", category="risk")
class LeastSquares:
    """Least squares: scores that predict the grades, every item judged alone.

    ½ Σ_i (scores[i] − relevance[i])², gradient scores − relevance. Use it as the simplest baseline, or when the scores
    themselves should mean something.
    Reference: Cossock and Zhang (2006), Subset Ranking Using Regression.
    """

    def of_lists(self, scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
        gap = scores - relevance
        with np.errstate(over="ignore"):  # refused by the bundle method
            return 0.5 * float((gap * gap).sum()), gap


@kernel
def _logistic_of_items(scores: Floats, weights: Floats) -> tuple[float, Floats]:
    value, grad = 0.0, np.empty(len(scores))
    for i in range(len(scores)):
        clicked = weights[i] > 0.0
        weight = weights[i] if clicked else 1.0
        wrong = -scores[i] if clicked else scores[i]  # the higher, the more surprising is what came
        surprise = 1.0 / (1.0 + np.exp(-abs(wrong)))  # of the likelier side
        value += weight * (max(wrong, 0.0) + np.log1p(np.exp(-abs(wrong))))
        slope = weight * (surprise if wrong > 0.0 else 1.0 - surprise)
        grad[i] = -slope if clicked else slope
    return value, grad


@register("clicked_items", category="risk")
class ClickRegressionRisk:
    """Click regression: the logistic loss of P(click) = σ(score), item by item; a click of weight v counts v times.

    The batch form of the learner `click_regression`. Scores hold the offsets of positions where these are known.
    """

    def of_lists(self, scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
        return _logistic_of_items(scores, relevance)

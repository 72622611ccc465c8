"""Losses that judge every item alone."""

import numpy as np

import rankloop.training.risks.base  # noqa: F401  (declares the category)
from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints


@register("least_squares", category="risk")
class LeastSquares:
    """Least squares: scores that predict the grades, every item judged alone.

    ½ Σ_i (scores[i] − relevance[i])², gradient scores − relevance: equations (1) and (2) of the supplement of Le and
    Smola, whose printed gradient has the wrong sign. Use it as the simplest baseline, or when scores should predict
    grades.
    Reference: Cossock and Zhang (2006), Subset Ranking Using Regression.
    """

    def of_lists(self, scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
        gap = scores - relevance
        with np.errstate(over="ignore"):  # the bundle method refuses a value that is not finite
            return 0.5 * float((gap * gap).sum()), gap


@kernel
def _logistic_of_items(scores: Floats, weights: Floats) -> tuple[float, Floats]:
    """Return Σ weight · ln(1 + exp(∓score)), − for clicked items and + for others, and its gradient."""
    value, grad = 0.0, np.empty(len(scores))
    for i in range(len(scores)):
        clicked = weights[i] > 0.0
        weight = weights[i] if clicked else 1.0
        wrong = -scores[i] if clicked else scores[i]  # the higher, the less likely is the observation
        odds = np.exp(-abs(wrong))
        likelier = 1.0 / (1.0 + odds)  # the probability of the likelier of click and no click
        value += weight * (max(wrong, 0.0) + np.log1p(odds))
        slope = weight * (likelier if wrong > 0.0 else 1.0 - likelier)
        grad[i] = -slope if clicked else slope
    return value, grad


@register("clicked_items", category="risk")
class ClickRegressionRisk:
    """Click regression: the logistic loss of P(click) = σ(score), item by item; a click of weight v counts v times.

    The batch form of the learner `click_regression`. Scores hold the offsets of positions where these are known.
    """

    def of_lists(self, scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
        return _logistic_of_items(scores, relevance)

"""Losses that judge every item alone."""

import numpy as np

import rankloop.training.risks.base  # noqa: F401  (declares the category)
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


@register("clicked_items", category="risk")
class ClickRegressionRisk:
    """Click regression: the logistic loss of P(click) = σ(score), item by item; a click of weight v counts v times.

    The batch form of the learner `click_regression`. Scores hold the offsets of positions where these are known.
    """

    def of_lists(self, scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
        weights, odds = np.where(relevance > 0.0, relevance, 1.0), np.where(relevance > 0.0, scores, -scores)
        with np.errstate(over="ignore"):  # of an item whose observation is sure: its slope is 0
            slopes = weights / (1.0 + np.exp(odds))
        return float((weights * np.logaddexp(0.0, -odds)).sum()), np.where(relevance > 0.0, -slopes, slopes)

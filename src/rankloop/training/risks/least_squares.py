"""Scores that predict grades."""

import numpy as np

import rankloop.training.risks.base  # noqa: F401  (declares the category)
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

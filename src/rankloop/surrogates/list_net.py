"""ListNet: cross entropy between the softmax of the grades and that of the scores."""

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats
from rankloop.surrogates.base import ListwiseSurrogate


@kernel
def cross_entropy(scores: Floats, relevance: Floats) -> tuple[float, Floats]:
    """Return φ_LN of Chaudhuri (2016), section 3.3.3.1, and its gradient in the scores.

    Args:
      scores: The score of each item.
      relevance: The grade of each item.
    """
    n_items = len(scores)
    grad = np.empty(n_items)
    if n_items == 0:
        return 0.0, grad
    top_score, top_grade = scores.max(), relevance.max()
    score_total, grade_total, weighted = 0.0, 0.0, 0.0
    for i in range(n_items):
        target = np.exp(relevance[i] - top_grade)
        grade_total += target
        weighted += target * (scores[i] - top_score)
        grad[i] = target
        score_total += np.exp(scores[i] - top_score)
    for i in range(n_items):
        grad[i] = np.exp(scores[i] - top_score) / score_total - grad[i] / grade_total
    return np.log(score_total) - weighted / grade_total, grad


@register("list_net")
class ListNet(ListwiseSurrogate):
    """The cross entropy between the softmax of the grades and that of the scores.

      −Σ_i P_i(relevance) · log P_i(scores), with P the softmax.

    It is smooth and convex, and its gradient never exceeds 2. All grades enter the softmax together, so its gradient
    cannot be estimated from a part of the list; `kl` is the variant for that.

    References:
      Cao, Qin, Liu, Tsai and Li (2007), Learning to Rank: From Pairwise Approach to Listwise Approach.

    Examples:
      >>> import numpy as np
      >>> value, grad = ListNet().value_and_grad(np.array([0.5, 0.0]), np.array([1.0, 0.0]))
      >>> round(value, 3)
      0.609
    """

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return cross_entropy(scores, relevance)

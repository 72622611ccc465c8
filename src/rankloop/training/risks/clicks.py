"""Losses of clicks: the grade of an item is what its click weighs, 0 where none came."""

import numpy as np

import rankloop.training.risks.base  # noqa: F401  (declares the category)
from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints


@kernel
def _pairs_of_lists(scores: Floats, weights: Floats, offsets: Ints) -> tuple[float, Floats]:
    value, grad = 0.0, np.zeros(len(scores))
    for q in range(len(offsets) - 1):
        for clicked in range(offsets[q], offsets[q + 1]):
            if weights[clicked] <= 0.0:
                continue
            for other in range(offsets[q], offsets[q + 1]):
                gap = 1.0 + scores[other] - scores[clicked]
                if other != clicked and gap > 0.0:
                    value += weights[clicked] * gap
                    grad[other] += weights[clicked]
                    grad[clicked] -= weights[clicked]
    return value, grad


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


@register("clicked_pairs", category="risk")
class ClickedPairs:
    """Clicked pairs: every clicked item should stand above every other of its list, by a margin.

    Σ over clicked items i of weight_i · Σ over the others j of max(0, 1 + scores[j] − scores[i]), which bounds the
    weighted ranks of what was clicked from above. With weights 1 / P(position examined) it is unbiased.
    Reference: Joachims, Swaminathan and Schnabel (2017), Unbiased Learning-to-Rank with Biased Feedback.
    """

    def of_lists(self, scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
        return _pairs_of_lists(scores, relevance, offsets)

    @staticmethod
    def n_pairs(relevance: Floats, offsets: Ints) -> int:
        """How many pairs the clicks of these lists make."""
        before = np.concatenate([[0], np.cumsum(relevance > 0.0)])
        return int(((before[offsets[1:]] - before[offsets[:-1]]) * (np.diff(offsets) - 1)).sum())


@register("clicked_items", category="risk")
class ClickRegressionRisk:
    """Click regression: the logistic loss of P(click) = σ(score), item by item; a click of weight v counts v times.

    The batch form of the learner `click_regression`. Scores hold the offsets of positions where these are known.
    """

    def of_lists(self, scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
        return _logistic_of_items(scores, relevance)

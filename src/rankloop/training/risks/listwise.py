"""The convex surrogates of online learning as risks."""

from itertools import pairwise

import numpy as np

import rankloop.training.risks.base  # noqa: F401  (declares the category)
from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints
from rankloop.surrogates.list_net import cross_entropy
from rankloop.surrogates.pairwise import Slam


@kernel
def _list_net(scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
    """Return Σ over queries of ListNet's cross entropy, and its gradient in the scores."""
    value, grad = 0.0, np.empty(len(scores))
    for q in range(len(offsets) - 1):
        items = slice(offsets[q], offsets[q + 1])
        part, grad[items] = cross_entropy(scores[items], relevance[items])
        value += part
    return value, grad


@register("list_net", category="risk")
class ListNetRisk:
    """ListNet: the cross entropy between the softmax of the grades and that of the scores, as a risk.

    See the surrogate `list_net`. Smooth, and its slope never exceeds 2 in total, for lists of any length.
    Reference: Cao, Qin, Liu, Tsai and Li (2007), Learning to Rank: From Pairwise Approach to Listwise Approach.
    """

    def of_lists(self, scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
        return _list_net(scores, relevance, offsets)


@register("slam", category="risk")
class SlamRisk(Slam):
    """SLAM: each item should beat the best item of lower grade by a margin, weighted as in nDCG or AP, as a risk.

    See the surrogate `slam`, whose parameters these are: an upper bound on 1 − nDCG, 1 − nDCG@`cutoff` or 1 − AP.
    Reference: Chaudhuri and Tewari (2015), Perceptron-like Algorithms for Online Learning to Rank.
    """

    def of_lists(self, scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
        value, grad = 0.0, np.empty(len(scores))
        for first, end in pairwise(offsets.tolist()):
            part, grad[first:end] = self.value_and_grad(scores[first:end], relevance[first:end])
            value += part
        return value, grad

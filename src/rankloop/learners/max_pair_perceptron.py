"""The perceptron for ranking whose guarantee does not grow with the list: one pair is corrected per mistake."""

from typing import ClassVar

from rankloop.core.registry import Spec, register
from rankloop.learners._shared.perceptron_step import MistakeDriven


@register("max_pair_perceptron")
class MaxPairPerceptron(MistakeDriven):
    """Algorithm 3 of Chaudhuri (2016): on a mistake w ← w + η · (features[i] − features[j]) for the worst-ordered pair.

    (i, j) is the pair with relevance[i] > relevance[j] whose hinge `margin` + scores[j] − scores[i] is largest
    (`max_pair`); a mistake is a round whose `measure` is below its best, ties broken against the learner. From zero
    weights every η = `learning_rate` gives the same rankings.

    Its loss on separable data, at most 4·R²/margin², is the best that any deterministic learner can promise; on data
    that are not separable it is usually worse than `ranking_perceptron`, as it ignores where in the list a mistake is.
    Reference: Chaudhuri and Tewari (2015), Perceptron-like Algorithms for Online Learning to Rank.
    """

    one_pair: ClassVar[bool] = True
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"measure": "AP"})

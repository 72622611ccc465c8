"""The perceptron for ranking: a step on the SLAM surrogate whenever the measure sees a mistake."""

from typing import ClassVar

from rankloop.core.registry import Spec, register
from rankloop.learners._shared.perceptron_step import MistakeDriven


@register("ranking_perceptron")
class RankingPerceptron(MistakeDriven):
    """Algorithm 2 of Chaudhuri (2016): on a mistake w ← w − η · ∇_w slam(features · w, relevance), else w stays.

    A mistake is a round whose `measure` (nDCG, nDCG@k or AP) is below its best, ties broken against the learner; `slam`
    has the weights of that measure and this `margin`; η is `learning_rate`. On data that some w ranks perfectly with a
    margin, the summed loss of the measure stays bounded however long it runs. With grades of the first items only,
    these alone are its list.

    Use it with full relevance when the data are nearly separable, or when most rounds should cost no update.
    Reference: Chaudhuri and Tewari (2015), Perceptron-like Algorithms for Online Learning to Rank.
    """

    one_pair: ClassVar[bool] = False
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"measure": "AP"}, {"measure": "nDCG@2", "margin": 0.5})

"""A bound on 1 − nDCG."""

from typing import ClassVar

from rankloop.core.kernels import discounts
from rankloop.core.registry import Spec, register
from rankloop.core.types import Floats
from rankloop.training.risks.structured_loss import PositionLoss


@register("ndcg", category="risk")
class NDCGLoss(PositionLoss):
    """The structured bound on 1 − nDCG, or on 1 − nDCG@`cutoff`: the ranking that would hurt most, by assignment.

    a_p = 1 / log₂(p + 2), b_i = 2^relevance[i] − 1 by its ideal total; see `PositionLoss`. On data that no weights rank
    well its minimum is at w = 0: use `RankBundle(tight=True)`, or `ordinal`. With a cutoff it is much faster.
    Reference: Le and Smola (2007), Direct Optimization of Ranking Measures.
    """

    examples: ClassVar[tuple[Spec, ...]] = ({}, {"cutoff": 2})

    @property
    def bounds(self) -> str:
        return "nDCG" if self.cutoff is None else f"nDCG@{self.cutoff}"

    def gains(self, relevance: Floats) -> Floats:
        gains: Floats = 2.0**relevance - 1.0
        return gains

    def discounts(self, n_positions: int) -> Floats:
        return discounts(n_positions)

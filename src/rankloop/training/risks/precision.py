"""A bound on the precision that is lost."""

from typing import ClassVar

import numpy as np

from rankloop.core.checks import check_positive
from rankloop.core.registry import Spec, register
from rankloop.core.types import Floats
from rankloop.training.risks.structured_loss import PositionLoss


@register("precision", category="risk")
class PrecisionLoss(PositionLoss):
    """The structured bound on 1 − P@`cutoff` / (the best P@`cutoff` that these items allow).

    a_p = 1, b_i = 1 for items from grade `relevant_from` on, by their ideal total; see `PositionLoss`.
    Reference: Joachims (2005), A Support Vector Method for Multivariate Performance Measures.
    """

    relevant_from: float = 1.0

    examples: ClassVar[tuple[Spec, ...]] = ({"cutoff": 2}, {"cutoff": 1, "relevant_from": 2.0})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("relevant_from", self.relevant_from)

    @property
    def bounds(self) -> str:
        return "P" if self.cutoff is None else f"P(relevant_from={self.relevant_from})@{self.cutoff}"

    def gains(self, relevance: Floats) -> Floats:
        return (relevance >= self.relevant_from).astype(np.float64)

    def discounts(self, n_positions: int) -> Floats:
        return np.ones(n_positions)

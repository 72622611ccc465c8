"""Bounds on the expected rank utility that is lost."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import Spec, register
from rankloop.core.types import Floats
from rankloop.training.risks.structured_loss import PositionLoss


@dataclass(frozen=True, kw_only=True)
class _HalfLife(PositionLoss):
    half_life: float = 5.0
    neutral: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1.0 < self.half_life < math.inf or not 0.0 <= self.neutral < math.inf:
            raise InvalidInput(
                f"half_life must be above 1 and neutral at least 0, got {self.half_life} and {self.neutral}"
            )

    @property
    def bounds(self) -> str:
        kind = "NERU" if self.normalised else "ERU"
        name = f"{kind}(half_life={self.half_life}, neutral={self.neutral})"
        return name if self.cutoff is None else f"{name}@{self.cutoff}"

    def gains(self, relevance: Floats) -> Floats:
        return np.maximum(relevance - self.neutral, 0.0)

    def discounts(self, n_positions: int) -> Floats:
        values: Floats = 2.0 ** (-np.arange(n_positions) / (self.half_life - 1.0))
        return values


@register("eru", category="risk")
class ERULoss(_HalfLife):
    """The structured bound on (the best expected rank utility) − (that of the ranking), in its own units.

    a_p = 2^{−p / (half_life − 1)}, b_i = max(relevance[i] − neutral, 0); see `PositionLoss`. Lists with more to gain
    count more; `neru` counts all alike.
    Reference: Breese, Heckerman and Kadie (1998), Empirical Analysis of Predictive Algorithms for Collaborative
    Filtering.
    """

    normalised: ClassVar[bool] = False
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"cutoff": 2, "half_life": 2.0, "neutral": 0.5})


@register("neru", category="risk")
class NERULoss(_HalfLife):
    """The structured bound on 1 − NERU, the normalised expected rank utility.

    As `eru`, the gains b by their ideal total.
    Reference: Le and Smola (2007), Direct Optimization of Ranking Measures.
    """

    examples: ClassVar[tuple[Spec, ...]] = ({}, {"cutoff": 2, "half_life": 2.0, "neutral": 0.5})

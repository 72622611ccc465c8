"""People who answer for the first shown item alone."""

from __future__ import annotations

from typing import ClassVar

from numpy.random import Generator

from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints, Reward


@register("first_item_reward")
class FirstItemReward:
    """Rewards the first shown item by its relevance and says nothing of the others: the ad that was shown.

    Use it with streams whose relevance is a click or a purchase, such as `campaign`, and learners of `Reward`.
    """

    shown: ClassVar[int | None] = 1
    depth: ClassVar[int | None] = None

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Reward:
        return Reward(float(relevance[ranking[0]]))

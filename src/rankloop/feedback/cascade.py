"""The cascade model: people read from the top until their first click."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.random import Generator

from rankloop.core.registry import register
from rankloop.core.types import Clicks, Floats, Ints
from rankloop.feedback.click_behaviours import CLICK, Behaviour, check_scale, walk_down
from rankloop.feedback.click_model import check_positions, seen_positions

ALWAYS = np.ones(1)


@register("cascade")
class Cascade:
    """Looks at the items from the top, clicks the first that attracts, and stops: at most one click.

    P(click | looked at, grade) is that of the `behaviour` on the scale 0 … `max_grade` (1, 2 or 4).
    Draws three doubles per place. Use it for searches that one item satisfies.
    Reference: Craswell, Zoeter, Taylor and Ramsey (2008), An Experimental Comparison of Click Position-Bias Models.
    """

    behaviour: Behaviour = "navigational"
    max_grade: int = 4
    shown: int = 10
    depth: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        check_scale(self.max_grade)
        check_positions("shown", self.shown)

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        """At most one click."""
        click = CLICK[self.behaviour, self.max_grade]
        draws = rng.random((3, seen_positions(self.shown, len(ranking))))
        return Clicks(*walk_down(ranking, relevance, click, ALWAYS, 1.0, draws))

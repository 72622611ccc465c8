"""The dependent click model: after a click, people may go on."""

from __future__ import annotations

from typing import ClassVar

from numpy.random import Generator

from rankloop.core.registry import register
from rankloop.core.types import Clicks, Floats, Ints
from rankloop.feedback.click_behaviours import CLICK, STOP, Behaviour, check_scale, walk_down
from rankloop.feedback.click_model import check_positions, seen_positions


@register("dcm")
class Dcm:
    """Looks at the items from the top and clicks what attracts; after each click stops with a probability.

    P(click | looked at, grade) and P(stop | clicked, grade) are those of the `behaviour` on the scale 0 …
    `max_grade` (1, 2 or 4): "perfect" reads on and clicks by grade, "navigational" looks for one very good item,
    "informational" clicks a lot. The standard people of online learning to rank. Draws three doubles per place.
    References: Guo, Liu and Wang (2009), Efficient Multiple-Click Models in Web Search, with stopping by grade as in
    Hofmann, Whiteson and de Rijke (2011), A Probabilistic Method for Inferring Preferences from Clicks.
    """

    behaviour: Behaviour = "navigational"
    max_grade: int = 4
    shown: int = 10
    depth: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        check_scale(self.max_grade)
        check_positions("shown", self.shown)

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        """The clicked items, from the top."""
        which = self.behaviour, self.max_grade
        draws = rng.random((3, seen_positions(self.shown, len(ranking))))
        return Clicks(*walk_down(ranking, relevance, CLICK[which], STOP[which], 1.0, draws))

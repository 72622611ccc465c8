"""The dynamic Bayesian network model, simplified unless people lose patience."""

from __future__ import annotations

from typing import ClassVar

from numpy.random import Generator

from rankloop.core.registry import register
from rankloop.core.types import Clicks, Floats, Ints
from rankloop.feedback.click_behaviours import CLICK, STOP, Behaviour, check_scale, walk_down
from rankloop.feedback.click_model import check_positions, check_probability, seen_positions


@register("sdbn")
class Sdbn:
    """Clicks what attracts, stops when satisfied, and otherwise goes on to the next item with `persistence`.

    Attraction and satisfaction by grade are those of the `behaviour` on the scale 0 … `max_grade` (1, 2 or 4).
    With `persistence` = 1 it is the simplified model, which then coincides with `dcm`; below 1 it is the full one.
    Draws three doubles per place.
    Reference: Chapelle and Zhang (2009), A Dynamic Bayesian Network Click Model for Web Search Ranking.
    """

    behaviour: Behaviour = "navigational"
    persistence: float = 1.0
    max_grade: int = 4
    shown: int = 10
    depth: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        check_scale(self.max_grade)
        check_probability("persistence", self.persistence)
        check_positions("shown", self.shown)

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        """The clicked items, from the top."""
        which = self.behaviour, self.max_grade
        draws = rng.random((3, seen_positions(self.shown, len(ranking))))
        return Clicks(*walk_down(ranking, relevance, CLICK[which], STOP[which], self.persistence, draws))

"""People who grade every item."""

from typing import ClassVar

from numpy.random import Generator

from rankloop.core.registry import register
from rankloop.core.types import Floats, Ints, Relevances


@register("full")
class Full:
    """Grades of all items: the full information against which weaker feedback is judged. Draws nothing."""

    shown: ClassVar[int | None] = None
    depth: ClassVar[int | None] = None

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Relevances:
        """The grade of every item, in the order of the ranking."""
        return Relevances(ranking, relevance[ranking])

"""Users who grade items as they are: all of them, or the first of the ranking."""

from typing import ClassVar

from numpy.random import Generator

from rankloop.core.checks import check_at_least
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


@register("top_k")
class TopK:
    """Grades of the first `depth` items of the ranking, as they are. Draws nothing.

    Use it for raters who judge a few items: the learner must show an item near the top to learn about it.
    Reference: Chaudhuri and Tewari (2015), Online Ranking with Top-1 Feedback.
    """

    depth: int = 1
    shown: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        check_at_least(1, depth=self.depth)

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Relevances:
        """The grades of the items in the first `depth` positions."""
        items = ranking[: self.depth].copy()
        return Relevances(items, relevance[items])

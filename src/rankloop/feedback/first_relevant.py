"""People who click the first item that they take for relevant, and stop."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.random import Generator

from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Floats, Ints
from rankloop.feedback.click_model import check_places, check_probability, clicks_at, seen_places


@kernel
def _first(ranking: Ints, relevance: Floats, accuracy: float, draws: Floats) -> tuple[Ints, Floats]:
    clicked = np.zeros(len(draws), np.int64)
    for place in range(len(draws)):
        if (relevance[ranking[place]] > 0.0) == (draws[place] < accuracy):
            clicked[place] = 1
            break
    return clicks_at(ranking, clicked)


@register("first_relevant")
class FirstRelevant:
    """Reads from the top, clicks the first item judged relevant (a grade above 0), and stops.

    Each judgment is right with probability `accuracy`. Draws one double per place that could be read.
    Reference: Raman, Joachims, Shivaswamy and Schnabel (2013), Stable Coactive Learning via Perturbation, section 4.2.
    """

    accuracy: float = 0.8
    shown: int | None = None
    depth: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        check_probability("accuracy", self.accuracy)
        check_places("shown", self.shown)

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        """At most one click."""
        draws = rng.random(seen_places(self.shown, len(ranking)))
        return Clicks(*_first(ranking, relevance, self.accuracy, draws))

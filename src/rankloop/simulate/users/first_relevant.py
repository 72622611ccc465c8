"""People who click the first item that they take for relevant, and stop."""

from typing import ClassVar

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_positions, check_probability
from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Floats, Ints
from rankloop.simulate.users.click_model import clicks_at, seen_positions


@kernel
def _first(ranking: Ints, relevance: Floats, accuracy: float, draws: Floats) -> tuple[Ints, Floats]:
    clicked = np.zeros(len(draws), np.int64)
    for position in range(len(draws)):
        if (relevance[ranking[position]] > 0.0) == (draws[position] < accuracy):
            clicked[position] = 1
            break
    return clicks_at(ranking, clicked)


@register("first_relevant")
class FirstRelevant:
    """Reads from the top, clicks the first item judged relevant (a grade above 0), and stops.

    Each judgment is right with probability `accuracy`. Draws one double per position that could be read.
    Reference: Raman, Joachims, Shivaswamy and Schnabel (2013), Stable Coactive Learning via Perturbation, section 4.2.
    """

    accuracy: float = 0.8
    shown: int | None = None
    depth: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        check_probability("accuracy", self.accuracy)
        check_positions("shown", self.shown)

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        """At most one click."""
        draws = rng.random(seen_positions(self.shown, len(ranking)))
        return Clicks(*_first(ranking, relevance, self.accuracy, draws))

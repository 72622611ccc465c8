"""People who read from the top and click what they take for relevant."""

from typing import ClassVar

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_positions, check_probability
from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Floats, Ints
from rankloop.simulate.users.click_model import clicks_at, seen_positions


@kernel
def _read(ranking: Ints, relevance: Floats, noise: float, max_clicks: int, draws: Floats) -> tuple[Ints, Floats]:
    clicked = np.zeros(len(draws), np.int64)
    left = max_clicks
    for position in range(len(draws)):
        takes_for_relevant = (relevance[ranking[position]] > 0.0) != (draws[position] < noise)
        if takes_for_relevant and left > 0:
            clicked[position] = 1
            left -= 1
    return clicks_at(ranking, clicked)


@register("noisy_reader")
class NoisyReader:
    """Reads the first `shown` items and clicks up to `max_clicks` of them that seem relevant (a grade above 0).

    Each judgment is wrong with probability `noise`. Draws one double per position that is read.
    Reference: Raman, Joachims, Shivaswamy and Schnabel (2013), Stable Coactive Learning via Perturbation, section 8.
    """

    noise: float = 0.2
    shown: int = 10
    max_clicks: int = 5
    depth: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        check_probability("noise", self.noise)
        check_positions("shown", self.shown)
        check_positions("max_clicks", self.max_clicks)

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        """The clicked items, from the top."""
        draws = rng.random(seen_positions(self.shown, len(ranking)))
        return Clicks(*_read(ranking, relevance, self.noise, self.max_clicks, draws))

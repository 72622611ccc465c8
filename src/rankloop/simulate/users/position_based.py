"""The position-based model: whether people examine a position depends on the position alone."""

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_not_negative
from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Floats, Ints
from rankloop.simulate.users.click_behaviours import Behaviour, GradedClicks, of_grade
from rankloop.simulate.users.click_model import clicks_at, seen_positions


@kernel
def _examine_and_click(
    ranking: Ints, relevance: Floats, click: Floats, severity: float, draws: Floats
) -> tuple[Ints, Floats]:
    clicked = np.zeros(len(draws), np.int64)
    for position in range(len(draws)):
        examined = (1.0 / (position + 1)) ** severity
        clicked[position] = draws[position] < examined * of_grade(click, relevance[ranking[position]])
    return clicks_at(ranking, clicked)


@register("position_based")
class PositionBased(GradedClicks):
    """P(click at position p) = (1 / (p + 1))^`severity` · P(click | examined, grade), each position for itself.

    The second factor is that of the `behaviour` on the scale 0 … `max_grade` (1, 2 or 4). `severity` = 0 is no
    position bias. Draws one double per position. Use it where `propensities` must be known, as for inverse weighting.
    References: Richardson, Dominowska and Ragno (2007), Predicting Clicks; Joachims, Swaminathan and Schnabel (2017),
    Unbiased Learning-to-Rank with Biased Feedback.
    """

    behaviour: Behaviour = "navigational"
    severity: float = 1.0
    max_grade: int = 4
    shown: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative("severity", self.severity)

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        """The clicked items, from the top."""
        draws = rng.random(seen_positions(self.shown, len(ranking)))
        return Clicks(*_examine_and_click(ranking, relevance, self._click, self.severity, draws))

    def propensities(self, n_items: int) -> Floats:
        """The probability that each position is examined."""
        examined = np.power(1.0 / np.arange(1.0, n_items + 1.0), self.severity, dtype=np.float64)
        examined[seen_positions(self.shown, n_items) :] = 0.0
        return examined

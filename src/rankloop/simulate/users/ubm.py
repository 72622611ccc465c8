"""The user browsing model: whether people examine a position depends on how far back their last click is."""

import numpy as np
from numpy.random import Generator

from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Floats, Ints
from rankloop.simulate.users.click_behaviours import Behaviour, GradedClicks, of_grade
from rankloop.simulate.users.click_model import clicks_at, seen_positions

# Row p, column d − 1: the probability of examining position p when the last click was d positions above;
# the diagonal: when there was none. As published for the first ten positions.
EXAMINED = np.zeros((10, 10))
for _position, _row in enumerate(
    (
        (1.0,),
        (0.98, 1.0),
        (1.0, 0.62, 0.95),
        (1.0, 0.77, 0.42, 0.82),
        (1.0, 0.92, 0.55, 0.31, 0.69),
        (1.0, 0.96, 0.63, 0.4, 0.22, 0.54),
        (1.0, 0.99, 0.73, 0.46, 0.29, 0.17, 0.47),
        (1.0, 1.0, 0.89, 0.52, 0.35, 0.24, 0.14, 0.43),
        (1.0, 1.0, 0.95, 0.68, 0.4, 0.29, 0.19, 0.12, 0.41),
        (1.0, 1.0, 1.0, 0.96, 0.52, 0.36, 0.27, 0.18, 0.12, 0.43),
    )
):
    EXAMINED[_position, : len(_row)] = _row


@kernel
def examination_probability(table: Floats, position: int, last_click: int) -> float:
    """From the table; positions below it count as its last, longer ways back as its longest."""
    row = min(position, len(table) - 1)
    if last_click < 0:
        return float(table[row, row])
    return float(table[row, min(position - last_click, row) - 1])


@kernel
def _browse(ranking: Ints, relevance: Floats, click: Floats, table: Floats, draws: Floats) -> tuple[Ints, Floats]:
    clicked = np.zeros(len(draws), np.int64)
    last_click = -1
    for position in range(len(draws)):
        probability = examination_probability(table, position, last_click) * of_grade(
            click, relevance[ranking[position]]
        )
        if draws[position] < probability:
            clicked[position] = 1
            last_click = position
    return clicks_at(ranking, clicked)


@register("ubm")
class Ubm(GradedClicks):
    """P(click at position p) = P(examined | p, distance to the last click above) · P(click | examined, grade).

    The first factor is the published table, the second that of the `behaviour` on the scale 0 … `max_grade` (1, 2 or
    4). Draws one double per position. Use it for people who skip: a click makes the next positions likelier to be seen.
    Reference: Dupret and Piwowarski (2008), A User Browsing Model to Predict Search Engine Click Data from Past
    Observations.
    """

    behaviour: Behaviour = "navigational"
    max_grade: int = 4
    shown: int = 10

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        """The clicked items, from the top."""
        draws = rng.random(seen_positions(self.shown, len(ranking)))
        return Clicks(*_browse(ranking, relevance, self._click, EXAMINED, draws))

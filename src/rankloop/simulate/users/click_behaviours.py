"""How readily people click and how soon they are satisfied: the three published behaviours, by grade.

The probabilities of a click on an examined item, and of stopping after that click, for grades 0 … max_grade.
References: Hofmann, Whiteson and de Rijke (2011), A Probabilistic Method for Inferring Preferences from Clicks (two
grades); Oosterhuis and de Rijke (2018), Differentiable Unbiased Online Learning to Rank, table 1 (five grades) and its
published code (three grades).
"""

from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_positions
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.types import Clicks, Floats, Ints
from rankloop.simulate.users.click_model import clicks_at, seen_positions

Behaviour = Literal["perfect", "navigational", "informational"]

_CLICK_AND_STOP: dict[tuple[str, int], tuple[tuple[float, ...], tuple[float, ...]]] = {
    ("perfect", 1): ((0.0, 1.0), (0.0, 0.0)),
    ("navigational", 1): ((0.05, 0.95), (0.2, 0.9)),
    ("informational", 1): ((0.4, 0.9), (0.1, 0.5)),
    ("perfect", 2): ((0.0, 0.5, 1.0), (0.0, 0.0, 0.0)),
    ("navigational", 2): ((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
    ("informational", 2): ((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
    ("perfect", 4): ((0.0, 0.2, 0.4, 0.8, 1.0), (0.0, 0.0, 0.0, 0.0, 0.0)),
    ("navigational", 4): ((0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
    ("informational", 4): ((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
}
CLICK = {key: np.array(click) for key, (click, _) in _CLICK_AND_STOP.items()}
STOP = {key: np.array(stop) for key, (_, stop) in _CLICK_AND_STOP.items()}

N_DRAWS = 3  # doubles that a reader takes for each position


def check_scale(max_grade: int) -> None:
    """Refuse a scale for which no parameters were published."""
    scales = sorted({scale for _, scale in CLICK})
    if max_grade not in scales:
        raise InvalidInput(f"max_grade = {max_grade}: published behaviours have grades up to {scales}")


@kernel
def of_grade(by_grade: Floats, grade: float) -> float:
    """The entry of a grade; grades beyond the scale count as its ends."""
    return float(by_grade[max(0, min(int(grade), len(by_grade) - 1))])


@kernel
def walk_down(
    ranking: Ints, relevance: Floats, click: Floats, stop: Floats, persistence: float, draws: Floats
) -> tuple[Ints, Floats]:
    """Examine position after position; click by grade; after a click stop by grade; else go on with `persistence`.

    Row 0 of the draws decides the clicks, row 1 who is satisfied, row 2 who loses patience.
    """
    clicked = np.zeros(draws.shape[1], np.int64)
    for position in range(len(clicked)):
        grade = relevance[ranking[position]]
        if draws[0, position] < of_grade(click, grade):
            clicked[position] = 1
            if draws[1, position] < of_grade(stop, grade):
                break
        if draws[2, position] >= persistence:
            break
    return clicks_at(ranking, clicked)


class GradedClicks:
    """People who click by the grade of what they examine, as their `behaviour` says on the scale 0 … `max_grade`."""

    behaviour: Behaviour
    max_grade: int
    shown: int
    depth: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        check_scale(self.max_grade)
        check_positions("shown", self.shown)

    @property
    def _click(self) -> Floats:
        return CLICK[self.behaviour, self.max_grade]


class TopDownReader(GradedClicks):
    """People who read from the top and stop at some click, or when they lose patience."""

    persistence: float = 1.0

    @property
    def _stop(self) -> Floats:
        return STOP[self.behaviour, self.max_grade]

    @property
    def behaviour_by_grade(self) -> tuple[Floats, Floats, float]:
        """The probabilities of a click and of stopping after it, by grade, and of going on."""
        return self._click, self._stop, self.persistence

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        """The clicked items, from the top."""
        draws = rng.random((N_DRAWS, seen_positions(self.shown, len(ranking))))
        return Clicks(*walk_down(ranking, relevance, *self.behaviour_by_grade, draws))

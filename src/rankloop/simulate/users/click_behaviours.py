"""Published click behaviours by grade, and what users who click have in common.

The probabilities of a click on an examined item, and of stopping after that click, for grades 0 … max_grade.
References: Hofmann, Whiteson and de Rijke (2011), A Probabilistic Method for Inferring Preferences from Clicks (two
grades); Oosterhuis and de Rijke (2018), Differentiable Unbiased Online Learning to Rank, table 1 (five grades) and its
published code (three grades).
"""

from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator

from rankloop.click_models.base import ClickModel
from rankloop.click_models.kernels import ClickParameters, draw_clicks
from rankloop.core.checks import check_positions
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.types import Clicks, Floats, Ints

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

N_DRAWS = 3  # doubles for each position, of users who may stop


@kernel
def clicks_at(ranking: Ints, clicked: Ints) -> tuple[Ints, Floats]:
    """Return the items in the positions where `clicked` is not 0, in shown order, each with weight 1."""
    n_clicks = 0
    for position in range(len(clicked)):
        n_clicks += clicked[position] != 0
    items = np.empty(n_clicks, np.int64)
    i = 0
    for position in range(len(clicked)):
        if clicked[position] != 0:
            items[i] = ranking[position]
            i += 1
    return items, np.ones(n_clicks)


def seen_positions(shown: int | None, n_items: int) -> int:
    """Return how many of n_items positions these users can examine."""
    return n_items if shown is None or shown > n_items else shown


@kernel
def clicks_by_grade(
    attraction: Floats,
    satisfaction: Floats,
    examination: Floats,
    stop: Floats,
    persistence: float,
    ranking: Ints,
    relevance: Floats,
    draws: Floats,
) -> tuple[Ints, Floats]:
    """Draw clicks of users for whom items of a grade are alike; grades beyond the scale count as its ends.

    Takes the numbers one by one: a tuple of them would cost 2 µs per call.
    """
    grades = np.empty(draws.shape[1], np.int64)
    for position in range(len(grades)):
        grade = int(relevance[ranking[position]])
        grades[position] = max(0, min(grade, len(attraction) - 1))
    parameters = ClickParameters(attraction, satisfaction, examination, stop, persistence)
    return clicks_at(ranking, draw_clicks(parameters, grades, draws))


class GradedClicks:
    """Users who click by the grade of what they examine, as their `behaviour` says on the scale 0 … `max_grade`."""

    behaviour: Behaviour
    max_grade: int
    shown: int
    depth: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        scales = sorted({scale for _, scale in CLICK})
        if self.max_grade not in scales:
            raise InvalidInput(f"max_grade = {self.max_grade}: published behaviours have grades up to {scales}")
        check_positions("shown", self.shown)

    @cached_property
    def model(self) -> ClickModel:
        """The click model that they follow, its pairs being the grades."""
        raise NotImplementedError

    @cached_property
    def _parameters(self) -> ClickParameters:
        return self.model.parameters

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        """The clicked items, from the top."""
        n_draws, numbers = 1 if self.model.browsing else N_DRAWS, self._parameters
        draws = rng.random((n_draws, seen_positions(self.shown, len(ranking))))
        items, weights = clicks_by_grade(
            numbers.attraction,
            numbers.satisfaction,
            numbers.examination,
            numbers.stop,
            numbers.persistence,
            ranking,
            relevance,
            draws,
        )
        return Clicks(items, weights)

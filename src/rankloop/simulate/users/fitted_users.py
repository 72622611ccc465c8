"""Users whose numbers come from a log: any click model that `rankloop fit-users` fits."""

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from rankloop.click_models.base import ClickParameters, ClickRows, ModelName, draw_clicks, examined_whatever_clicks
from rankloop.click_models.models import MODELS
from rankloop.core.checks import PositiveCount, Probability, check_probability
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import Examples, register
from rankloop.core.types import Clicks, Floats, Ints
from rankloop.simulate.users.click_users import N_DRAWS, clicks_at

USUAL_EXAMINATION = ((1.0,), (0.6,), (0.4,), (0.3,), (0.25,), (0.2,), (0.17,), (0.14,), (0.12,), (0.1,))
USUAL_STOP = (0.5,)


@register("fitted_users")
class FittedUsers:
    """Users as a click model describes those of a log; `rankloop fit-users` writes this spec.

    pbm and ubm: P(click at p) = examination(p, d) · attraction, d being the way back to the last click; the first
    column is for no click above (pbm: the only one). cascade, dcm, sdbn and dbn read from the top; after a click they
    stop with stop[p] (cascade: 1, dcm) or by `satisfaction` (sdbn, dbn), and go on otherwise with `persistence` (dbn).
    `attraction` and `satisfaction` are by grade 0, 1, …; with `by_grade` = false the relevance of a stream is the
    attraction itself, and satisfaction is read off between the levels. Draws three doubles per position.
    References: Chuklin, Markov and de Rijke (2015), Click Models for Web Search.
    """

    model: ModelName = "pbm"
    attraction: tuple[float, ...] = (0.05, 0.3, 0.5, 0.7, 0.95)
    satisfaction: tuple[float, ...] = ()
    examination: tuple[tuple[float, ...], ...] = ()
    stop: tuple[float, ...] = ()
    persistence: Probability = 1.0
    by_grade: bool = True
    shown: PositiveCount = 10
    depth: ClassVar[int | None] = None

    examples: ClassVar[Examples] = (
        {"model": "ubm", "examination": [[1.0, 1.0], [0.6, 0.9], [0.4, 0.7]], "attraction": [0.1, 0.9]},
        {"model": "dbn", "satisfaction": [0.1, 0.2, 0.4, 0.6, 0.9], "persistence": 0.9},
        {"model": "dcm", "stop": [0.3, 0.5, 0.6], "by_grade": False},
    )

    def __post_init__(self) -> None:
        rows = self.examination
        if not self.attraction or any(len(row) != len(rows[0]) or not row for row in rows):
            raise InvalidInput("attraction must have at least one number, and all rows of examination equally many")
        if self.satisfaction and len(self.satisfaction) != len(self.attraction):
            raise InvalidInput("satisfaction must have as many numbers as attraction")
        examination = tuple(value for row in rows for value in row)
        lists = {"attraction": self.attraction, "satisfaction": self.satisfaction, "stop": self.stop}
        for name, values in (lists | {"examination": examination}).items():
            for value in values:
                check_probability(**{name: value})

    @cached_property
    def by_level(self) -> ClickParameters:
        """The numbers of the click model, its pairs being the levels of attraction."""
        cls = MODELS[self.model]
        numbers = {"examination": self.examination or USUAL_EXAMINATION, "satisfaction": self.satisfaction}
        numbers |= {"stop": self.stop or USUAL_STOP}
        values: dict[str, Any] = {name: np.array(numbers[name]) for name in numbers if name in cls.numbers}
        persistence = 1.0 if cls.browsing else self.persistence
        return cls(attraction=np.array(self.attraction), persistence=persistence, **values).parameters

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        parameters, pair = self._page(ranking[: self.shown], relevance)
        items, weights = clicks_at(ranking, draw_clicks(parameters, pair, rng.random((N_DRAWS, len(pair)))))
        return Clicks(items, weights)

    def click_probabilities(self, ranking: Ints, relevance: Floats) -> Floats:
        """The probability that each position is clicked; 0 for those that nobody sees."""
        parameters, pair = self._page(ranking[: self.shown], relevance)
        clicks, n_seen = np.zeros(len(ranking)), len(pair)
        rows = ClickRows(np.array([0, n_seen]), pair, np.arange(n_seen), clicks[:n_seen])
        clicks[:n_seen] = examined_whatever_clicks(parameters, rows) * parameters.attraction[pair]
        return clicks

    def _page(self, items: Ints, relevance: Floats) -> tuple[ClickParameters, Ints]:
        """The numbers of the model and the pair of each shown item: its grade, or the item itself."""
        by_level, grades = self.by_level, relevance[items]
        if self.by_grade:
            return by_level, np.clip(grades.astype(np.int64), 0, len(by_level.attraction) - 1)
        attraction, satisfaction = np.clip(grades, 0.0, 1.0), np.zeros(len(items))
        if self.satisfaction:
            satisfaction = np.interp(attraction, by_level.attraction, by_level.satisfaction)
        return by_level._replace(attraction=attraction, satisfaction=satisfaction), np.arange(len(items))

"""People whose numbers come from a log: one walk for all click models that `rankloop fit-users` fits."""

from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_positions, check_probability
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.registry import Spec, register
from rankloop.core.types import Clicks, Floats, Ints
from rankloop.simulate.users.click_model import clicks_at, seen_positions

ModelName = Literal["pbm", "ubm", "cascade", "dcm", "sdbn", "dbn"]
BROWSING = ("pbm", "ubm")  # examination by position; in the others people read from the top and stop
N_DRAWS = 3  # doubles for each position
USUAL = ((1.0,), (0.6,), (0.4,), (0.3,), (0.25,), (0.2,), (0.17,), (0.14,), (0.12,), (0.1,))


@kernel
def examined_after(table: Floats, position: int, last_click: int) -> float:
    """The probability that a position is examined: row by position, column by the way back to the last click.

    The first column is for no click above; a table of one column goes by the position alone. What lies beyond the
    table counts as its end.
    """
    row = min(position, table.shape[0] - 1)
    way = 0 if last_click < 0 else position - last_click
    return float(table[row, min(way, table.shape[1] - 1)])


@kernel
def browsing_probabilities(position: Ints, attraction: Floats, table: Floats) -> Floats:
    """P(click) of each row of a page, whatever was clicked above: a sum over where the last click was."""
    n_rows = len(position)
    clicks, last = np.zeros(n_rows), np.zeros(n_rows + 1)  # last[r]: P(the last click was in row r − 1); 0: none
    last[0] = 1.0
    for row in range(n_rows):
        hit = 0.0
        for before in range(row + 1):
            at = position[before - 1] if before > 0 else -1
            p = examined_after(table, position[row], at) * attraction[row]
            hit += last[before] * p
            last[before] *= 1.0 - p
        clicks[row] = hit
        last[row + 1] = hit
    return clicks


@kernel
def reading_probabilities(attraction: Floats, stop: Floats, persistence: float) -> Floats:
    """P(click) of each row of a page for people who read from the top and stop after a click with `stop`."""
    clicks, examined = np.zeros(len(attraction)), 1.0
    for row in range(len(attraction)):
        clicks[row] = examined * attraction[row]
        examined *= persistence * (1.0 - attraction[row] * stop[row])
    return clicks


@kernel
def _walk(
    ranking: Ints, attraction: Floats, stop: Floats, table: Floats, persistence: float, browsing: bool, draws: Floats
) -> tuple[Ints, Floats]:
    clicked = np.zeros(draws.shape[1], np.int64)
    last_click = -1
    for position in range(len(clicked)):
        examined = examined_after(table, position, last_click) if browsing else 1.0
        if draws[0, position] < examined * attraction[position]:
            clicked[position] = 1
            last_click = position
            if not browsing and draws[1, position] < stop[position]:
                break
        if not browsing and draws[2, position] >= persistence:
            break
    return clicks_at(ranking, clicked)


@register("fitted_users")
class FittedUsers:
    """People as a click model describes those of a log; `rankloop fit-users` writes this spec.

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
    persistence: float = 1.0
    by_grade: bool = True
    shown: int = 10
    depth: ClassVar[int | None] = None

    examples: ClassVar[tuple[Spec, ...]] = (
        {"model": "ubm", "examination": [[1.0, 1.0], [0.6, 0.9], [0.4, 0.7]], "attraction": [0.1, 0.9]},
        {"model": "dbn", "satisfaction": [0.1, 0.2, 0.4, 0.6, 0.9], "persistence": 0.9},
        {"model": "dcm", "stop": [0.3, 0.5, 0.6], "by_grade": False},
    )

    def __post_init__(self) -> None:
        check_positions("shown", self.shown)
        check_probability("persistence", self.persistence)
        rows = self.examination
        if not self.attraction or any(len(row) != len(rows[0]) or not row for row in rows):
            raise InvalidInput("attraction needs a level, and the rows of examination equally many numbers")
        if self.satisfaction and len(self.satisfaction) != len(self.attraction):
            raise InvalidInput("satisfaction needs as many levels as attraction")
        for name, values in (
            ("attraction", self.attraction),
            ("satisfaction", self.satisfaction),
            ("examination", [value for row in rows for value in row]),
            ("stop", self.stop),
        ):
            for value in values:
                check_probability(name, value)

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        """The clicked items, from the top."""
        seen = seen_positions(self.shown, len(ranking))
        draws = rng.random((N_DRAWS, seen))
        attraction, stop = self._of_page(ranking[:seen], relevance)
        return Clicks(*_walk(ranking, attraction, stop, self._table, self.persistence, self.model in BROWSING, draws))

    def click_probabilities(self, ranking: Ints, relevance: Floats) -> Floats:
        """The probability that each position is clicked; 0 for those that nobody sees."""
        seen = seen_positions(self.shown, len(ranking))
        attraction, stop = self._of_page(ranking[:seen], relevance)
        clicks = np.zeros(len(ranking))
        if self.model in BROWSING:
            clicks[:seen] = browsing_probabilities(np.arange(seen), attraction, self._table)
        else:
            clicks[:seen] = reading_probabilities(attraction, stop, self.persistence)
        return clicks

    @property
    def _table(self) -> Floats:
        return np.array(self.examination or USUAL)

    def _of_page(self, items: Ints, relevance: Floats) -> tuple[Floats, Floats]:
        """How attractive each shown item is, and the probability to stop after a click on it."""
        grades = relevance[items]
        levels = np.array(self.attraction)
        if self.by_grade:
            numbers = np.clip(grades.astype(np.int64), 0, len(levels) - 1)
            attraction: Floats = levels[numbers]
        else:
            attraction = np.clip(grades, 0.0, 1.0)
        if self.model == "cascade":
            return attraction, np.ones(len(items))
        if self.model == "dcm":
            by_position = np.array(self.stop or (0.5,))
            return attraction, by_position[np.minimum(np.arange(len(items)), len(by_position) - 1)]
        if not self.satisfaction or self.model in BROWSING:
            return attraction, np.zeros(len(items))
        if self.by_grade:
            return attraction, np.array(self.satisfaction)[numbers]
        stop: Floats = np.interp(attraction, levels, np.array(self.satisfaction))
        return attraction, stop

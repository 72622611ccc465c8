"""The matrices of a game as text and as plain lists, and which rankings are neighbours in it."""

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.games.enumeration import classes_of, scaled
from rankloop.games.game import Game
from rankloop.games.neighbours import Witness, border
from rankloop.games.numbers import DENOMINATOR, ROUNDING, SAME

Progress = Callable[[int, int], None]  # steps done, of how many


def neighbours_of(game: Game, row: int = 0, progress: Progress | None = None) -> list[int]:
    """The rows of the neighbours of a ranking: their cells share a border. A linear program per class."""
    classes = classes_of(game)
    found = []
    for c in range(1, len(classes.rows)):
        if isinstance(border(classes.differences, c, classes.first), Witness):
            found.append(c)
        if progress is not None:
            progress(c, len(classes.rows) - 1)
    of_first = np.flatnonzero(np.isin(game.duplicates, found))
    return sorted(game.action(game.rankings[row][game.rankings[neighbour]]) for neighbour in of_first)


def matrices_of(game: Game, depth: int, progress: Progress | None = None) -> dict[str, Any]:
    """The game in plain lists: its rankings and relevances, values and feedback, and the neighbours of 0, 1, 2, …"""
    neighbours = neighbours_of(game, progress=progress)
    return {
        "rankings": game.rankings.tolist(),
        "relevances": game.relevances.tolist(),
        "values": game.values.tolist(),
        "feedback": game.feedback(depth).tolist(),
        "neighbours_of_first": neighbours,
        "neighbourhood_sets": {str(row): neighbourhood_of(game, 0, row) for row in neighbours},
    }


def neighbourhood_of(game: Game, first: int, second: int) -> list[int]:
    """N⁺ of two neighbours: the rows of all rankings whose loss row lies on the segment between theirs."""
    rows = scaled(game.loss)
    along = rows[second] - rows[first]
    if np.abs(along).max() < SAME:
        raise InvalidInput("the two rankings have equal loss rows: duplicates are not neighbours of each other")
    steps = (rows - rows[first]) @ along / (along @ along)
    off = np.abs(rows - rows[first] - np.outer(steps, along)).max(axis=1)
    inside = (off < SAME) & (steps > -SAME) & (steps < 1.0 + SAME)
    return [int(row) for row in np.flatnonzero(inside)]


class Grid(NamedTuple):
    """A matrix as text; the first column names the row."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def loss_grid(game: Game) -> Grid:
    """The measure of every ranking (as the ranks of the items, from 1) for every relevance."""
    return _grid(game, [[_number(value) for value in row] for row in game.values])


def feedback_grid(game: Game, depth: int) -> Grid:
    """What every ranking reveals of every relevance: the grades of its first items."""
    seen: Ints = game.relevances[:, game.rankings[:, :depth]].transpose(1, 0, 2)
    return _grid(game, [["".join(map(str, grades)) for grades in row] for row in seen])


def signal_grid(game: Game, row: int, depth: int) -> Grid:
    """The signal matrix of one ranking: which relevances answer with which grades."""
    signals = game.signals(row, depth)
    names = [np.base_repr(i, game.max_grade + 1).zfill(min(depth, game.n_items)) for i in range(len(signals))]
    return Grid(("grades seen", *_relevances(game)), [(name, *map(str, line)) for name, line in zip(names, signals)])


def ranks_of(game: Game, row: int) -> str:
    """A ranking as the papers write it: the rank of every item, from 1."""
    return "".join(str(rank + 1) for rank in game.ranks[row])


def _grid(game: Game, cells: Iterable[Iterable[str]]) -> Grid:
    rows = [(ranks_of(game, row), *line) for row, line in enumerate(cells)]
    return Grid(("ranks", *_relevances(game)), rows)


def _relevances(game: Game) -> list[str]:
    return ["".join(map(str, row)) for row in game.relevances]


def _number(value: Floats) -> str:
    fraction = Fraction(float(value)).limit_denominator(DENOMINATOR)
    if abs(float(fraction) - value) < ROUNDING and fraction.denominator < 1000:
        return str(fraction)
    return f"{value:.4f}"

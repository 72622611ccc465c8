"""The matrices of a game as text, and the neighbours of its rankings."""

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.games.enumeration import Combination, border, classes_of, scaled
from rankloop.games.game import EQUALITY_TOLERANCE, Game
from research.games.exact_proofs import MAX_DENOMINATOR, ROUNDING_ERROR


def neighbours_of(game: Game, row: int = 0) -> list[int]:
    """Return the rows of the rankings that share a border with a ranking; solves a linear program per class.

    Args:
      game: The game.
      row: The row of the ranking.
    """
    classes = classes_of(game)
    numbers = range(1, len(classes.rows))
    adjacent = [c for c in numbers if not isinstance(border(classes.differences, c, classes.first), Combination)]
    of_first = np.flatnonzero(np.isin(game.duplicates, adjacent))
    return sorted(game.action(game.rankings[row][game.rankings[neighbour]]) for neighbour in of_first)


def neighbourhood_of(game: Game, first: int, second: int) -> list[int]:
    """Return N⁺ of two neighbours: the rows of all rankings whose loss row lies on the segment between theirs.

    Args:
      game: The game.
      first: The row of a ranking.
      second: The row of its neighbour.
    """
    rows = scaled(game.loss)
    along = rows[second] - rows[first]
    if np.abs(along).max() < EQUALITY_TOLERANCE:
        raise InvalidInput("the two rankings have equal loss rows: duplicates are not neighbours of each other")
    steps = (rows - rows[first]) @ along / (along @ along)
    off = np.abs(rows - rows[first] - np.outer(steps, along)).max(axis=1)
    inside = (off < EQUALITY_TOLERANCE) & (steps > -EQUALITY_TOLERANCE) & (steps < 1.0 + EQUALITY_TOLERANCE)
    return [int(row) for row in np.flatnonzero(inside)]


class Grid(NamedTuple):
    """Matrix as text; the first column names the row."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def loss_grid(game: Game) -> Grid:
    """Return the value of every ranking (as the ranks of the items, from 1) for every relevance."""
    return _grid(game, [[_number(value) for value in row] for row in game.values])


def feedback_grid(game: Game, depth: int) -> Grid:
    """Return the grades of the first items of every ranking, for every relevance.

    Args:
      game: The game.
      depth: The number of top items whose grades come back.
    """
    revealed: Ints = game.relevances[:, game.rankings[:, :depth]].transpose(1, 0, 2)
    return _grid(game, [["".join(map(str, grades)) for grades in row] for row in revealed])


def signal_matrix(game: Game, row: int, depth: int) -> Ints:
    """Return the signal matrix of a ranking: entry (s, r) is 1 where relevance r gives feedback s.

    Args:
      game: The game.
      row: The row of the ranking.
      depth: The number of top items whose grades come back.
    """
    n_signals = (game.max_grade + 1) ** min(depth, game.n_items)
    return np.asarray(np.arange(n_signals)[:, None] == game.feedback(depth)[row], dtype=np.int64)


def signal_grid(game: Game, row: int, depth: int) -> Grid:
    """Return the signal matrix of a ranking as text.

    Args:
      game: The game.
      row: The row of the ranking.
      depth: The number of top items whose grades come back.
    """
    signals = signal_matrix(game, row, depth)
    names = [np.base_repr(i, game.max_grade + 1).zfill(min(depth, game.n_items)) for i in range(len(signals))]
    return Grid(("grades seen", *_relevances(game)), [(name, *map(str, line)) for name, line in zip(names, signals)])


def ranks_of(game: Game, row: int) -> str:
    """Return a ranking as the papers write it: the rank of every item, from 1.

    Args:
      game: The game.
      row: The row of the ranking.
    """
    return "".join(str(rank + 1) for rank in game.ranks[row])


def _grid(game: Game, cells: Iterable[Iterable[str]]) -> Grid:
    rows = [(ranks_of(game, row), *line) for row, line in enumerate(cells)]
    return Grid(("ranks", *_relevances(game)), rows)


def _relevances(game: Game) -> list[str]:
    return ["".join(map(str, row)) for row in game.relevances]


def _number(value: Floats) -> str:
    fraction = Fraction(float(value)).limit_denominator(MAX_DENOMINATOR)
    if abs(float(fraction) - value) < ROUNDING_ERROR and fraction.denominator < 1000:
        return str(fraction)
    return f"{value:.4f}"

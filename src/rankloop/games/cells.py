"""Cells, Pareto-optimal actions, neighbours and neighbourhood action sets."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats
from rankloop.games.game import Game
from rankloop.games.neighbours import Witness, border
from rankloop.games.thresholds.enumeration import classes_of
from rankloop.games.thresholds.interactions import scaled
from rankloop.games.thresholds.numbers import SAME

Progress = Callable[[int, int], None]  # steps done, of how many


def best_under(game: Game, probabilities: Floats) -> list[int]:
    """The rows of the rankings with the least expected loss: those whose cells hold this distribution."""
    p = np.asarray(probabilities, dtype=np.float64)
    if p.shape != (len(game.relevances),) or (p < 0.0).any() or abs(p.sum() - 1.0) > SAME:
        raise InvalidInput(f"probabilities must be {len(game.relevances)} numbers from 0 on that sum to 1")
    expected = scaled(game.loss) @ p
    return [int(row) for row in np.flatnonzero(expected <= expected.min() + SAME)]


def pareto_optimal(game: Game) -> list[int]:
    """The rows of the rankings that are best somewhere, in a cell of full dimension.

    The cells of all rankings cover the distributions, so that one has full dimension; renaming the items turns it into
    every other. Hence all are, and none is degenerate.
    """
    return list(range(len(game.rankings)))


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


def cell_of(game: Game, row: int = 0) -> Floats:
    """The inequalities that make the cell of a ranking: it holds the distributions p with `cell_of(…) @ p ≥ 0`."""
    inequalities: Floats = game.loss[neighbours_of(game, row)] - game.loss[row]
    return inequalities


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

"""A certificate in words, and the matrices of a game as text."""

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from rankloop.core.types import Floats, Ints
from rankloop.games.analysis import Analysis
from rankloop.games.game import Game
from rankloop.games.thresholds.base import AllEqual, Border, Unseen
from rankloop.games.thresholds.numbers import DENOMINATOR, ROUNDING


class Grid(NamedTuple):
    """A matrix as text; the first column names the row."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def reason(analysis: Analysis) -> str:
    """Why the verdict is what it is, in one or two sentences."""
    proof = analysis.certificate
    if isinstance(proof, AllEqual):
        return "Every ranking is worth the same, whatever the grades."
    if isinstance(proof, Unseen):
        return (
            f"Which of the rankings {_order(proof.first)} and {_order(proof.second)} is better depends on "
            f"{_grades(proof.items)}, but no ranking reveals more than {analysis.depth} of them at once."
        )
    if isinstance(proof, Border):
        return (
            f"There are people for whom {_order(proof.first)} and {_order(proof.second)} tie for the best; to "
            f"decide between them takes {_grades(proof.items)}, which neither of the two reveals. Rounds must be spent "
            f"on rankings that are known to be worse."
        )
    return "Whichever rankings compete for the best place, showing those already reveals which of them is better."


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


def _order(order: tuple[int, ...]) -> str:
    if len(order) <= 8:
        return "[" + ", ".join(map(str, order)) + "]"
    return "[" + ", ".join(map(str, order[:6])) + ", …]"


def _grades(items: tuple[int, ...]) -> str:
    if len(items) == 1:
        return f"the grade of item {items[0]}"
    if len(items) > 6:
        return f"the grades of {len(items)} items ({', '.join(map(str, items[:4]))}, …) taken together"
    return f"the grades of items {', '.join(map(str, items[:-1]))} and {items[-1]} taken together"

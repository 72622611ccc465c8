"""The definitions of partial monitoring, word for word and slowly: the oracle of the verdicts."""

from __future__ import annotations

from functools import cache

import flint
import numpy as np
from scipy.optimize import linprog

from rankloop.games import Game
from rankloop.games.enumeration import scaled
from rankloop.games.game import EQUALITY_TOLERANCE
from research.games.exact_proofs import common_integers
from research.games.matrices import signal_matrix

NOTHING = 1e-7


def verdicts(game: Game, pairs_of: tuple[int, ...] | None = None) -> list[str]:
    """At every depth: observability by ranks of signal matrices, over the pairs of some rankings with all others.

    Without `pairs_of` over all pairs. Who is a neighbour of whom is the same at every depth, and computed once.
    """
    losses = game.loss / (np.abs(game.loss).max() or 1.0)
    actions = range(len(losses))
    if all(same(losses[0], losses[j]) for j in actions):
        return ["trivial"] * game.n_items
    pairs = [(i, j) for i in (actions if pairs_of is None else pairs_of) for j in actions]
    neighbours = cache(lambda i, j: are_neighbours(losses, i, j))
    whole = common_integers(game.in_shown_order)

    def verdict(depth: int) -> str:
        signals = [signal_matrix(game, i, depth) for i in actions]
        if not in_span(game, whole, np.vstack(signals), pairs):
            return "hopeless"
        for i, j in pairs:
            if neighbours(i, j):
                shown = np.vstack([signals[k] for k in actions if on_segment(losses, i, j, k)])
                if not in_span(game, whole, shown, [(i, j)]):
                    return "two_thirds"
        return "sqrt"

    return [verdict(depth) for depth in range(1, game.n_items + 1)]


def are_neighbours(losses: np.ndarray, i: int, j: int) -> bool:
    """Whether the cells of i and j meet in a face of codimension 1: an interior point with all others worse."""
    if same(losses[i], losses[j]):
        return False
    others = [k for k in range(len(losses)) if not on_segment(losses, i, j, k)]
    n = losses.shape[1]
    rows = [np.append(losses[i] - losses[k], 1.0) for k in others]
    rows += [np.append(-np.eye(n)[r], 1.0) for r in range(n)]
    equal = np.vstack((np.append(losses[i] - losses[j], 0.0), np.append(np.ones(n), 0.0)))
    found = linprog(np.append(np.zeros(n), -1.0), np.vstack(rows), np.zeros(len(rows)), equal, [0.0, 1.0],
                    bounds=[(None, None)] * (n + 1))  # fmt: skip
    return bool(found.status == 0 and -found.fun > NOTHING)


def on_segment(losses: np.ndarray, i: int, j: int, k: int) -> bool:
    along, towards = losses[j] - losses[i], losses[k] - losses[i]
    step = float(along @ towards / (along @ along))
    return -NOTHING <= step <= 1 + NOTHING and bool(np.abs(towards - step * along).max() < NOTHING)


def same(row: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.abs(row - other).max() < NOTHING)


def in_span(game: Game, whole: np.ndarray | None, signals: np.ndarray, pairs: list[tuple[int, int]]) -> bool:
    """Whether ℓ_i − ℓ_j of all pairs are combinations of rows of signals: exactly for rational measures."""
    rows = np.unique(signals, axis=0)
    if whole is None:
        known = np.linalg.matrix_rank(rows)
        differences = (game.loss[i] - game.loss[j] for i, j in pairs)
        scaled = (difference / (np.abs(difference).max() or 1.0) for difference in differences)
        return all(np.linalg.matrix_rank(np.vstack((rows, each)), tol=1e-9) == known for each in scaled)
    known = rank(rows)
    exact = (whole[game.shown_relevance[i]] - whole[game.shown_relevance[j]] for i, j in pairs)
    return all(rank(np.vstack((rows, each))) == known for each in exact)


def rank(rows: np.ndarray) -> int:
    return int(flint.fmpz_mat([[int(value) for value in row] for row in rows]).rank())


def best_under(game: Game, probabilities: np.ndarray) -> list[int]:
    """The rows of the rankings with the least expected loss: those whose cells hold this distribution."""
    expected = scaled(game.loss) @ probabilities
    return [int(row) for row in np.flatnonzero(expected <= expected.min() + EQUALITY_TOLERANCE)]

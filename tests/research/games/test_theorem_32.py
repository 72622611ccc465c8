"""The printed pair of distributions: what it looks like, and that no ranking is best for both."""

from math import log2

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankloop.games import Game, twins
from rankloop.games.game import measure_for
from research.games.theorem_32 import theorem_32
from tests.games.brute_force import best_under


def test_the_pair_of_theorem_32() -> None:
    """Table B.1 of the thesis, and the numbers that it gives for it."""
    pair = theorem_32()
    mean = pair.relevances.T @ np.column_stack((pair.first, pair.second))
    assert_allclose(mean, np.array([[0.45, 0.45, 0.4]] * 2).T)
    ideal = {0: np.inf, 1: 1.0, 2: 1 + 1 / log2(3), 3: 1 + 1 / log2(3) + 1 / 2}
    gains = pair.relevances / np.array([ideal[int(total)] for total in pair.relevances.sum(axis=1)])[:, None]
    assert_allclose(gains.T @ pair.first, [0.3533, 0.3920, 0.3226], atol=5e-5)
    assert_allclose(gains.T @ pair.second, [0.3339, 0.3339, 0.4000], atol=5e-5)
    game = Game(measure=measure_for("nDCG"), n_items=3)
    assert [game.rankings[row].tolist() for row in best_under(game, pair.first)] == [[1, 0, 2]]
    assert sorted(game.rankings[row].tolist() for row in best_under(game, pair.second)) == [[2, 0, 1], [2, 1, 0]]
    assert pair.gap == pytest.approx(game.gap_between(pair.first, pair.second))
    assert 0 < pair.gap < twins("nDCG", 3, 1).gap

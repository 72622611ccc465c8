"""The pair of distributions that the thesis prints for Theorem 32."""

import numpy as np

from rankloop.games.game import Game, measure_for
from rankloop.games.hopeless import Twins


def theorem_32() -> Twins:
    """The pair that proves Theorem 32 of Chaudhuri's thesis.

    Three items, grades 0 and 1, nDCG, top-1: the mean grades are (0.45, 0.45, 0.4) both times, but ranking by expected
    gain over ideal gain puts item 1 first under `first` and item 2 first under `second`. Hence also no surrogate that
    is calibrated for nDCG can be learned from the grade of the first item. Chaudhuri (2016), "Learning to Rank: Online
    Learning, Statistical Theory and Applications", table B.1.
    """
    printed: dict[tuple[int, ...], tuple[float, float]] = {
        (0, 0, 0): (0.0, 0.0),
        (1, 1, 0): (0.1, 0.3),
        (1, 0, 1): (0.15, 0.0),
        (0, 1, 1): (0.05, 0.0),
        (1, 0, 0): (0.2, 0.15),
        (0, 1, 0): (0.3, 0.15),
        (0, 0, 1): (0.2, 0.4),
        (1, 1, 1): (0.0, 0.0),
    }
    game = Game(measure=measure_for("nDCG"), n_items=3)
    first, second = np.array([printed[tuple(map(int, row))] for row in game.relevances]).T
    return Twins(game.relevances, first, second, game.gap_between(first, second))

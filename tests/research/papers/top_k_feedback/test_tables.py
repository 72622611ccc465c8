"""Tests of the printed tables of the top-k feedback game."""

import numpy as np

from rankloop.games import Game
from research.games.matrices import loss_grid
from research.papers.top_k_feedback import tables


def test_the_printed_tables_come_out(tmp_path):
    for work in (tables.losses, tables.feedback, tables.twins):
        assert {claim.word for claim in work(None).claims} == {"holds"}


def test_a_changed_entry_flips_the_verdict():
    grid = loss_grid(Game(measure="SumLoss", n_items=3))
    verdict = tables.entries_verdict(tables.PRINTED_LOSSES.replace("231 0 1", "231 0 2"), grid)
    assert verdict.word == "does not hold"
    assert verdict.because == "row 231, column 001: 2 printed, 1 computed"


def test_a_wrong_decimal_flips_the_verdict():
    assert tables.numbers_verdict("", (0.1, 0.2), np.array([0.1, 0.2])).word == "holds"
    assert tables.numbers_verdict("", (0.1, 0.2), np.array([0.1, 0.2001])).word == "does not hold"


def test_ideal_shares_by_hand():
    shares = tables.ideal_shares(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    ideal = 1 / np.log2(2) + 1 / np.log2(3)
    np.testing.assert_allclose(shares, [[1 / ideal, 1 / ideal, 0.0], [0.0, 0.0, 0.0]])

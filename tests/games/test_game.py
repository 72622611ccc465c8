"""The matrices that the papers print, entry for entry."""

from math import log2

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rankloop.core.errors import InvalidInput
from rankloop.games import Game
from rankloop.games.game import measure_for
from research.games.matrices import feedback_grid, loss_grid, signal_grid, signal_matrix

RANKS = ["123", "132", "213", "231", "312", "321"]
TABLE_1 = """
0 3 2 5 1 4 3 6
0 2 3 5 1 3 4 6
0 3 1 4 2 5 3 6
0 1 3 4 2 3 5 6
0 2 1 3 3 5 4 6
0 1 2 3 3 4 5 6
"""
TABLE_2 = """
0 0 0 0 1 1 1 1
0 0 0 0 1 1 1 1
0 0 1 1 0 0 1 1
0 1 0 1 0 1 0 1
0 0 1 1 0 0 1 1
0 1 0 1 0 1 0 1
"""
FIRST_ON_TOP = [[1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]]
SECOND_ON_TOP = [[1, 1, 0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0, 1, 1]]
THIRD_ON_TOP = [[1, 0, 1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1, 0, 1]]

# the order of the columns in the proof for AUC
OUTCOMES = [0b0000, 0b0001, 0b0010, 0b0100, 0b1000, 0b0011, 0b0101, 0b1001]
OUTCOMES += [0b0110, 0b1010, 0b1100, 0b0111, 0b1011, 0b1101, 0b1110, 0b1111]
SIGNALS_OF_FOUR = [
    [0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 1, 1, 1],
    [0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 1, 1, 0, 1, 1, 1],
    [0, 0, 1, 0, 0, 1, 0, 0, 1, 1, 0, 1, 1, 0, 1, 1],
    [0, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 1],
]


def game(name: str, n_items: int = 3, max_grade: int = 1) -> Game:
    return Game(measure=measure_for(name, max_grade), n_items=n_items, max_grade=max_grade)


def row_of(found: Game, ranks: str) -> int:
    """The row of a ranking written as the rank of each item, from 1."""
    (row,) = np.flatnonzero((found.ranks + 1 == [int(digit) for digit in ranks]).all(axis=1))
    return int(row)


def matrix(text: str) -> np.ndarray:
    return np.array([[int(word) for word in line.split()] for line in text.split("\n") if line])


def test_table_1_is_the_loss_matrix_of_sum_loss() -> None:
    found = game("SumLoss")
    assert [loss_row[0] for loss_row in loss_grid(found).rows] == RANKS
    assert loss_grid(found).header == ("ranks", "000", "001", "010", "011", "100", "101", "110", "111")
    assert_array_equal(found.loss, matrix(TABLE_1))
    assert [list(map(int, row[1:])) for row in loss_grid(found).rows] == matrix(TABLE_1).tolist()


def test_table_2_is_the_feedback_matrix_of_depth_1() -> None:
    found = game("SumLoss")
    assert_array_equal(found.feedback(1), matrix(TABLE_2))
    assert [list(map(int, row[1:])) for row in feedback_grid(found, 1).rows] == matrix(TABLE_2).tolist()


@pytest.mark.parametrize("name", ["SumLoss", "DCG", "nDCG", "AP"])
def test_the_signal_matrices_of_the_proofs(name: str) -> None:
    found = game(name)
    printed = {"123": FIRST_ON_TOP, "132": FIRST_ON_TOP, "213": SECOND_ON_TOP, "312": SECOND_ON_TOP}
    for ranks, signals in (printed | {"231": THIRD_ON_TOP, "321": THIRD_ON_TOP}).items():
        assert_array_equal(signal_matrix(found, row_of(found, ranks), 1), signals)
    assert [list(map(int, row[1:])) for row in signal_grid(found, 0, 1).rows] == FIRST_ON_TOP


def test_the_difference_that_local_observability_fails_on() -> None:
    losses = game("SumLoss").loss
    assert_array_equal(losses[0] - losses[1], [0, 1, -1, 0, 0, 1, -1, 0])


def test_the_rows_of_dcg() -> None:
    second, third = 1 / log2(3), 1 / 2
    values = game("DCG").values
    assert_allclose(values[0], [0, third, second, third + second, 1, 1.5, 1 + second, 1.5 + second], rtol=1e-14)
    assert_allclose(values[1], [0, second, third, third + second, 1, 1 + second, 1.5, 1.5 + second], rtol=1e-14)


def test_the_rows_of_ndcg() -> None:
    found = game("nDCG")
    first, last = found.values[row_of(found, "123")], found.values[row_of(found, "321")]
    both, ends = (1 + log2(3) / 2) / (1 + log2(3)), 3 / (2 * (1 + 1 / log2(3)))
    assert_allclose(first, [1, 1 / 2, 1 / log2(3), both, 1, ends, 1, 1], rtol=1e-14)
    assert_allclose(last, [1, 1, 1 / log2(3), 1, 1 / 2, ends, both, 1], rtol=1e-14)
    half = log2(3) / (2 * (1 + log2(3)))
    assert_allclose(first - last, [0, -1 / 2, 0, -half, 1 / 2, 0, half, 0], atol=1e-15)


def test_the_rows_of_average_precision() -> None:
    found = game("AP")
    first, last = found.values[row_of(found, "123")], found.values[row_of(found, "321")]
    assert_allclose(first, [1, 1 / 3, 1 / 2, 7 / 12, 1, 5 / 6, 1, 1], rtol=1e-15)
    assert_allclose(last, [1, 1, 1 / 2, 1, 1 / 3, 5 / 6, 7 / 12, 1], rtol=1e-15)
    assert_allclose(first - last, [0, -2 / 3, 0, -5 / 12, 2 / 3, 0, 5 / 12, 0], atol=1e-15)


def test_the_rows_and_signals_of_auc_with_four_items() -> None:
    found = game("AUCLoss", n_items=4)
    first = found.loss[row_of(found, "1234"), OUTCOMES]
    last = found.loss[row_of(found, "4321"), OUTCOMES]
    printed = [0, 1, 2 / 3, 1 / 3, 0, 1, 3 / 4, 1 / 2, 1 / 2, 1 / 4, 0, 1, 2 / 3, 1 / 3, 0, 0]
    assert_allclose(first, printed, atol=1e-15)
    printed = [0, 0, 1 / 3, 2 / 3, 1, 0, 1 / 4, 1 / 2, 1 / 2, 3 / 4, 1, 0, 1 / 3, 2 / 3, 1, 0]
    assert_allclose(last, printed, atol=1e-15)
    difference = [0, 1, 1 / 3, -1 / 3, -1, 1, 1 / 2, 0, 0, -1 / 2, -1, 1, 1 / 3, -1 / 3, -1, 0]
    assert_allclose(first - last, difference, atol=1e-15)
    for item, signals in enumerate(SIGNALS_OF_FOUR):
        on_top = np.flatnonzero(found.rankings[:, 0] == item)
        assert len(on_top) == 6
        for row in on_top:
            assert_array_equal(signal_matrix(found, int(row), 1)[1][OUTCOMES], signals)


def test_deeper_feedback_reads_the_first_grades_as_one_number() -> None:
    found = game("DCG", n_items=3, max_grade=2)
    outcome = int(np.flatnonzero((found.relevances == [2, 0, 1]).all(axis=1))[0])
    row = found.action([2, 0, 1])
    assert found.feedback(1)[row, outcome] == 1
    assert found.feedback(2)[row, outcome] == 1 * 3 + 2
    assert found.feedback(3)[row, outcome] == 1 * 9 + 2 * 3 + 0
    assert_array_equal(found.feedback(7), found.feedback(3))
    assert signal_matrix(found, row, 2).sum() == len(found.relevances)


def test_rankings_with_equal_rows_are_duplicates() -> None:
    assert len(np.unique(game("SumLoss").duplicates)) == 6
    by_first_item = game("P@1").duplicates
    assert_array_equal(by_first_item[:2], [0, 0])
    assert len(np.unique(by_first_item)) == 3
    assert len(np.unique(game("P@2", n_items=4).duplicates)) == 6


def test_what_is_no_game_is_refused(invented: type) -> None:
    with pytest.raises(InvalidInput, match="depends on item numbers"):
        _ = Game(measure=invented(shuffled_names=True), n_items=3).values
    with pytest.raises(InvalidInput, match="n_items must be a whole number from 1"):
        game("DCG", n_items=0)
    with pytest.raises(InvalidInput, match="max_grade"):
        game("DCG", max_grade=0)
    with pytest.raises(InvalidInput, match="entries"):
        game("DCG", n_items=9)
    with pytest.raises(InvalidInput, match="depth must be a whole number from 1"):
        game("DCG").feedback(0)

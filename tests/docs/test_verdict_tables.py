"""The tables of docs/what-can-be-learned.md are what the analysis says today."""

import re
from pathlib import Path

import numpy as np
import pytest

from rankloop.games import Game, twins
from rankloop.games.game import measure_for
from tests.games.brute_force import best_under
from tests.games.cases import analyse_depths

PAGE = Path(__file__).parents[2] / "docs" / "what-can-be-learned.md"
LETTERS = {"hopeless": "n", "two_thirds": "s", "sqrt": "f"}


def rows(header: str) -> list[tuple[str, int, str]]:
    """(measure, number of items, letters) of the table under this header."""
    lines = PAGE.read_text().split("\n")
    start = lines.index(header)
    sizes = [int(number) for number in re.findall(r"m = (\d)", header)]
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        measure, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        found += [(measure, n_items, cell) for n_items, cell in zip(sizes, cells, strict=True)]
    return found


BINARY = rows("| measure | m = 3 | m = 4 | m = 5 | m = 6 |")
GRADED = rows("| measure | m = 3 | m = 4 |")


@pytest.mark.parametrize(
    ("measure", "n_items", "cell", "max_grade"), [(*row, 1) for row in BINARY] + [(*row, 2) for row in GRADED]
)
def test_printed_verdicts(measure: str, n_items: int, cell: str, max_grade: int) -> None:
    for closed_forms in (True, False):
        found = analyse_depths(measure, n_items, max_grade, closed_forms=closed_forms)
        assert cell == "".join(LETTERS[analysis.verdict] for analysis in found)


def test_the_tables_are_there() -> None:
    assert len(BINARY) == 17 * 4
    assert len(GRADED) == 9 * 2


def test_the_two_towns() -> None:
    pair = twins("nDCG", 3, 1)
    town_a = {(0, 1, 0): 0.456, (1, 0, 1): 0.456, (1, 0, 0): 0.088}
    town_b = {(0, 0, 1): 0.456, (1, 1, 0): 0.456, (1, 0, 0): 0.088}
    names = [tuple(map(int, row)) for row in pair.relevances]
    printed = [np.array([town.get(name, 0.0) for name in names]) for town in (town_a, town_b)]
    towns = [pair.first, pair.second]
    assert np.abs(np.array(towns) - printed).max() < 1e-3 or np.abs(np.array(towns[::-1]) - printed).max() < 1e-3
    assert pair.gap == pytest.approx(0.088, abs=5e-4)
    for measure, same in (("DCG", True), ("nDCG", False)):
        game = Game(measure=measure_for(measure), n_items=3)
        best = [set(best_under(game, town)) for town in towns]
        assert (best[0] == best[1]) == same

"""Columns that are known only after the click: found by their names and by what they hold, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.logs import outcome_columns as module
from rankloop.logs.outcome_columns import Outcomes, outcomes_of

CLICKED = [1, 0, 0, 0] * 10


def column(clicked: object, other: object) -> list[object]:
    return [clicked if hit else other for hit in CLICKED]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (column(1, 0), module.SAME),
        (column("yes", "no"), module.SAME),
        (column(0, 1), module.SAME),  # "skipped": the click the other way round
        (column(12.5, None), module.SAME),
        ([row * 3.25 if hit else 0.0 for row, hit in enumerate(CLICKED)], module.ONLY),  # revenue
        (["order 17" if hit and row % 8 else None for row, hit in enumerate(CLICKED)], ""),  # 5 of 40: may be chance
        ([*column(1, 0)[:-1], 1], module.ALMOST),  # one row without a click has it too
        ([row % 7 for row in range(40)], ""),
        (list(range(40)), ""),
        ([None] * 40, ""),
        (["a"] * 40, ""),
    ],
)
def test_what_only_clicked_rows_have_is_an_outcome(values: list[object], reason: str) -> None:
    assert outcomes_of({"x": values}, CLICKED).get("x", "") == reason


def test_rarity_decides() -> None:
    """k rows that have it are all clicked by chance with probability (click rate)^k."""
    for k in range(1, 11):
        values = [0] * 40
        for row in range(0, 4 * k, 4):
            values[row] = 1
        assert ("x" in outcomes_of({"x": values}, CLICKED)) == (0.25**k <= module.MAX_CHANCE)


@pytest.mark.parametrize("name", ["purchased", "Add to Cart", "revenue", "dwell-time", "is_clicked"])
def test_usual_names_are_known(name: str) -> None:
    assert outcomes_of({name: list(range(40))}, CLICKED) == {name: module.BY_NAME}


@pytest.mark.parametrize("name", ["price", "sales_last_week", "conversion_rate", "purchases_before"])
def test_what_looks_back_is_a_feature(name: str) -> None:
    assert outcomes_of({name: list(range(40))}, CLICKED) == {}


def test_a_log_without_or_of_nothing_but_clicks_tells_nothing() -> None:
    for clicked in ([0] * 40, [1] * 40):
        assert outcomes_of({"x": [0, 1] * 20}, clicked) == {}


def test_pieces_arrays_and_lists_say_the_same() -> None:
    values = np.array([float(row) if hit else np.nan for row, hit in enumerate(CLICKED)])
    pieces = Outcomes()
    for start in range(0, 40, 8):
        rows = slice(start, start + 8)
        pieces.add({"x": values[rows], "y": [[1]] * 8}, CLICKED[rows])
    assert pieces.reasons() == outcomes_of({"x": values.tolist(), "y": [[1]] * 40}, CLICKED) == {"x": module.ONLY}

"""How long `rankloop analyse` takes: all depths at once, by enumeration for any measure, by formula for known ones."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from benchmarks.measurement import Row, alone
from rankloop.core.registry import entries
from rankloop.games import Game, analyse_depths
from rankloop.games.enumeration import thresholds_of
from rankloop.games.game import measure_for
from research.games.matrices import neighbours_of

LIMITS = {4: 5.0, 5: 15.0, 6: 60.0}  # seconds for the slowest measure


def run() -> list[Row]:
    """One row per size: the slowest of all registered measures."""
    measures = [entry.kind for entry in entries("measure")]
    for measure in measures:
        _enumerate(measure, 2)  # compiles the measures
    rows = []
    for n_items, limit in LIMITS.items():
        slowest, name = max((_seconds(_enumerate, measure, n_items), measure) for measure in measures)
        rows.append(_row(f"analyse, {n_items} items, all depths, enumerated", slowest, limit, f"the slowest is {name}"))
    slowest, name = max((_seconds(analyse_depths, measure, 50), measure) for measure in measures)
    rows.append(_row("analyse, 50 items, all depths, closed form", slowest, 1.0, f"the slowest is {name}"))
    for n_items, limit in LIMITS.items():
        start = perf_counter()
        n_neighbours = len(neighbours_of(Game(measure=measure_for("AP"), n_items=n_items)))
        note = f"AP, {n_neighbours} neighbours, one linear program per ranking"
        rows.append(_row(f"all neighbours, {n_items} items", perf_counter() - start, limit, note))
    return rows


def _enumerate(measure: str, n_items: int) -> Any:
    return thresholds_of(Game(measure=measure_for(measure), n_items=n_items))


def _seconds(analyse: Callable[[str, int], Any], measure: str, n_items: int) -> float:
    start = perf_counter()
    analyse(measure, n_items)
    return perf_counter() - start


def _row(name: str, seconds: float, limit: float, note: str) -> Row:
    return alone(name, seconds, target=f"< {limit:g} s", note=note)

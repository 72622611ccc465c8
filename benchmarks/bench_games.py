"""How long `rankloop analyse` takes: all depths at once, by enumeration for any measure, by formula for known ones."""

from __future__ import annotations

from time import perf_counter

from benchmarks.measurement import Row, alone
from rankloop.core.registry import entries
from rankloop.games import Game, analyse_depths
from rankloop.games.analysis import thresholds
from rankloop.games.game import measure_for
from research.games.matrices import neighbours_of

LIMITS = {4: 5.0, 5: 15.0, 6: 60.0}  # seconds for the slowest measure


def run() -> list[Row]:
    """One row per size: the slowest of all registered measures."""
    measures = [entry.kind for entry in entries("measure")]
    for measure in measures:
        analyse_depths(measure, 2, closed_forms=False)  # compiles the measures
    rows = []
    for n_items, limit in LIMITS.items():
        slowest, name = max((_seconds(measure, n_items, False), measure) for measure in measures)
        rows.append(_row(f"analyse, {n_items} items, all depths, enumerated", slowest, limit, f"the slowest is {name}"))
    slowest, name = max((_seconds(measure, 50, True), measure) for measure in measures)
    rows.append(_row("analyse, 50 items, all depths, closed form", slowest, 1.0, f"the slowest is {name}"))
    for n_items, limit in LIMITS.items():
        start = perf_counter()
        n_neighbours = len(neighbours_of(Game(measure=measure_for("AP"), n_items=n_items)))
        note = f"AP, {n_neighbours} neighbours, one linear program per ranking"
        rows.append(_row(f"all neighbours, {n_items} items", perf_counter() - start, limit, note))
    return rows


def _seconds(measure: str, n_items: int, closed_forms: bool) -> float:
    thresholds.cache_clear()
    start = perf_counter()
    analyse_depths(measure, n_items, closed_forms=closed_forms)
    return perf_counter() - start


def _row(name: str, seconds: float, limit: float, note: str) -> Row:
    return alone(name, seconds, target=f"< {limit:g} s", note=note)

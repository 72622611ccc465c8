"""What a call may cost, as it was promised, beside what `make load` has found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

BARE, SQLITE, POSTGRES, SEVERAL = "bare stack", "SQLite, 1 worker", "PostgreSQL, 1 worker", "PostgreSQL, 3 workers"
Row = Mapping[str, Any]


class Goal(NamedTuple):
    """One promise; `verdict` is held, missed, or empty for what is only told."""

    quantity: str
    limit: str
    here: str
    verdict: str


def goals_of(rows: Sequence[Row], costs: Row, impressions: int) -> Iterator[Goal]:
    """Every promise that the rows can be held against; servers that did not run are left out."""
    cpu = {(row["server"], row["calls"]): row["cpu"] for row in rows if "cpu" in row}
    half = {row["server"]: row for row in rows if row["calls"] == "rank, half load"}
    for server, maxima in ((SQLITE, (1.7, 2.0)), (POSTGRES, (1.5, None))):
        for calls, most in zip(("rank", "feedback"), maxima):
            if (server, calls) in cpu:
                yield times(f"processor time of {calls}, {server}", cpu[server, calls], cpu[BARE, calls], "bare", most)
    for calls in ("rank", "feedback"):
        if (SEVERAL, calls) in cpu:
            apart = any(row.get("learner") == "apart" for row in rows if row["server"] == SEVERAL)
            title = f"processor time of {calls}, 3 workers, learner {'apart' if apart else 'in one of them'}"
            yield times(title, cpu[SEVERAL, calls], cpu[POSTGRES, calls], "1 worker", 1.15)
    updates = costs["updates"]
    yield Goal(
        "updates of a ranking and a click, log decoded", "≥ 5,000/s", f"{updates:,.0f}/s", verdict(updates >= 5000)
    )
    for server in (SQLITE, POSTGRES, SEVERAL):
        if server in half:
            row = half[server]
            ratio, waits = row["p99"] / row["p50"], f"{row['p50'] * 1e3:.1f} and {row['p99'] * 1e3:.1f} ms"
            here = f"{ratio:.1f} × ({waits})"
            yield Goal(f"rank p99 at half load, {server}", "≤ 5 × p50", here, verdict(ratio <= 5))
            stall = row["stall"] * 1e3
            yield Goal(f"longest stall at half load, {server}", "≤ 100 ms", f"{stall:.0f} ms", verdict(stall <= 100))
    size = costs["disk"] / 1e3
    yield Goal("disk per impression of 50 products", "≤ 8 kB", f"{size:.1f} kB", verdict(size <= 8))
    for row in rows:
        if row["calls"] == "memory":
            first, last = row["megabytes"][1], row["megabytes"][-1]
            here = f"{last:,.0f} MB after {first:,.0f} MB at a quarter"
            title = f"memory per worker after {impressions:,} impressions, {row['server']}"
            yield Goal(title, "flat, ≤ 300 MB", here, verdict(last <= 300 and last <= 1.1 * first))


def times(quantity: str, ours: float, theirs: float, whose: str, most: float | None) -> Goal:
    """How many times as much as another."""
    ratio = ours / theirs
    here = f"{ratio:.2f} × ({ours * 1e6:,.0f} and {theirs * 1e6:,.0f} µs)"
    return Goal(quantity, f"≤ {most:g} × {whose}" if most else "", here, verdict(ratio <= most) if most else "")


def verdict(holds: bool) -> str:
    return "held" if holds else "missed"

"""Results as tables: one of every benchmark, and one of all peers at the end."""

from __future__ import annotations

from rich.table import Table

from benchmarks.history import Rows, fallen
from benchmarks.rows import Row


def of_benchmark(title: str, rows: list[Row], before: Rows) -> Table:
    grid = Table("what", "ours", "peer", "ratio", "target", "last", "note", title=title, title_justify="left")
    for row in rows:
        last = before.get(row["name"])
        mark = fallen(row, last)
        cells = (
            row["name"],
            seconds(row["ours_seconds"]),
            seconds(row.get("peer_seconds")),
            ratio(row),
            str(row.get("target") or ""),
            ratio(last or {}),
            "; ".join(filter(None, (mark and f"[red]{mark}[/red]", str(row.get("note") or "")))),
        )
        grid.add_row(*cells)
    return grid


def of_peers(rows: Rows, before: Rows) -> Table:
    """The summary: every comparison with a library that users would pick instead."""
    heads = ("peer", "what", "speed", "quality: ours / theirs", "since the last")
    grid = Table(*heads, title="beside the peers", title_justify="left")
    compared = sorted((row for row in rows.values() if row.get("peer")), key=lambda row: str(row["peer"]).lower())
    for row in compared:
        mark = fallen(row, before.get(row["name"]))
        what = row["name"].removesuffix(f", beside {row['peer']}")
        grid.add_row(row["peer"], what, ratio(row), quality(row), mark and f"[red]{mark}[/red]")
    return grid


def seconds(value: float | None) -> str:
    if value is None:
        return ""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * scale >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def ratio(row: Row) -> str:
    """How many times faster we are, with its spread; below 1 the peer is the faster."""
    if row.get("ratio") is None:
        return ""
    return f"{row['ratio']:.2f}×" + (f" ± {row['spread']:.2f}" if "spread" in row else "")


def quality(row: Row) -> str:
    found = row.get("quality")
    if not isinstance(found, dict):
        return str(found or "")
    return f"{found['ours']:.3f} / {found['theirs']:.3f} ± {found['spread']:.3f} {found['measure']}"

"""Results: kept as JSON, compared with the last ones, and shown as tables of each benchmark and of all peers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.environment import machine, versions
from benchmarks.measurement import Row
from rankloop.core.files import atomic_write

LAST_RUN = Path(".cache/bench.json")
PUBLISHED = Path("docs/results/bench.json")
Rows = dict[str, Row]


def read(path: Path | None) -> dict[str, Any]:
    """The results of an earlier run; without a path the last one of this checkout, else the published one."""
    chosen = path or next((each for each in (LAST_RUN, PUBLISHED) if each.exists()), None)
    if chosen is None:
        return {"rows": {}}
    kept: dict[str, Any] = json.loads(chosen.read_text(encoding="utf-8"))
    return kept


def write(path: Path, rows: Rows, *, whole: bool) -> None:
    """A whole run replaces what is there; after some benchmarks the rows of the others stay as they were."""
    others: Rows = {} if whole or not path.exists() else read(path)["rows"]
    table = {"machine": machine(), "versions": versions(), "rows": others | rows}
    atomic_write(path, json.dumps(table, indent=1, ensure_ascii=False) + "\n")


def regressions(row: Row, before: Row | None) -> str:
    """What fell by more than both spreads together, in words; empty when nothing did."""
    if before is None:
        return ""
    marks = []
    if "spread" in row and "spread" in before and before["ratio"] - row["ratio"] > row["spread"] + before["spread"]:
        marks.append(f"slower: {before['ratio']:.2f}× before")
    now, then = row.get("quality"), before.get("quality")
    if isinstance(now, dict) and isinstance(then, dict) and then["ours"] - now["ours"] > now["spread"] + then["spread"]:
        marks.append(f"worse: {then['ours']:.4f} before")
    return ", ".join(marks)


def benchmark_table(title: str, rows: list[Row], before: Rows) -> Table:
    grid = Table("what", "ours", "peer", "ratio", "target", "last", "note", title=title, title_justify="left")
    for row in rows:
        last = before.get(row["name"])
        mark = regressions(row, last)
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


def peer_table(rows: Rows, before: Rows) -> Table:
    """The summary: every comparison with a library that users would pick instead."""
    heads = ("peer", "what", "speed", "quality: ours / theirs", "since the last")
    grid = Table(*heads, title="beside the peers", title_justify="left")
    compared = sorted((row for row in rows.values() if row.get("peer")), key=lambda row: str(row["peer"]).lower())
    for row in compared:
        mark = regressions(row, before.get(row["name"]))
        title = row["name"].removesuffix(f", beside {row['peer']}")
        grid.add_row(row["peer"], title, ratio(row), quality(row), mark and f"[red]{mark}[/red]")
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
    judged = row.get("quality")
    if not isinstance(judged, dict):
        return str(judged or "")
    return f"{judged['ours']:.3f} / {judged['theirs']:.3f} ± {judged['spread']:.3f} {judged['measure']}"

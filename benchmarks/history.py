"""Results kept as JSON, and what has become slower or worse since the last ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.peers import machine, versions
from benchmarks.rows import Row
from rankloop.core.files import atomic_write

KEPT = Path(".cache/bench.json")
PUBLISHED = Path("docs/results/bench.json")
Rows = dict[str, Row]


def read(path: Path | None) -> dict[str, Any]:
    """The results of an earlier run; without a path the last one of this checkout, else the published one."""
    chosen = path or next((each for each in (KEPT, PUBLISHED) if each.exists()), None)
    if chosen is None:
        return {"rows": {}}
    found: dict[str, Any] = json.loads(chosen.read_text(encoding="utf-8"))
    return found


def write(path: Path, rows: Rows, *, whole: bool) -> None:
    """A whole run replaces what is there; after some benchmarks the rows of the others stay as they were."""
    others: Rows = {} if whole or not path.exists() else read(path)["rows"]
    table = {"machine": machine(), "versions": versions(), "rows": others | rows}
    atomic_write(path, json.dumps(table, indent=1, ensure_ascii=False) + "\n")


def fallen(row: Row, before: Row | None) -> str:
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

"""Runs every `bench_*.py` here, prints ratios beside their targets, and compares them with the last run."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import platform
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import benchmarks
import rankloop

KEPT = Path(".cache/bench.json")


def main(chosen: list[str]) -> None:
    console = Console()
    names = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name.startswith("bench_")]
    before = json.loads(KEPT.read_text())["rows"] if KEPT.exists() else {}
    rows: dict[str, Any] = {}
    console.print(f"rankloop {rankloop.__version__}, {machine()}", highlight=False)
    for name in names:
        if not chosen or name.removeprefix("bench_") in chosen:
            with console.status(f"measuring {name.removeprefix('bench_')}"):
                found = importlib.import_module(f"benchmarks.{name}").run()
            console.print(table(name.removeprefix("bench_"), found, before))
            rows |= {row["name"]: row for row in found}
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(
        json.dumps({"machine": machine(), "version": rankloop.__version__, "rows": before | rows}, indent=1)
    )


def machine() -> str:
    return f"Python {platform.python_version()} on {platform.machine()}, {os.cpu_count()} cores"


def table(title: str, rows: list[dict[str, Any]], before: dict[str, Any]) -> Table:
    grid = Table("what", "ours", "peer", "ratio", "target", "last ratio", "note", title=title, title_justify="left")
    for row in rows:
        last = before.get(row["name"], {}).get("ratio")
        grid.add_row(
            row["name"],
            seconds(row["ours_seconds"]),
            seconds(row.get("peer_seconds")),
            ratio(row.get("ratio")),
            str(row.get("target") or ""),
            ratio(last),
            str(row.get("note") or ""),
        )
    return grid


def seconds(value: float | None) -> str:
    if value is None:
        return ""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * scale >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}×"


if __name__ == "__main__":
    main(sys.argv[1:])

"""`make load`: calls per second and waiting times, beside the bare HTTP stack and the disk's own fsync in one run."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.http_client import send_calls
from benchmarks.server_process import Command, Running, baseline_command, cpu_seconds, database, serve_command, served

CONNECTIONS = 16
MODES = ("rank", "feedback", "mixed")
ROW = "{:<22}{:<17}{:>8}{:>8}{:>8}{:>8}  {}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=10.0)
    arguments.add_argument("--connections", type=int, default=CONNECTIONS)
    arguments.add_argument("--out", type=Path, default=Path("results/load.json"))
    chosen = arguments.parse_args()
    rows: list[dict[str, Any]] = []
    print(f"{machine()}; fsync {fsync_seconds() * 1e3:.2f} ms; {chosen.connections} connections")
    print(ROW.format("server", "calls", "per s", "p50 ms", "p99 ms", "CPU µs", "of the bare stack"))
    bare: dict[str, dict[str, Any]] = {}
    for name, command, store in chain([("bare stack", baseline_command, "")], servers()):
        with tempfile.TemporaryDirectory() as folder, served(command, Path(folder), RANKLOOP_STORE=store) as server:
            for row in measured(name, server, chosen.seconds, chosen.connections):
                first = bare.setdefault(row["calls"], row)
                row["share"] = row["rate"] / first["rate"]
                rows.append(row)
                print(line(row), flush=True)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))


def measured(name: str, server: Running, seconds: float, connections: int) -> Iterator[dict[str, Any]]:
    """Every kind of call as fast as it goes, then mixed calls at half of their rate."""
    for mode in MODES:
        row = row_of(name, mode, server, seconds, connections)
        yield row
    yield row_of(name, "mixed, half load", server, seconds, connections, row["rate"] / 2)


def row_of(
    name: str, calls: str, server: Running, seconds: float, connections: int, rate: float | None = None
) -> dict[str, Any]:
    cpu = partial(cpu_seconds, server.pid)
    times = asyncio.run(send_calls(server.port, seconds, connections, calls.partition(",")[0], rate, cpu))
    return {
        "server": name,
        "calls": calls,
        "rate": times.rate,
        "p50": times.percentile(0.5),
        "p99": times.percentile(0.99),
        "cpu": times.cpu / times.calls,
    }


def line(row: dict[str, Any]) -> str:
    waiting = f"{row['rate']:,.0f}", f"{row['p50'] * 1e3:.2f}", f"{row['p99'] * 1e3:.2f}", f"{row['cpu'] * 1e6:,.0f}"
    said = f"p99 = {row['p99'] / row['p50']:.1f} × p50" if "half" in row["calls"] else f"{row['share']:.2f}"
    return ROW.format(row["server"], row["calls"], *waiting, said)


def servers() -> Iterator[tuple[str, Command, str]]:
    """SQLite; PostgreSQL with one and three workers where there is one: RANKLOOP_STORE, or the wheel of the tests."""
    yield "SQLite, 1 worker", serve_command, ""
    given = os.environ.get("RANKLOOP_STORE", "")
    for workers in (1, 3):
        name = f"PostgreSQL, {workers} worker{'s' * (workers > 1)}"
        with database(given) as store:
            if store:
                yield name, partial(serve_command, workers=workers), store


def machine() -> str:
    return f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"


def fsync_seconds(times: int = 50) -> float:
    with tempfile.NamedTemporaryFile() as file:
        begun = time.perf_counter()
        for _ in range(times):
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        return (time.perf_counter() - begun) / times


if __name__ == "__main__":
    main()

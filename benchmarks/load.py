"""`make load`: what a call costs, beside the bare HTTP stack in one run, and whether that is what was promised.

python -m benchmarks.load                                      everything, in a few minutes
python -m benchmarks.load --quick                              a few seconds of everything, to see that it works
python -m benchmarks.load --save docs/results/load.json        published: then run docs/results/update.py
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from rich.console import Console
from rich.table import Table

from benchmarks.environment import machine
from benchmarks.http_client import Times, send_calls, simulate_visits
from benchmarks.learner_rate import N_UPDATES, updates_per_second
from benchmarks.load_goals import BARE, POSTGRES, SEVERAL, SQLITE, Goal, goals_of
from benchmarks.log_costs import disk_per_impression
from benchmarks.server_process import (
    Command,
    Running,
    baseline_command,
    cpu_seconds,
    database,
    learning_apart,
    megabytes,
    serve_command,
    served,
    workers_of,
)
from rankloop.core.files import atomic_write

CONNECTIONS = 16
TURNS = 8  # of every server, in which its time is divided
WORKERS = 3
WINDOW = 1800.0  # seconds
LAST_RUN = Path("results/load.json")
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0, help="for each kind of call")
    parser.add_argument("--impressions", type=int, default=20_000, help="after which memory is looked at")
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--quick", action="store_true", help="as little as shows that it works")
    parser.add_argument("--only-sqlite", action="store_true", help="no PostgreSQL, even if there is one")
    parser.add_argument("--save", type=Path, help="keep the results here as well")
    chosen = parser.parse_args(arguments)
    if chosen.quick:
        chosen.seconds, chosen.impressions = 0.3, 200
    console = Console(width=120)
    result = measured(chosen, console)
    for path in filter(None, (LAST_RUN, chosen.save)):
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    console.print(table_of(result["goals"]))


def measured(chosen: argparse.Namespace, console: Console) -> Row:
    """Everything in one run, and what it amounts to."""
    facts = machine() | {"server": server_kind(), "fsync": f"{fsync_seconds() * 1e3:.2f} ms"}
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()), highlight=False)
    busy = os.getloadavg()[0]
    with ExitStack() as stack:
        servers = dict(started_servers(stack, chosen.only_sqlite))
        rows = list(calls_of(servers, chosen.seconds, chosen.connections, console))
        for name in servers:
            if name != BARE:
                megabytes = memory(servers[name], chosen.impressions)
                rows.append({"server": name, "calls": "memory", "megabytes": megabytes})
        busy = max(busy, os.getloadavg()[0])
    costs: Row = {"disk": disk_per_impression(20 if chosen.quick else 400)}
    costs["updates"] = updates_per_second("3pr", 500 if chosen.quick else N_UPDATES)
    goals = [goal._asdict() for goal in goals_of(rows, costs, chosen.impressions)]
    result = {"id": "load", "machine": facts, "busy": busy, "impressions": chosen.impressions, "rows": rows}
    return result | {"costs": costs, "goals": goals}


def calls_of(servers: dict[str, Running], seconds: float, connections: int, console: Console) -> Iterator[Row]:
    """Each kind of call as fast as it goes, then rankings at half of their rate.

    All servers take turns, since a machine is not as fast at every moment.
    """
    half: dict[str, float] = {}
    for calls in ("rank", "feedback", "rank, half load"):
        turns: dict[str, list[Times]] = {name: [] for name in servers}
        for _, (name, server) in product(range(TURNS), servers.items()):
            rate = half[name] if "half" in calls else None
            cpu = partial(cpu_seconds, server.pid)
            sent = send_calls(server.port, seconds / TURNS, connections, calls.partition(",")[0], rate, cpu)
            turns[name].append(asyncio.run(sent))
        for name in servers:
            times = together(turns[name])
            half.setdefault(name, times.rate / 2)
            row = {
                "server": name,
                "calls": calls,
                "rate": times.rate,
                "p50": times.percentile(0.5),
                "p99": times.percentile(0.99),
                "longest": max(times.each),
                "stall": times.stall,
                "cpu": times.cpu / times.calls,
                "learner": "apart" if name == SEVERAL else "in a worker",
            }
            console.print(line(row), highlight=False)
            yield row


def together(turns: Sequence[Times]) -> Times:
    calls, seconds, cpu = (sum(getattr(turn, name) for turn in turns) for name in ("calls", "seconds", "cpu"))
    each = [wait for turn in turns for wait in turn.each]
    return Times(calls, seconds, each, cpu, max(turn.stall for turn in turns))


def memory(server: Running, impressions: int) -> list[float]:
    """Megabytes of the largest worker, at first and after each quarter of the impressions."""
    sizes = [max(map(megabytes, workers_of(server.pid)))]
    for _ in range(4):
        asyncio.run(simulate_visits(server.port, impressions // 4))
        sizes.append(max(map(megabytes, workers_of(server.pid))))
    return sizes


def line(row: Row) -> str:
    waiting = f"p50 {row['p50'] * 1e3:.2f} ms, p99 {row['p99'] * 1e3:.2f} ms, longest {row['longest'] * 1e3:.0f} ms"
    return f"{row['server']:<22}{row['calls']:<17}{row['rate']:>7,.0f}/s {row['cpu'] * 1e6:>6,.0f} µs of CPU, {waiting}"


def started_servers(stack: ExitStack, only_sqlite: bool = False) -> Iterator[tuple[str, Running]]:
    """PostgreSQL where there is one: RANKLOOP_STORE, or the wheel of the tests."""
    yield BARE, started_server(stack, baseline_command)
    yield SQLITE, started_server(stack, serve_command)
    for name, workers in () if only_sqlite else ((POSTGRES, 1), (SEVERAL, WORKERS)):
        address = os.environ.get("RANKLOOP_STORE", "")
        store = in_schema(address, f"load_{workers}") if address else stack.enter_context(database(""))
        if store:
            command = partial(serve_command, workers=workers, learns=workers == 1)
            yield name, started_server(stack, command, store, apart=workers > 1)


def in_schema(address: str, schema: str) -> str:
    """A tenant of its own in a database."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
    return f"{address}{'&' if '?' in address else '?'}options=-csearch_path%3D{schema}"


def started_server(stack: ExitStack, command: Command, store: str = "", apart: bool = False) -> Running:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    if apart:
        stack.enter_context(learning_apart(folder, store))
    return stack.enter_context(served(command, folder, WINDOW, RANKLOOP_STORE=store))


def table_of(goals: Sequence[Row]) -> Table:
    made = Table("what", "goal", "here", "")
    for goal in (Goal(**each) for each in goals):
        made.add_row(
            goal.quantity, goal.limit, goal.here, goal.verdict, style=None if goal.verdict != "missed" else "red"
        )
    return made


def server_kind() -> str:
    fast = [name for name in ("uvloop", "httptools") if find_spec(name)]
    return " + ".join(["uvicorn", *fast])


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

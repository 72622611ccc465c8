"""`make soak`: a hundred kills on each store, ten thousand random and mutated requests, a million impressions.

python -m benchmarks.soak                                      everything, in an hour or two
python -m benchmarks.soak --quick                              a little of everything, to see that it works
python -m benchmarks.soak --save docs/results/soak.json        published: then run docs/results/update.py
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx
from rich.console import Console
from rich.table import Table

from benchmarks.environment import machine
from benchmarks.http_client import simulate_visits
from benchmarks.server_process import megabytes, serve_command, served

WINDOW = 5.0  # seconds; half of the impressions get no feedback and are closed by it
GROWTH = 1.1  # memory after all impressions, against that after a quarter of them
TESTS = Path("tests/service")
BAD_REQUESTS = "promises/test_bad_requests.py"
HOSTILE_SHAPES = {
    "bad rows, clicks of one user": "promises/test_poisoning.py",
    "hostile connections, headers and trailers": "http/test_connections.py",
    "hostile HTML, mail and documents": "../search/test_file_formats.py",
    "hostile logs": "../logs/ubi",
    "keys: patterns, rates and quotas": "test_api_keys.py",
}


LAST_RUN = Path("results/soak.json")
PATIENCE = 3600.0  # seconds for the tests of a file
Attempt = Callable[[], tuple[bool, str]]


class Row(NamedTuple):
    """What was tried, how it ended, how long it took."""

    kind: str
    outcome: str
    held: bool
    minutes: float


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--impressions", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="as little as shows that it works")
    parser.add_argument("--save", type=Path, help="keep the results here as well")
    chosen = parser.parse_args(arguments)
    if chosen.quick:
        chosen.kills, chosen.requests, chosen.impressions = 1, 100, 2_000
    rows = tried(attempts(chosen.kills, chosen.requests, chosen.impressions), chosen.save)
    Console().print(table(rows))
    sys.exit(int(not all(row.held for row in rows)))


def tried(what: Iterable[tuple[str, Attempt]], save: Path | None = None) -> list[Row]:
    """All of it, one after the other: what fails or takes too long is told as such, and the rest is tried too."""
    rows: list[Row] = []
    for kind, attempt in what:
        begun = time.monotonic()
        try:
            held, outcome = attempt()
        except Exception as error:
            held, outcome = False, f"{type(error).__name__}: {error}"[:200]
        rows.append(Row(kind, outcome, held, (time.monotonic() - begun) / 60))
        print(f"{kind}: {outcome}", flush=True)
        for path in filter(None, (LAST_RUN, save)):
            write(rows, path)
    return rows


def attempts(kills: int, requests: int, impressions: int) -> Iterator[tuple[str, Attempt]]:
    """Everything that is tried, with what it is called."""
    killed, n_requests = {"RANKLOOP_KILLS": str(kills)}, {"RANKLOOP_REQUESTS": str(requests)}
    for store in ("sqlite", "postgres"):
        yield f"{store}: crashes, {kills} × kill -9", partial(checked, "promises/test_crashes.py", store, **killed)
    yield "full disks, restarted database", partial(checked, "promises/test_outages.py")
    yield "several workers, learner killed", partial(checked, "promises/test_workers.py")
    for store in ("sqlite", "postgres"):
        yield (
            f"{store}: {requests:,} mutated requests",
            partial(checked, BAD_REQUESTS, store, **n_requests),
        )
    yield (
        "requests generated from the OpenAPI document",
        partial(checked, "http/test_endpoints.py", "generated", **n_requests),
    )
    generated = partial(checked, "../search/test_routes.py", "generated", **n_requests)
    yield "requests generated for every route of the search box", generated
    for kind, file in HOSTILE_SHAPES.items():
        yield kind, partial(checked, file)
    sizes = {"RANKLOOP_RANKERS": "10000", "RANKLOOP_WIDE": "1000x10000", "RANKLOOP_OPEN": "500000"}
    yield (
        "10,000 rankers, 1,000 × 10,000 fields, 500,000 open impressions",
        partial(checked, "promises/test_sizes.py", **(sizes if impressions >= 500_000 else {})),
    )
    yield f"memory over {impressions:,} impressions", partial(memory_stays, impressions)


def checked(file: str, only: str = "", **environment: str) -> tuple[bool, str]:
    """Whether the tests of a file pass, and what pytest said last."""
    command = [sys.executable, "-m", "pytest", str(TESTS / file), *(["-k", only] if only else [])]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        print(done.stdout[-8000:], done.stderr[-2000:], flush=True)
    last = done.stdout.strip().rpartition("\n")[2]
    return done.returncode == 0, last.partition(" in ")[0]


def memory_stays(impressions: int) -> tuple[bool, str]:
    sizes = memory_over(impressions)
    first, last = sizes[len(sizes) // 4], sizes[-1]
    return last <= GROWTH * first, f"{first:,.0f} MB after a quarter, {last:,.0f} MB after all"


def memory_over(impressions: int, steps: int = 20) -> list[float]:
    """Megabytes of a service while impressions come and close."""
    sizes: list[float] = []
    with tempfile.TemporaryDirectory() as folder, served(serve_command, Path(folder), WINDOW) as running:
        shown = 0
        while shown < impressions:
            asyncio.run(simulate_visits(running.port, max(impressions // steps, 50)))
            shown = httpx.get(f"http://127.0.0.1:{running.port}/rankers/load").json()["counts"]["impressions"]
            sizes.append(megabytes(running.pid))
            print(f"{shown:,} impressions: {sizes[-1]:,.0f} MB", flush=True)
    return sizes


def table(rows: list[Row]) -> Table:
    made = Table("what was tried", "outcome", "minutes")
    for row in rows:
        made.add_row(row.kind, row.outcome, f"{row.minutes:.1f}", style=None if row.held else "red")
    return made


def write(rows: list[Row], out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    result = {"id": "soak", "machine": machine(), "rows": [row._asdict() for row in rows]}
    out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

"""`make soak`: a hundred kills on each store, ten thousand random and mutated requests, a million impressions."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx

from benchmarks.hammer import hammer
from benchmarks.load import serve_command, served

SECONDS = 5.0
WINDOW = 5.0  # impressions that are open when a stretch of load ends are closed in the next
TESTS = "tests/service/test_crashes.py", "tests/service/test_bad_rows.py", "tests/service/test_fuzzed.py"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kills", type=int, default=100)
    arguments.add_argument("--requests", type=int, default=10_000)
    arguments.add_argument("--impressions", type=int, default=1_000_000)
    chosen = arguments.parse_args()
    environment = os.environ | {"RANKLOOP_KILLS": str(chosen.kills), "RANKLOOP_REQUESTS": str(chosen.requests)}
    tested = subprocess.run([sys.executable, "-m", "pytest", *TESTS], env=environment)
    memory = memory_over(chosen.impressions)
    first, last = memory[len(memory) // 4], memory[-1]
    print(f"memory: {first:,.0f} MB after a quarter, {last:,.0f} MB after all {chosen.impressions:,} impressions")
    sys.exit(tested.returncode or int(last > 1.1 * first))


def memory_over(impressions: int, steps: int = 20) -> list[float]:
    """Megabytes of a service while impressions come and close."""
    found: list[float] = []
    with tempfile.TemporaryDirectory() as folder, served(serve_command, Path(folder), WINDOW) as running:
        shown = 0
        while shown < impressions:
            asyncio.run(hammer(running.port, SECONDS, 16, "mixed"))
            shown = httpx.get(f"http://127.0.0.1:{running.port}/rankers/load").json()["counts"]["impressions"]
            if shown >= len(found) * impressions / steps:
                found.append(megabytes(running.pid))
                print(f"{shown:,} impressions: {found[-1]:,.0f} MB", flush=True)
    return found


def megabytes(pid: int) -> float:
    """The resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()

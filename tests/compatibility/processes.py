"""The one place where these tests know more of rankloop than its users do; after a move only this file changes."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from threading import Thread
from typing import Any

import httpx

PATIENCE = 30.0  # seconds


def command(*arguments: str) -> tuple[int, str]:
    """The exit code and the output of `rankloop ARGUMENTS`, without a new process."""
    from rankloop.cli import main

    out, code = io.StringIO(), 0
    with redirect_stdout(out):
        try:
            main(list(arguments))
        except SystemExit as leaving:
            code = int(leaving.code or 0)
    return code, out.getvalue()


@contextmanager
def serving(data: Path, store: str = "") -> Iterator[httpx.Client]:
    """A service with this data folder, on a free port of this machine, and a client of it; it holds the lease."""
    from rankloop.service.http.server import make_server
    from rankloop.service.settings import Settings

    server = make_server(Settings(data=data, store=store, port=0))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    try:
        _until(lambda: server.started or not thread.is_alive())
        if not thread.is_alive():
            raise RuntimeError("the service did not start")
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
            _until(lambda: client.get("/readyz").json().get("leads"))
            yield client
    finally:
        server.stop()
        thread.join()


@contextmanager
def empty_database() -> Iterator[str]:
    """The address of an empty database of a PostgreSQL that lives as long as the block."""
    from tests.service.postgres_servers import postgres_server

    with postgres_server() as server:
        yield server.database()


def _until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the service did not become ready")
        time.sleep(0.005)

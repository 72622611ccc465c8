"""A real server with the demo, on a free port, for the tests of the page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx

from rankloop.service.http.demo import Demo
from rankloop.service.http.server import Addition, make_server
from rankloop.service.settings import Settings

START = 60.0  # seconds; kernels may have to be compiled first


@contextmanager
def page_server(data: Path, demo: bool = True, addition: Addition | None = None, **settings: Any) -> Iterator[str]:
    """The address of a running service."""
    server = make_server(Settings(data=data, port=0, **settings), addition=Demo() if demo else addition)
    thread = Thread(target=server.run)
    thread.start()
    try:
        until = time.monotonic() + START
        while not server.started and thread.is_alive() and time.monotonic() < until:
            time.sleep(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()
        thread.join(30)


def eventually(check: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Events come once a second: try until the check holds, or fail as it failed last."""
    until = time.monotonic() + seconds
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > until:
                raise
        time.sleep(0.2)


def said(address: str, path: str, key: str | None = None) -> Any:
    """What a call answers."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.get(address + path, headers=headers, timeout=START).raise_for_status().json()

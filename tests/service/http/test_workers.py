"""A stop and a rolling restart fail no call, and the workers of a port get their share of the connections."""

from __future__ import annotations

import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import httpx
import pytest

from rankloop.core.errors import Conflict
from rankloop.service.http.workers import _renewed_socket, listening_sockets, share_of
from rankloop.service.settings import Settings
from tests.service.cases import Location, items, running, until
from tests.service.processes import THINKING, serving

ASK = {"items": items()}


class Callers:
    """Threads that rank and click over connections that stay open, and note what goes wrong; nothing is repeated."""

    def __init__(self, port: int, n: int = 3) -> None:
        self.base = f"http://127.0.0.1:{port}/rankers/shop"
        self.answered = 0
        self.failed: list[str] = []
        self.stopping = Event()
        self.threads = [Thread(target=self.call) for _ in range(n)]
        for thread in self.threads:
            thread.start()

    def call(self) -> None:
        with httpx.Client(base_url=self.base, timeout=30) as client:
            while not self.stopping.is_set():
                try:
                    shown = client.post("/rank", json=ASK).raise_for_status().json()
                    body = {"impression": shown["impression"], "clicks": shown["ranking"][:1], "final": True}
                    client.post("/feedback", json=body).raise_for_status()
                    self.answered += 2
                    time.sleep(THINKING)  # they think; the test is about those who wait, not about many
                except httpx.HTTPError as error:
                    self.failed.append(repr(error))

    def leave(self) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join()


def children(pid: int) -> set[int]:
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def answer_of(connection: socket.socket) -> bytes:
    """The next answer of /healthz, up to its last byte."""
    received = b""
    while not received.endswith(b'{"status":"ok"}'):
        received += connection.recv(4096)
    return received


@pytest.mark.slow
def test_a_rolling_restart_fails_no_call(tmp_path: Path, postgres: Callable[[], str]) -> None:
    process, port = serving(Location(tmp_path, postgres()), "--workers", "2")
    try:
        callers = Callers(port)
        until(lambda: callers.answered > 50)
        before = children(process.pid)
        assert len(before) == 2
        process.send_signal(signal.SIGHUP)
        until(lambda: len(children(process.pid)) == 2 and not before & children(process.pid), patience=120)
        answered = callers.answered
        until(lambda: callers.answered > answered + 50)
        callers.leave()
        assert callers.failed == []
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_told_to_stop_it_is_not_ready_but_answers(tmp_path: Path) -> None:
    with running(Location(tmp_path), drain=30.0) as client:
        assert "connection" not in client.get("/readyz").headers
        client.server.stop()  # type: ignore[attr-defined]
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["detail"]) == (503, "this process is stopping")
        for _ in range(2):
            asked = client.get("/rankers")
            assert (asked.status_code, asked.headers["connection"]) == (200, "close")
        begun = time.monotonic()
    assert time.monotonic() - begun < 10  # the second call ends it


def test_a_connection_that_is_in_use_gets_an_answer_that_says_that_it_is_the_last(tmp_path: Path) -> None:
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with running(Location(tmp_path)) as client:
        server, port = client.server, client.base_url.port or 80  # type: ignore[attr-defined]
        with socket.create_connection(("127.0.0.1", port), timeout=5) as visitor:
            visitor.sendall(whole)
            assert b"connection: close" not in answer_of(visitor)
            server.stop()
            until(lambda: server.should_exit and not server.servers[0].is_serving())
            visitor.sendall(whole)
            last = answer_of(visitor)
            assert last.startswith(b"HTTP/1.1 200")
            assert b"connection: close" in last
            assert visitor.recv(4096) == b""


def test_every_worker_gets_connections() -> None:
    sockets = listening_sockets(Settings(port=0, workers=3, store="postgresql://nowhere"))
    port = sockets[0].getsockname()[1]
    with pytest.raises(Conflict, match="in use"):
        listening_sockets(Settings(port=port, workers=2, store="postgresql://nowhere"))
    counts = dealt(port, sockets, 90)
    for each in sockets:
        each.close()
    assert sum(counts) == 90
    assert min(counts) >= 10  # of 30; fewer would come by chance once in a million times


def dealt(port: int, sockets: list[socket.socket], n: int) -> list[int]:
    """How many of so many connections each of the sockets gets."""
    opened, counts = [socket.create_connection(("127.0.0.1", port)) for _ in range(n)], []
    for each in sockets:
        each.setblocking(False)
        count = 0
        try:
            while True:
                each.accept()[0].close()
                count += 1
        except BlockingIOError:
            counts.append(count)
    for each in opened:
        each.close()
    return counts


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all processes share one socket")
def test_nobody_waits_for_a_worker_that_has_died() -> None:
    settings = Settings(port=0, workers=2, store="postgresql://nowhere")
    left, other = listening_sockets(settings)
    port = left.getsockname()[1]
    fresh = _renewed_socket(settings, left)
    assert dealt(port, [other], 40) == [40]  # while the next one starts
    fresh.listen()  # as it does when it answers
    assert min(dealt(port, [fresh, other], 80)) >= 10
    for each in (fresh, other):
        each.close()


def test_what_is_allowed_is_allowed_by_all_workers_together(tmp_path: Path) -> None:
    limits = {"rate": 100.0, "max_items": 7}
    settings = Settings(data=tmp_path, workers=4, store="postgresql://nowhere", **limits)  # type: ignore[arg-type]
    share = share_of(settings)
    assert (share.workers, share.sharers, share.rate, share.max_items) == (1, 4, 25.0, 7)
    assert share.max_open_bytes == settings.max_open_bytes // 4
    assert share_of(replace(settings, max_open_bytes=1_000)).max_open_bytes == 1_000

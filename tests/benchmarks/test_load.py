"""What `make load` makes of its measurements, and how its client and `make soak` deal with what goes wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks import soak
from benchmarks.http_client import Connection
from benchmarks.load_goals import BARE, POSTGRES, SEVERAL, SQLITE, goals_of
from tests.coroutines import run_coroutine

COSTS = {"updates": 6000.0, "disk": 7900.0}


def row(
    server: str, calls: str, cpu: float, p50: float = 0.01, p99: float = 0.04, stall: float = 0.05
) -> dict[str, object]:
    return {"server": server, "calls": calls, "cpu": cpu, "p50": p50, "p99": p99, "stall": stall, "rate": 1.0}


def test_promises_are_held_against_what_was_measured() -> None:
    rows = [
        row(BARE, "rank", 300e-6),
        row(BARE, "feedback", 200e-6),
        row(SQLITE, "rank", 450e-6),
        row(SQLITE, "feedback", 900e-6),
        row(SQLITE, "rank, half load", 450e-6, 0.01, 0.06, 0.2),
        row(POSTGRES, "rank", 480e-6),
        row(POSTGRES, "feedback", 400e-6),
        row(SEVERAL, "rank", 540e-6) | {"learner": "apart"},
        row(SEVERAL, "feedback", 480e-6),
        {"server": SQLITE, "calls": "memory", "megabytes": [100.0, 200.0, 210.0, 215.0, 219.0]},
    ]
    found = {goal.quantity: (goal.here, goal.verdict) for goal in goals_of(rows, COSTS, 1000)}
    assert found == {
        f"processor time of rank, {SQLITE}": ("1.50 × (450 and 300 µs)", "held"),
        f"processor time of feedback, {SQLITE}": ("4.50 × (900 and 200 µs)", "missed"),
        f"processor time of rank, {POSTGRES}": ("1.60 × (480 and 300 µs)", "missed"),
        f"processor time of feedback, {POSTGRES}": ("2.00 × (400 and 200 µs)", ""),
        "processor time of rank, 3 workers, learner apart": ("1.12 × (540 and 480 µs)", "held"),
        "processor time of feedback, 3 workers, learner apart": ("1.20 × (480 and 400 µs)", "missed"),
        "updates of a ranking and a click, log decoded": ("6,000/s", "held"),
        f"rank p99 at half load, {SQLITE}": ("6.0 × (10.0 and 60.0 ms)", "missed"),
        f"longest stall at half load, {SQLITE}": ("200 ms", "missed"),
        "disk per impression of 50 products": ("7.9 kB", "held"),
        f"memory per worker after 1,000 impressions, {SQLITE}": ("219 MB after 200 MB at a quarter", "held"),
    }


def test_a_connection_that_the_server_has_closed_is_opened_again() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()  # although nothing says so

    async def ask() -> list[tuple[int, bytes]]:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            connection = Connection(server.sockets[0].getsockname()[1])
            found = [await connection.post("/rank", b"") for _ in range(3)]
            connection.close()
        with pytest.raises(ConnectionError):
            await connection.post("/rank", b"")
        return found

    assert run_coroutine(ask()) == [(200, b"ok")] * 3


def test_what_breaks_in_a_soak_does_not_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> tuple[bool, str]:
        raise RuntimeError("no database")

    monkeypatch.setattr(soak, "LAST_RUN", tmp_path / "last" / "soak.json")
    rows = soak.tried([("one", broken), ("two", lambda: (True, "3 passed"))], tmp_path / "soak.json")
    assert [(each.kind, each.outcome, each.held) for each in rows] == [
        ("one", "RuntimeError: no database", False),
        ("two", "3 passed", True),
    ]
    assert (tmp_path / "soak.json").read_text() == (tmp_path / "last" / "soak.json").read_text()


def test_every_test_of_a_soak_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are named by their paths, which change more often than a soak runs."""
    asked = list[tuple[str, str]]()
    monkeypatch.setattr(soak, "checked", lambda file, only="", **environment: asked.append((file, only)) or (True, ""))
    monkeypatch.setattr(soak, "memory_stays", lambda impressions: (True, ""))
    for _, attempt in soak.attempts(1, 100, 2_000):
        attempt()
    assert len(asked) > 10
    for file, only in asked:
        path = soak.TESTS / file
        files = [path] if path.is_file() else list(path.glob("test_*.py"))
        assert files, file
        assert only in ("", "sqlite", "postgres") or any(only in each.read_text() for each in files), (file, only)

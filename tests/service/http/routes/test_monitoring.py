"""Whoever watches costs those who ask little: reports are made once for all, in steps."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rankloop.core.errors import NotFound
from rankloop.service.http.routes import monitoring
from rankloop.service.http.routes.monitoring import EventStream
from tests.coroutines import run_coroutine

NAMES = [f"ranker-{number:02d}" for number in range(20)]


def watched(seconds: float, made: Counter[str], gone: str = "") -> Any:
    """An application with rankers whose reports take so long."""

    def report(name: str) -> dict[str, Any]:
        if name == gone:
            raise NotFound(name)
        made[name] += 1
        time.sleep(seconds)
        return {"name": name}

    async def catch_up() -> None:
        """There is nothing new."""

    directory = SimpleNamespace(rankers=dict.fromkeys(NAMES), experiments={})
    reports, learning = SimpleNamespace(ranker=report, experiment=report), SimpleNamespace(catch_up_with_all=catch_up)
    node = SimpleNamespace(ready=True, directory=directory, learning=learning, reports=reports)
    return SimpleNamespace(state=SimpleNamespace(node=node, stopping=False))


async def first_of(stream: EventStream, name: str | None = None) -> dict[str, Any]:
    async for event in stream.events(name):
        assert event.startswith(b"data: ")
        assert event.endswith(b"\n\n")
        return dict(msgspec.json.decode(event.removeprefix(b"data: ")))
    raise AssertionError("there was none")


def test_a_report_is_made_once_for_all_who_watch() -> None:
    made: Counter[str] = Counter()
    app = watched(0.0, made, gone=NAMES[3])

    async def watch() -> list[dict[str, Any]]:
        stream = EventStream(app)
        return await asyncio.gather(*(first_of(stream, NAMES[0] if number == 7 else None) for number in range(50)))

    events = run_coroutine(watch())
    assert set(made.values()) == {1}
    assert [each["name"] for each in events[0]["rankers"]] == [name for name in NAMES if name != NAMES[3]]
    assert events[7]["rankers"] == [{"name": NAMES[0]}]
    assert events[0]["experiments"] == []
    assert abs(events[0]["at"] - time.time()) < 60


def test_calls_are_answered_between_reports() -> None:
    made: Counter[str] = Counter()
    app = watched(0.005, made)

    async def watch() -> int:
        watching = asyncio.create_task(first_of(EventStream(app)))
        turns = 0
        while not watching.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert run_coroutine(watch()) >= len(NAMES) // 2


def test_a_later_event_has_a_later_report(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Counter[str] = Counter()
    app = watched(0.0, made)
    monkeypatch.setattr(monitoring, "EVENT_SECONDS", 0.05)

    async def watch() -> None:
        async for _ in EventStream(app).events(None):
            app.state.stopping = made[NAMES[0]] >= 3

    run_coroutine(asyncio.wait_for(watch(), 10))
    assert set(made.values()) == {3}

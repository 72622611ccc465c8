"""Impressions that wait for feedback take no more memory than they may, however many features they have."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from rankloop.service import settings as limits
from rankloop.service.application import learner_worker as learner
from rankloop.service.application.rebuild import replay_records
from rankloop.service.records import IMPRESSION_BYTES, ITEM_BYTES
from rankloop.service.settings import Settings
from tests.service.cases import Location, feed, inside, report, running, until

N_ITEMS, N_FEATURES = 20, 500
WIDE: dict[str, Any] = {"learner": {"kind": "3pr"}, "problem": {"n_features": N_FEATURES}}
BODY = {"items": [{"id": f"i{i}", "features": [0] * N_FEATURES} for i in range(N_ITEMS)]}
SIZE = IMPRESSION_BYTES + N_ITEMS * (ITEM_BYTES + 8 * N_FEATURES)  # bytes of such an impression
BODY_SIZE = N_ITEMS * 8 * N_FEATURES + 2_000  # the same in the log, nearly


def ask(client: httpx.Client) -> httpx.Response:
    return client.post("/rankers/wide/rank", json=BODY)


def test_what_waits_for_feedback_takes_no_memory(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """More impressions than may be kept in memory: each is found in the log when its feedback comes."""
    monkeypatch.setattr(learner, "MAX_ALL_OPEN_BYTES", 5 * SIZE)
    with running(location) as client:
        client.put("/rankers/wide", json=WIDE).raise_for_status()
        service = inside(client)
        service.log.recent.max_bytes = 5 * SIZE
        shown = [ask(client).raise_for_status().json() for _ in range(30)]
        report(client, "wide")
        course = service.learning.worker.consumers["ranker/wide"]
        assert service.log.recent.size <= 5 * SIZE
        assert course.projection.open_bytes <= 5 * SIZE
        for one in shown:
            said = {"clicks": one["ranking"][1:2], "final": True}
            assert feed(client, one["impression"], "wide", **said).json()["verdict"] == "closed"
        counts = report(client, "wide")["counts"]
        assert (counts["learned"], counts["open"]) == (30, 0)
    (result,) = replay_records(location.records())
    assert (result.learned, result.differing) == (30, ())


def test_what_is_on_its_way_to_the_log_is_limited(tmp_path: Path) -> None:
    begun, go_on = Event(), Event()
    with running(Location(tmp_path), max_open_bytes=4 * 5 * BODY_SIZE) as client, ThreadPoolExecutor(12) as pool:
        client.put("/rankers/wide", json=WIDE).raise_for_status()

        def stand_still(point: str) -> None:
            if point == "begin":
                begun.set()
                go_on.wait(30)

        inside(client).store._on_step = stand_still
        first = pool.submit(ask, client)
        assert begun.wait(10)
        answers = [pool.submit(ask, client) for _ in range(8)]
        until(lambda: sum(answer.done() for answer in answers) == 4)
        assert {answer.result().status_code for answer in answers if answer.done()} == {503}
        go_on.set()
        assert first.result().status_code == 200
        assert [answer.result().status_code for answer in answers].count(200) == 4


def test_half_of_what_a_container_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "none").write_text("max\n")
    files = [str(tmp_path / name) for name in ("memory.max", "none", "missing")]
    monkeypatch.setattr(limits, "CGROUP_LIMITS", files)
    assert Settings().max_open_bytes == 500_000
    monkeypatch.setattr(limits, "CGROUP_LIMITS", files[1:])
    assert Settings().max_open_bytes > 500_000

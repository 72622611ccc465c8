"""Impressions that wait for feedback take no more memory than they may, however many features they have."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.service.cases import Location, feed, inside, running

from rankloop.service import settings as limits
from rankloop.service.log.projection import memory_of
from rankloop.service.settings import Settings

N_ITEMS, N_FEATURES = 20, 500
WIDE: dict[str, Any] = {"learner": {"kind": "3pr"}, "problem": {"n_features": N_FEATURES}}
BODY = {"items": [{"id": f"i{i}", "features": [0] * N_FEATURES} for i in range(N_ITEMS)]}
SIZE = 2_000 + N_ITEMS * (200 + 2 * 8 * N_FEATURES)  # bytes of such an impression


def ask(client: httpx.Client) -> httpx.Response:
    return client.post("/rankers/wide/rank", json=BODY)


def test_what_waits_takes_no_more_memory_than_it_may(location: Location) -> None:
    with running(location, max_open_bytes=5 * SIZE) as client:
        client.put("/rankers/wide", json=WIDE).raise_for_status()
        answers = [ask(client) for _ in range(7)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [503] * 2
        assert answers[-1].headers["retry-after"] == "1"
        assert inside(client).open_bytes == 5 * SIZE
    with running(location, max_open_bytes=5 * SIZE) as client:  # what is open is counted after a restart too
        assert inside(client).open_bytes == 5 * SIZE
        assert ask(client).status_code == 503
        shown = answers[0].json()
        assert feed(client, shown["impression"], "wide", clicks=shown["ranking"][:1], final=True).status_code == 200
        assert [ask(client).status_code for _ in range(2)] == [200, 503]


def test_what_is_on_its_way_to_the_log_counts(tmp_path: Path) -> None:
    with running(Location(tmp_path), max_open_bytes=5 * SIZE) as client, ThreadPoolExecutor(12) as pool:
        client.put("/rankers/wide", json=WIDE).raise_for_status()
        statuses = [answer.status_code for answer in pool.map(lambda _: ask(client), range(36))]
        assert (statuses.count(200), statuses.count(503)) == (5, 31)


def test_the_size_that_is_counted_is_about_that_which_is_taken(tmp_path: Path, resident: Callable[[], int]) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/wide", json=WIDE).raise_for_status()
        for _ in range(20):
            ask(client).raise_for_status()
        before, counted = resident(), inside(client).open_bytes
        for _ in range(200):
            ask(client).raise_for_status()
        counted = inside(client).open_bytes - counted
        assert counted == 200 * SIZE
        assert resident() - before < 1.5 * counted
        open_now = inside(client).rankers["wide"].projection.open.values()
        assert sum(memory_of(impression.ranked) for impression in open_now) == inside(client).open_bytes


@pytest.fixture
def resident() -> Callable[[], int]:
    """Bytes of memory that this process has."""
    return lambda: int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_half_of_what_a_container_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "none").write_text("max\n")
    files = [str(tmp_path / name) for name in ("memory.max", "none", "missing")]
    monkeypatch.setattr(limits, "CGROUP_LIMITS", files)
    assert Settings().max_open_bytes == 500_000
    monkeypatch.setattr(limits, "CGROUP_LIMITS", files[1:])
    assert Settings().max_open_bytes > 500_000

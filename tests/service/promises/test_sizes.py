"""Much of everything: rankers, features, impressions that wait. `make soak` tries the whole numbers, here are some."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from threading import active_count
from typing import Any

import msgspec
import numpy as np
import pytest

from rankloop.service.application.jobs import states_for_other_processes
from rankloop.service.application.learner_worker import MAX_ALL_OPEN_BYTES
from rankloop.service.application.rebuild import MAX_OPEN_BYTES, replay_records, restored_consumer
from rankloop.service.application.served_ranker import ServedRanker, query_request
from rankloop.service.domain import projection
from rankloop.service.domain.configuration import config_of
from rankloop.service.http.routes import administration as ranker_calls
from rankloop.service.log.writer import entry_of
from rankloop.service.records import Created, Ranked, encode
from rankloop.service.request_bodies import CreateBody, Item, RankBody
from rankloop.service.settings import Settings
from rankloop.service.stores.open import open_store
from rankloop.service.stores.sqlite import SqliteStore
from tests.service.cases import SHOP, Location, append, feed, inside, items, learn, rank, report, running, until

N_RANKERS = int(os.environ.get("RANKLOOP_RANKERS", "300"))
N_ITEMS, N_FIELDS = (int(part) for part in os.environ.get("RANKLOOP_WIDE", "200x10000").split("x"))
N_OPEN = int(os.environ.get("RANKLOOP_OPEN", "5000"))
CREATED = Created(msgspec.convert(SHOP, CreateBody))
N_GIVEN = 20  # of the fields of an item


def megabytes() -> float:
    """Of this process, now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def test_many_rankers(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """They start, rank and learn with as many threads as a few do, and hold nobody up."""
    monkeypatch.setattr(states_for_other_processes, "MAX_BATCH", N_RANKERS // 10)
    monkeypatch.setattr(ranker_calls, "MAX_REPORTS_AT_ONCE", N_RANKERS // 10)
    store = open_store(Settings(data=location.data, store=location.store))
    for begin in range(0, N_RANKERS, 500):
        names = [f"ranker/r{number}" for number in range(begin, min(begin + 500, N_RANKERS))]
        append(store, *(entry_of(name, CREATED) for name in names))
    store.close()
    before, begun = active_count(), time.process_time()
    with running(location, patience=15 + 0.03 * N_RANKERS, max_rankers=2 * N_RANKERS) as client:
        assert (time.process_time() - begun) / N_RANKERS < 0.03  # seconds of processor time; it takes 0.001
        assert active_count() - before <= 25  # nearly all of which answer this test
        for name in ("r0", f"r{N_RANKERS - 1}"):
            learn(client, 2, name)
            until(lambda name=name: report(client, name)["counts"]["learned"] == 2)  # type: ignore[misc]
        assert len(client.get("/rankers").json()["rankers"]) == N_RANKERS
        assert client.get("/metrics").text.count("rankloop_learned_total{") == N_RANKERS
        if location.store:
            published = inside(client).store.published_seqs()
            assert len(published) == N_RANKERS
            with running(location, follower=True) as other:
                assert report(other, "r0")["counts"]["learned"] == 2
    results = {result.entity: result for result in replay_records(location.records())}
    assert len(results) == N_RANKERS
    assert (results["ranker/r0"].learned, results["ranker/r0"].differing) == (2, ())


@pytest.fixture
def wide_items() -> list[dict[str, Any]]:
    """Items of which each has a few of many fields."""
    rng = np.random.default_rng(0)
    given = rng.integers(N_FIELDS, size=(N_ITEMS, N_GIVEN))
    return [
        {"id": f"i{i}", "features": {f"f{field}": (i + field) % 7 / 7 for field in row.tolist()}}
        for i, row in enumerate(given)
    ]


def test_many_items_with_many_sparse_fields(tmp_path: Path, wide_items: list[dict[str, Any]]) -> None:
    """Numbers by name, of which nearly all are not given: an array, but not many of its size."""
    names, location = [f"f{field}" for field in range(N_FIELDS)], Location(tmp_path)
    body = {"learner": "3pr", "problem": {"feature_names": names}}
    asked, config = RankBody([Item(**item) for item in wide_items]), config_of(msgspec.convert(body, CreateBody))
    tracemalloc.start()
    query_request(asked, config, N_ITEMS)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2 * 8 * N_ITEMS * N_FIELDS
    with running(location) as client:
        client.put("/rankers/wide", json=body).raise_for_status()
        for turn in range(2):
            shown = rank(client, "wide", items=wide_items)
            answer = feed(client, shown["impression"], "wide", clicks=shown["ranking"][1:3], final=True)
            assert answer.json()["verdict"] == "closed"
            until(lambda turn=turn: report(client, "wide")["counts"]["learned"] == turn + 1)  # type: ignore[misc]
    (result,) = replay_records(location.records())
    assert (result.learned, result.differing) == (2, ())


def test_more_values_than_an_encoder_can_look_at_are_refused_at_once(
    tmp_path: Path, wide_items: list[dict[str, Any]]
) -> None:
    fields = {f"f{field}": "number" for field in range(N_FIELDS)}
    body = {"learner": "click_regression", "problem": {"schema": {"features": fields, "bits": 12}}}
    many = [dict(wide_items[i % N_ITEMS], id=f"i{i}") for i in range(1000)]
    with running(Location(tmp_path)) as client:
        client.put("/rankers/wide", json=body).raise_for_status()
        begun = time.process_time()
        answer = client.post("/rankers/wide/rank", json={"items": many})
        assert (answer.status_code, time.process_time() - begun < 2) == (413, True)
        assert "10,000,000 values, missing ones included" in answer.json()["detail"]


def shown_rows(store: SqliteStore, n: int) -> Iterator[tuple[Any, ...]]:
    """Rows of the log, each an impression that was shown now."""
    runtime = ServedRanker("ranker/shop", config_of(CREATED.body), b"", store)
    request = query_request(RankBody([Item(**item) for item in items()]), runtime.config, 1000)
    ranked, now = runtime.rank(request, "one"), time.time()
    for number in range(n):
        name = f"{number:032x}"
        body = encode(msgspec.structs.replace(ranked, impression=name))
        yield 2 + number, "ranker/shop", now, name, body, "ranked"


def test_many_impressions_that_wait(tmp_path: Path) -> None:
    """A start reads none of them, and their windows end in pieces, between which others are answered."""
    location = Location(tmp_path)
    store = SqliteStore(tmp_path / "rankloop.db")
    window = 1800.0
    append(store, entry_of("ranker/shop", CREATED))
    store._writer.execute("BEGIN IMMEDIATE")
    store._writer.executemany(
        "INSERT INTO rankloop_events (seq, entity, at, impression, body, kind) VALUES (?, ?, ?, ?, ?, ?)",
        shown_rows(store, N_OPEN),
    )
    store._writer.execute("COMMIT")
    store.close()
    store = SqliteStore(tmp_path / "rankloop.db")
    course = restored_consumer("ranker/shop", store, store.last())
    assert course.projection.open_bytes <= MAX_OPEN_BYTES
    append(store, entry_of("ranker/shop", *course.snapshot()))  # as the learner does after so many events
    ago = time.time() - (window - 3)  # so that no time between two events is longer than the window
    store._writer.execute("UPDATE rankloop_events SET at = ? WHERE kind = 'ranked'", [ago])
    store.close()
    before, begun = megabytes(), time.process_time()
    with running(location) as client:
        assert time.process_time() - begun < 2
        service = inside(client)
        assert report(client)["counts"]["open"] == N_OPEN
        waits, ranked = [], 0
        while (counts := report(client)["counts"])["closed"] < N_OPEN:
            asked = time.monotonic()
            rank(client)
            waits.append(time.monotonic() - asked)
            ranked += 1
            assert counts["open"] + counts["closed"] <= N_OPEN + ranked
            assert service.learning.worker.consumers["ranker/shop"].projection.open_bytes <= MAX_ALL_OPEN_BYTES
            time.sleep(0.02)
        assert sorted(waits)[len(waits) // 2] < 1.0
        assert ranked > 2  # that is, they did not close all at once
        assert megabytes() - before < 150
        assert report(client)["counts"]["open"] == ranked
    (result,) = replay_records(location.records())
    assert result.differing == ()


def test_a_snapshot_comes_though_nothing_is_learned(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a restart would read again all that was shown since the last update."""
    monkeypatch.setattr(projection, "MAX_EVENTS_WITHOUT_SNAPSHOT", 10)
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP).raise_for_status()
        first = rank(client)
        for _ in range(12):
            rank(client)
        service = inside(client)
        until(lambda: (kept := service.store.snapshot("ranker/shop")) is not None and kept.number == 0)
        kept = service.store.snapshot("ranker/shop")
        (shown,) = service.store.records_of_impression("ranker/shop", first["impression"])
        assert isinstance(shown.event, Ranked)
        assert kept.oldest_open == shown.seq  # where a restart looks for windows
        assert feed(client, first["impression"], clicks=first["ranking"][1:2], final=True).status_code == 200
        until(lambda: report(client)["counts"]["learned"] == 1)
    (result,) = replay_records(location.records())
    assert (result.learned, result.differing) == (1, ())

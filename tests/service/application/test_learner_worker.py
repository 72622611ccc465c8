"""The learner: many rankers in a few threads, several partitions in several processes, everything learned once."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rankloop.service.application import learner_worker as learner
from rankloop.service.application.jobs import lease as leases
from rankloop.service.application.rebuild import replay_records, restored_consumer
from rankloop.service.domain.projection import LOG_BYTES_PER_SNAPSHOT_BYTE
from rankloop.service.log.writer import entry_of
from rankloop.service.records import Created, Ranked, Snapshotted, partition_of
from rankloop.service.request_bodies import CreateBody
from rankloop.service.settings import Settings
from rankloop.service.stores.open import open_store
from tests.service.cases import SHOP, Location, append, feed, inside, items, learn, rank, report, running, until
from tests.service.shop import NAMED, products, visit


def test_partitions_are_learned_by_different_processes(
    tmp_path: Path, postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "MIN_REGISTERED_SECONDS", 0.2)
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.1)
    location = Location(tmp_path, postgres())
    names = ["a", "b", "c", "d", "e", "f"]
    with (
        running(location, follower=True) as even,
        running(location, follower=True) as odd,
        running(location, follower=True, learns=False) as none,
    ):
        workers = [inside(client).learning.worker for client in (even, odd)]
        until(lambda: [len(worker.leases.held) for worker in workers] == [8, 8])
        for name in names:
            none.put(f"/rankers/{name}", json=SHOP).raise_for_status()
        for turn in range(3):
            for name in names:
                shown = rank(none, name, items=items(shift=turn))
                feed(odd, shown["impression"], name, clicks=shown["ranking"][1:2], final=True).raise_for_status()
        for client in (even, odd, none):
            until(lambda client=client: all(report(client, name)["state"] == 3 for name in names))  # type: ignore[misc]
        for worker in workers:
            held = [f"ranker/{name}" for name in names if partition_of(f"ranker/{name}", 16) in worker.leases.held]
            assert set(worker.consumers) == set(held)
        assert inside(none).learning.worker.consumers == {}
        weights = [[report(client, name)["weights"] for name in names] for client in (even, odd, none)]
        assert weights[0] == weights[1] == weights[2]
    assert [result.learned for result in replay_records(location.records())] == [3] * len(names)


def test_the_same_at_two_workers_at_the_same_moment_counts_once(tmp_path: Path, postgres: Callable[[], str]) -> None:
    location = Location(tmp_path, postgres())
    with running(location) as first, running(location, follower=True) as second, ThreadPoolExecutor(8) as pool:
        first.put("/rankers/shop", json=SHOP).raise_for_status()

        def ask(turn: int) -> list[Any]:
            body, key = {"items": items(shift=turn)}, {"Idempotency-Key": f"key {turn}"}
            calls = [pool.submit(each.post, "/rankers/shop/rank", json=body, headers=key) for each in (first, second)]
            return [call.result().json() for call in calls]

        for turn in range(20):
            one, other = ask(turn)
            assert one == other
            said = {"impression": one["impression"], "clicks": one["ranking"][1:2], "final": True}
            path = "/rankers/shop/feedback"
            calls = [pool.submit(each.post, path, json=said) for each in (first, second, first, second)]
            verdicts = sorted(call.result().json()["verdict"] for call in calls)
            assert verdicts == ["closed", "repeated", "repeated", "repeated"]
        until(lambda: report(first)["counts"]["learned"] == 20)
        assert report(first)["counts"]["impressions"] == 20
    (result,) = replay_records(location.records())
    assert (result.learned, result.differing) == (20, ())


def test_feedback_at_another_process_is_learned_within_a_second_after_a_pause(
    tmp_path: Path, postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The learner worker reads the log by itself; nobody sends it a notification."""
    monkeypatch.setattr(learner, "ACTIVE_SECONDS", 0.2)
    location = Location(tmp_path, postgres())
    with running(location) as learning, running(location, follower=True, learns=False) as serving:
        serving.put("/rankers/shop", json=SHOP).raise_for_status()
        for turn in range(1, 4):
            shown = rank(serving, items=items(shift=turn))
            until(lambda: time.monotonic() - inside(learning).learning.worker._active_at > 0.5)
            feed(serving, shown["impression"], clicks=shown["ranking"][1:2], final=True).raise_for_status()
            sent_at = time.monotonic()
            until(lambda turn=turn: inside(serving).directory.rankers["shop"].published.number == turn)  # type: ignore[misc]
            assert time.monotonic() - sent_at < 1.0


def test_a_large_state_is_written_now_and_then(tmp_path: Path) -> None:
    location = Location(tmp_path)
    with running(location) as client:
        client.put("/rankers/shop", json=NAMED | {"snapshot_every": 1}).raise_for_status()
        for turn in range(60):
            visit(client, items=products(20, shift=turn))
        assert inside(client).learning.worker.consumers["ranker/shop"].snapshot_bytes > 0
    records = location.records()
    seen = [record.event for record in records if isinstance(record.event, Snapshotted)]
    assert 2 <= len(seen) < 30  # one at the first update, one at the end, few between
    store = [record for record in records if isinstance(record.event, Ranked | Snapshotted)]
    sizes, since = [], 0
    for record in store:
        if isinstance(record.event, Ranked):
            since += len(record.event.values) + 16 * len(record.event.ids)
        else:
            sizes.append(since)
            since = 0
    assert all(size >= LOG_BYTES_PER_SNAPSHOT_BYTE * 1000 for size in sizes[1:-1])
    assert [result.differing for result in replay_records(records)] == [()]
    assert [result.checked for result in replay_records(records)] == [len(seen)]


def test_a_small_state_as_often_as_it_is_asked_for(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2}).raise_for_status()
        learn(client, 6)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 4)


CREATED = Created(msgspec.convert(SHOP | {"window": 10}, CreateBody))


def set_time(store: Any, seq: int, at: float) -> None:
    if store.shared:
        store.rows("UPDATE rankloop_events SET at = %s WHERE seq = %s RETURNING seq", [at, seq])
    else:
        store._writer.execute("UPDATE rankloop_events SET at = ? WHERE seq = ?", (at, seq))


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((0, 1, 4), [6, 7]),  # a quick restart: began + window - now
        ((0, 4, 12), [0, 2]),  # no gap is longer than the window: what was over is over
        ((0, 1, 1_000), [9, 10]),  # down, or a clock that was set
        ((0, 1, 1_000, 1_002), [7, 8, 8]),  # the same, and then a restart
        ((0, 1_000, 2_000), [10, 10]),  # down twice
        ((0, 3, 1_000, 1_004, 3_000, 3_001), [2, 5, 5, 9, 9]),  # down twice, with visits between
        ((1_000, 0, 3), [7, 7]),  # a clock that was set back
    ],
)
def test_what_is_left_of_a_window(location: Location, times: list[float], expected: list[float]) -> None:
    """Of impressions shown at these times but for the last, which is now."""
    *shown, now = times
    store = open_store(Settings(data=location.data, store=location.store))
    append(store, entry_of("ranker/a", CREATED))
    numbers = append(store, *(entry_of("ranker/a", Ranked(f"{at}", [], b"", [])) for at in shown))
    for seq, at in zip(numbers, shown):
        set_time(store, seq, at)
    consumer = restored_consumer("ranker/a", store, store.last())
    windows = learner.FeedbackWindows(consumer)
    left = [max(10 - windows.elapsed(seq, at, now), 0) for seq, at in zip(numbers, shown)]
    assert left == pytest.approx(expected, abs=0.5)  # time goes on between two of them
    assert windows.expired(now, store.last()) == [f"{at}" for at, left in zip(shown, expected) if left == 0]
    store.close()


def test_windows_that_have_waited_for_long_are_measured_in_one_reading(location: Location) -> None:
    """A learner that is late by more than the windows must not read the log again for each of them."""
    store = open_store(Settings(data=location.data, store=location.store))
    append(store, entry_of("ranker/a", CREATED))
    numbers = append(store, *(entry_of("ranker/a", Ranked(f"{n}", [], b"", [])) for n in range(60)))
    for n, seq in enumerate(numbers):
        set_time(store, seq, float(n))
    windows = learner.FeedbackWindows(restored_consumer("ranker/a", store, store.last()))
    read: list[int] = []
    elapsed_seconds = store.elapsed_seconds

    def noted(entity: str, seq: int, *others: Any, until: int | None = None) -> float:
        read.append(sum(seq <= number <= (until or numbers[-1]) for number in numbers))
        return elapsed_seconds(entity, seq, *others, until=until)

    store.elapsed_seconds = noted  # type: ignore[method-assign]
    assert windows.expired(64.0, store.last()) == [f"{n}" for n in range(55)]
    assert len(read) > 30
    assert sum(read) <= 3 * len(numbers)
    store.close()

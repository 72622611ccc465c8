"""The learner: many rankers in a few threads, several partitions in several processes, everything learned once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from tests.service.cases import SHOP, Location, append, feed, inside, items, rank, report, running, until

from rankloop.service.log.events import Created, partition_of, ranker_entity
from rankloop.service.log.replay import replayed
from rankloop.service.log.stores.open import open_store
from rankloop.service.log.writer import entry_of
from rankloop.service.requests import CreateBody
from rankloop.service.settings import Settings

MANY = 500


def test_many_rankers_take_a_few_threads(tmp_path: Path) -> None:
    location, body = Location(tmp_path), msgspec.convert(SHOP, CreateBody)
    store = open_store(Settings(data=tmp_path))
    append(store, *(entry_of(ranker_entity(f"r{number}"), Created(body)) for number in range(MANY)))
    store.close()
    before = threading.active_count()
    with running(location, max_rankers=MANY + 1) as client:
        for number in range(0, MANY, 50):
            shown = rank(client, f"r{number}")
            said = {"clicks": shown["ranking"][1:2], "final": True}
            assert feed(client, shown["impression"], f"r{number}", **said).json()["state"] == 1
        assert threading.active_count() - before < 15
        assert len(inside(client).learner.courses) == MANY
    learned = [result.learned for result in replayed(location.records())]
    assert (len(learned), sum(learned)) == (MANY, MANY // 50)


def test_partitions_are_learned_by_different_processes(tmp_path: Path, postgres: Callable[[], str]) -> None:
    location = Location(tmp_path, postgres())
    names = ["a", "b", "c", "d", "e", "f"]
    with (
        running(location, follower=True, partitions=2, learn=(0,)) as even,
        running(location, follower=True, learn=(1,)) as odd,
        running(location, follower=True, learn=()) as none,
    ):
        until(lambda: inside(even).learner.leases.held and inside(odd).learner.leases.held)
        for name in names:
            none.put(f"/rankers/{name}", json=SHOP).raise_for_status()
        for turn in range(3):
            for name in names:
                shown = rank(none, name, items=items(shift=turn))
                feed(odd, shown["impression"], name, clicks=shown["ranking"][1:2], final=True).raise_for_status()
        for client in (even, odd, none):
            until(lambda client=client: all(report(client, name)["state"] == 3 for name in names))  # type: ignore[misc]
        for client, part in ((even, 0), (odd, 1)):
            expected = {ranker_entity(name) for name in names if partition_of(ranker_entity(name), 2) == part}
            assert set(inside(client).learner.courses) == expected
        assert inside(none).learner.courses == {}
        weights = [[report(client, name)["weights"] for name in names] for client in (even, odd, none)]
        assert weights[0] == weights[1] == weights[2]
    assert [result.learned for result in replayed(location.records())] == [3] * len(names)


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
    (result,) = replayed(location.records())
    assert (result.learned, result.differing) == (20, ())

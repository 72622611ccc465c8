"""Several workers on PostgreSQL: the learner is killed, the database restarts; nothing is lost or learned twice."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Timer
from typing import Any

import httpx
import psycopg
import pytest

from rankloop.service.application import learner_worker as learner
from rankloop.service.application.rebuild import restored_consumer
from rankloop.service.errors import Unavailable
from rankloop.service.records import partition_of
from rankloop.service.stores.postgres import N_PARTITIONS
from tests.service.cases import SHOP, Location, feed, inside, items, learn, rank, report, running, until
from tests.service.processes import SOLD, Told, Visitors, serving
from tests.service.promises.durability import check_survived

LEADER = "SELECT holder FROM rankloop_leases WHERE until > clock_timestamp() AND partition = %s"


def _leader(store: str, entity: str = "ranker/shop") -> int | None:
    with psycopg.connect(store) as connection:
        row = connection.execute(LEADER, [partition_of(entity, N_PARTITIONS)]).fetchone()
        return int(row[0].split()[1]) if row else None


@pytest.mark.slow
def test_when_the_learner_is_killed_another_worker_takes_over(tmp_path: Path, postgres: Callable[[], str]) -> None:
    location = Location(tmp_path, postgres())
    told: Told = []
    process, port = serving(location, "--workers", "3")
    try:
        until(lambda: _leader(location.store) is not None)
        visitors = Visitors(port, told, persistent=True)
        for kill in (1, 2):
            visitors.until(60 * kill)
            killed = _leader(location.store)
            assert killed is not None
            os.kill(killed, signal.SIGKILL)
            until(lambda killed=killed: _leader(location.store) not in (None, killed))  # type: ignore[misc]
        visitors.until(180)
        visitors.leave()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    check_survived(location, told)


def test_workers_share_impressions_and_states(tmp_path: Path, postgres: Callable[[], str]) -> None:
    location = Location(tmp_path, postgres())
    with running(location) as first:
        assert first.put("/rankers/shop", json=SHOP).status_code == 201
        with running(location, follower=True) as second:
            for turn in range(10):
                here, there = (first, second) if turn % 2 else (second, first)
                shown = rank(here, items=items(shift=turn))
                assert feed(there, shown["impression"], clicks=shown["ranking"][1:2], final=True).status_code == 200
            until(lambda: report(second)["state"] == report(first)["state"] == 10)
            assert report(first)["weights"] == report(second)["weights"]
            assert second.put("/rankers/shop", json=SHOP | {"seed": 9}).status_code == 409
    check_survived(location, [])


def test_a_take_over_that_fails_is_tried_again(
    tmp_path: Path, postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    location, tries = Location(tmp_path, postgres()), []  # type: ignore[var-annotated]
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 3})
        learn(client, 5)

    def broken(*arguments: Any) -> Any:
        tries.append(arguments)
        if len(tries) <= 2:
            raise Unavailable("the database went away in the middle of it")
        return restored_consumer(*arguments)

    monkeypatch.setattr(learner, "restored_consumer", broken)
    with running(location, follower=True) as client:
        until(lambda: len(tries) == 3)
        until(lambda: inside(client).learning.learns_all)
        learn(client, 5)
        assert report(client)["counts"]["learned"] == 10
    check_survived(location, [])


def test_a_stop_in_the_middle_of_a_take_over_writes_no_snapshot(
    tmp_path: Path, postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    location, entered, go_on = Location(tmp_path, postgres()), Event(), Event()
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP)
        learn(client, 5)
    before = location.records()

    def slow(*arguments: Any) -> Any:
        entered.set()
        go_on.wait(30)
        return restored_consumer(*arguments)

    monkeypatch.setattr(learner, "restored_consumer", slow)
    with running(location, follower=True):
        assert entered.wait(30)
        Timer(0.5, go_on.set).start()
    assert location.records() == before
    check_survived(location, [])


def test_workers_draw_different_rankings(tmp_path: Path, postgres: Callable[[], str]) -> None:
    location = Location(tmp_path, postgres())
    with running(location) as first, running(location, follower=True) as second:
        first.put("/rankers/shop", json=SHOP)
        assert second.get("/rankers/shop").status_code == 200  # at once, although it was created elsewhere
        shown = [[tuple(rank(client, items=items(8))["ranking"]) for _ in range(6)] for client in (first, second)]
        assert shown[0] != shown[1]


def test_what_was_created_elsewhere_is_found_by_every_call(tmp_path: Path, postgres: Callable[[], str]) -> None:
    location = Location(tmp_path, postgres())
    calls = ["/rankers/{}", "/rankers/{}/state", "/rankers/{}/snapshots", "/rankers/{}/history", "/log/{}.jsonl"]
    with running(location) as first, running(location, follower=True) as second:
        for number, call in enumerate(calls):
            first.put(f"/rankers/shop{number}", json=SHOP).raise_for_status()
            assert second.get(call.format(f"shop{number}")).status_code == 200, call
        first.put("/rankers/variant", json=SHOP).raise_for_status()
        variants = {"a": {"ranker": "variant"}, "b": {"weights": [1, 0, 0]}}
        assert second.put("/experiments/duel", json=variants).status_code == 201


def _steps(client: httpx.Client) -> tuple[int, int]:
    seen = report(client)
    return seen["counts"]["learned"], seen["health"]["refused"]


def test_refused_steps_are_counted_alike_everywhere(tmp_path: Path, postgres: Callable[[], str]) -> None:
    location = Location(tmp_path, postgres())
    raw = {"kind": "robust", "inner": SHOP["learner"], "clip": False}
    huge = [{"id": f"i{i}", "features": [1e305 * (i + 1), 1e305, -1e305 * i]} for i in range(3)]
    with running(location) as first, running(location, follower=True) as second:
        first.put("/rankers/shop", json=SHOP | {"learner": raw, "max_click_weight": 1e6}).raise_for_status()
        for turn in range(1, 7):
            shown = rank(second, items=huge)
            feed(second, shown["impression"], clicks={shown["ranking"][1]: 1e6}, final=True).raise_for_status()
            until(lambda turn=turn: sum(_steps(first)) == turn)  # type: ignore[misc]
            until(lambda: _steps(second) == _steps(first))
        assert _steps(first)[1] > 0


def test_what_each_worker_counts_for_itself_names_the_worker(tmp_path: Path, postgres: Callable[[], str]) -> None:
    location = Location(tmp_path, postgres())
    with running(location) as first, running(location, follower=True) as second:
        first.put("/rankers/shop", json=SHOP).raise_for_status()
        assert feed(second, "nowhere", clicks=[]).status_code == 404
        slots = [inside(client).slot for client in (first, second)]
        lines = [client.get("/metrics").text.splitlines() for client in (first, second)]
    counted = 'rankloop_unknown_total{{ranker="shop",worker="{}"}} {}'
    assert counted.format(slots[0], 0.0) in lines[0]
    assert counted.format(slots[1], 1.0) in lines[1]


def test_who_does_not_learn_tells_who_does_and_how_far_behind(tmp_path: Path, postgres: Callable[[], str]) -> None:
    location = Location(tmp_path, postgres())
    with running(location, follower=True, learns=False) as client:
        with running(location) as other:
            other.put("/rankers/shop", json=SHOP).raise_for_status()
            learn(other, 1)
            until(lambda: _measured(client, "rankloop_partitions_without_learner") == [0.0])
            assert _measured(client, "rankloop_lease_holder") == [1.0] * N_PARTITIONS
            until(lambda: _measured(client, "rankloop_learner_lag_seconds") == [0.0])
        rank(client)
        until(lambda: _measured(client, "rankloop_partitions_without_learner") == [float(N_PARTITIONS)])
        until(lambda: _measured(client, "rankloop_learner_lag_seconds")[0] > 0.5)


def _measured(client: httpx.Client, name: str) -> list[float]:
    lines = client.get("/metrics").text.splitlines()
    return [float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + "{")]


@pytest.mark.slow
def test_a_restart_of_the_database_is_survived(tmp_path: Path, postgres: Callable[[], str]) -> None:
    location, told = Location(tmp_path, postgres()), []  # type: ignore[var-annotated]
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | SOLD)
        visitors = Visitors(int(str(client.base_url).split(":")[2].strip("/")), told, n=2, persistent=True)
        visitors.until(20)
        with psycopg.connect(location.store, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = "
                "current_database()"
            )
        time.sleep(0.2)
        visitors.until(len(told) + 40)
        visitors.leave()
    check_survived(location, told)

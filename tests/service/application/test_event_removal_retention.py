"""Old events of closed impressions are deleted: what was learned from them stays, and a replay goes on from there."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx

from rankloop.service.application.event_removal import Amendment
from rankloop.service.application.rebuild import replay_log, replay_records
from rankloop.service.records import Ranked, Rebased, SchemaChanged
from tests.service.cases import SHOP, Location, feed, inside, items, learn, rank, report, running, until
from tests.service.shop import NAMED, products, visit

VARIANTS = {"a": {"ranker": "shop"}, "b": {"weights": [1.0, 0.0, 0.0]}}


def test_old_events_are_deleted_and_a_replay_goes_on_from_the_state_that_they_left(location: Location) -> None:
    """The log is bounded: closed impressions before a time go, in any number of rounds, and nothing else changes."""
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 4})
        for learned in (20, 40, 60):
            learn(client, 10)
            early = rank(client)  # its feedback comes late, perhaps after the events around it were deleted
            learn(client, 9)
            if learned < 60:
                feed(client, early["impression"], clicks=early["ranking"][1:2], final=True)
            else:
                learn(client, 1)
            until(lambda n=learned: report(client)["counts"]["learned"] == n)  # type: ignore[misc]
            node, store = inside(client), inside(client).store
            until(lambda node=node, n=learned: _snapshot_number(node) == n)  # type: ignore[misc]
            served = report(client)["counts"]
            assert _deleted(node, time.time() - 60) == 0
            assert _deleted(node, time.time() + 1) >= 18
            assert _deleted(node, time.time() + 1) == 0
            records = list(store.read("ranker/shop"))
            assert sum(isinstance(record.event, Rebased) and bool(record.event.projection) for record in records) == 1
            assert sum(isinstance(record.event, Ranked) for record in records) <= 15
            assert report(client)["counts"] == served
            (result,) = replay_records(iter(records))
            assert (result.learned, result.differing) == (learned, ())
    with running(location) as client:
        assert feed(client, early["impression"], clicks=early["ranking"][1:2], final=True).status_code == 200
        assert report(client)["counts"]["learned"] == 61
        first = next(record for record in location.records() if isinstance(record.event, Ranked))
        forgotten = client.post("/rankers/shop/forget", json={"shown_before": first.at + 1e-6})
        assert forgotten.json() == {"forgotten": 1}
    (result,) = replay_log(location.store or str(location.data))
    assert (result.learned, result.differing) == (60, ())


def test_events_are_deleted_in_pieces_for_which_new_events_wait_only_shortly(
    location: Location, monkeypatch: Any
) -> None:
    """Impressions that close long after they were shown do not end the deletion, however small the pieces are."""
    monkeypatch.setattr("rankloop.service.application.event_removal.MAX_DELETED_EVENTS", 4)
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 4})
        waiting = [rank(client) for _ in range(6)]
        learn(client, 9)
        for shown in waiting:
            feed(client, shown["impression"], clicks=shown["ranking"][:1], final=True)
        learn(client, 5)
        until(lambda: report(client)["counts"]["learned"] == 20)
        node = inside(client)
        until(lambda: _snapshot_number(node) == 20)
        assert _deleted(node, time.time() + 1) >= 38
        assert not any(isinstance(record.event, Ranked) for record in node.store.read("ranker/shop"))
        learn(client, 2)
    (result,) = replay_log(location.store or str(location.data))
    assert (result.learned, result.differing) == (22, ())


def test_an_experiment_keeps_its_counts_and_goes_on(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP)
        assert client.put("/experiments/trial", json=VARIANTS).status_code == 201
        _compare(client, 10)
        waiting = client.post("/experiments/trial/rank", json={"items": items()}).json()
        _compare(client, 5)
        service = inside(client)
        before = client.get("/experiments/trial").json()
        assert _deleted(service, time.time() + 1) >= 18
        assert len(list(service.store.read("experiment/trial"))) < 20
        assert client.get("/experiments/trial").json() == before
    with running(location) as client:
        assert client.get("/experiments/trial").json() == before
        answer = client.post(
            "/experiments/trial/feedback",
            json={"impression": waiting["impression"], "clicks": waiting["ranking"][:1], "final": True},
        )
        assert answer.status_code == 200
        after = client.get("/experiments/trial").json()
    logged = [sum(found[name] for name in ("wins", "ties", "losses")) for found in (before, after)]
    assert logged == [15, 16]


def _compare(client: httpx.Client, times: int) -> None:
    for turn in range(times):
        shown = client.post("/experiments/trial/rank", json={"items": items(shift=turn)}).json()
        body = {"impression": shown["impression"], "clicks": shown["ranking"][:1], "final": True}
        client.post("/experiments/trial/feedback", json=body).raise_for_status()


def test_events_after_a_clock_that_was_set_back_wait_for_those_before(location: Location, monkeypatch: Any) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2})
        learn(client, 4)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 3)
        store = inside(client).store
        read, jumped = store.read, list(store.read("ranker/shop"))[4].seq

        def read_with_jump(*where: Any) -> Any:
            for record in read(*where):
                yield record._replace(at=record.at + 1e9 * (record.seq == jumped))

        monkeypatch.setattr(store, "read", read_with_jump)
        removed = Amendment(store, "ranker/shop").old_events(time.time() + 1)
        assert removed
        assert max(removed) < jumped


def test_a_schema_outlives_the_impressions_that_it_encoded(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=NAMED).raise_for_status()
        visit(client)
        early = client.post("/rankers/shop/rank", json={"items": products(3)}).json()
        client.patch("/rankers/shop/schema", json={"features": {"stock": "number"}}).raise_for_status()
        visit(client, items=products(stock=1))
        late = {"impression": early["impression"], "clicks": ["p0"], "final": True}
        assert feed(client, **late).json()["verdict"] == "closed"
        waiting = client.post("/rankers/shop/rank", json={"items": products(3, stock=2)}).json()
    with running(location) as client:
        node = inside(client)
        assert _deleted(node, time.time() + 1) >= 6
        assert any(isinstance(record.event, SchemaChanged) for record in node.store.read("ranker/shop"))
    with running(location) as client:
        assert report(client)["schema"]["version"] == 2
        visit(client, items=products(stock=3))
        assert feed(client, waiting["impression"], clicks=["p0"], final=True).json()["verdict"] == "closed"
        assert report(client)["counts"]["rejected"] == 0
    (result,) = replay_log(location.store or str(location.data))
    assert (result.learned, result.differing) == (5, ())


def _deleted(node: Any, end_time: float) -> int:
    return int(asyncio.run_coroutine_threadsafe(node.delete_events_before(end_time), node.log._loop).result())


def _snapshot_number(node: Any) -> int:
    node.learning.worker.request_snapshot("ranker/shop").result(15)
    return int(node.store.snapshots("ranker/shop")[-1][0])

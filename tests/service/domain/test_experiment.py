"""Comparisons of rankers with schemas: each variant is told the fields that it has, and one field means one thing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from rankloop.service.application.rebuild import replay_records
from rankloop.service.domain.configuration import config_of
from rankloop.service.domain.counters import LOST_TO_BASE
from rankloop.service.domain.projection import Projection
from rankloop.service.records import Frozen, Record, RolledBack, Snapshotted
from rankloop.service.request_bodies import CreateBody
from tests.service.cases import SHOP, Location, inside, learn, rank, report, running, until
from tests.service.shop import NAMED, SCHEMA, products, visit

PLAIN = {"features": {"price": "number"}, "bits": 10}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running(Location(tmp_path_factory.mktemp("compared"))) as client:
        client.put("/catalogues/c", json={"rows": {f"p{i}": {"price": i, "brand": "Acme"} for i in range(5)}})
        schemas: dict[str, Any] = {
            "wide": {"schema": SCHEMA},
            "narrow": {"schema": PLAIN},
            "other": {"schema": {"features": {"price": "category"}}},
            "turned": {"schema": SCHEMA | {"context": {"segment": "id"}}},
            "wide-c": {"schema": SCHEMA, "catalogue": "c"},
            "narrow-c": {"schema": PLAIN, "catalogue": "c"},
            "dense": {"n_features": 2},
        }
        for name, problem in schemas.items():
            learner = "3pr" if name == "dense" else "click_regression"
            client.put(f"/rankers/{name}", json={"learner": learner, "problem": problem}).raise_for_status()
        visit(client, "wide")
        yield client


def compare(client: httpx.Client, a: str, b: Any) -> httpx.Response:
    other = b if isinstance(b, dict) else {"ranker": b}
    return client.put(f"/experiments/{a}-{b if isinstance(b, str) else 'x'}", json={"a": {"ranker": a}, "b": other})


def test_each_side_is_told_what_it_knows(client: httpx.Client) -> None:
    assert compare(client, "narrow", "wide").status_code == 201
    asked = {"items": products(), "context": {"segment": "sport"}, "excluded": ["p0"]}
    shown = client.post("/experiments/narrow-wide/rank", json=asked, headers={"Idempotency-Key": "k"})
    assert shown.status_code == 200, shown.text
    assert (
        client.post("/experiments/narrow-wide/rank", json=asked, headers={"Idempotency-Key": "k"}).json()
        == shown.json()
    )
    assert sorted(shown.json()["ranking"]) == [f"p{i}" for i in range(1, 6)]
    click = {"impression": shown.json()["impression"], "clicks": shown.json()["ranking"][:1], "final": True}
    assert client.post("/experiments/narrow-wide/feedback", json=click).json()["verdict"] == "closed"
    for wrong, field in (({"colour": 1}, "items"), ({"price": "x"}, "items"), ({"title": 3}, "items")):
        answer = client.post("/experiments/narrow-wide/rank", json={"items": [{"id": 1, "features": wrong}]})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


@pytest.mark.parametrize("name", ["wide", "dense"])
def test_the_order_as_given_is_a_side(client: httpx.Client, name: str) -> None:
    """Today's order, as the request gives it, is compared with a ranker of any kind of items."""
    path = f"/experiments/today-{name}"
    created = client.put(path, json={"a": {"ranker": name}, "b": {"kind": "given_order"}})
    assert created.status_code < 300, created.text
    rows = [{"id": f"p{i}", "features": {"price": i} if name == "wide" else [0.1 * i, 1.0]} for i in range(6)]
    firsts = set()
    for _ in range(20):
        shown = client.post(f"{path}/rank", json={"items": rows})
        assert shown.status_code == 200, shown.text
        assert sorted(shown.json()["ranking"]) == [f"p{i}" for i in range(6)]
        firsts.add(shown.json()["ranking"][0])
    assert "p0" in firsts
    both = client.put("/experiments/none", json={"a": {"kind": "given_order"}, "b": {"kind": "given_order"}})
    assert both.status_code == 422


def test_a_ranker_can_show_the_order_as_given(client: httpx.Client) -> None:
    body = {"learner": "given_order", "problem": {"schema": SCHEMA}}
    client.put("/rankers/today", json=body).raise_for_status()
    rows = [{"id": name, "features": {"price": 3}} for name in "cab"]
    shown = client.post("/rankers/today/rank", json={"items": rows}).json()
    assert shown["ranking"] == ["c", "a", "b"]
    assert shown["log_propensity"] == 0.0
    assert compare(client, "wide", "today").status_code < 300


def test_a_click_cannot_weigh_more_than_the_ranker_declares(client: httpx.Client) -> None:
    """Two clicks of weight 1,000 could bring the worst product to the top."""
    for name, limit in (("usual", 20.0), ("strict", 2.0)):
        body = {"learner": "newton_pairs", "problem": {"n_features": 2}}
        client.put(f"/rankers/{name}", json=body | ({} if name == "usual" else {"max_click_weight": limit}))
        rows = [{"id": f"p{i}", "features": [0.1 * i, 1.0]} for i in range(3)]
        shown = client.post(f"/rankers/{name}/rank", json={"items": rows}).json()["impression"]
        heavy = {"impression": shown, "clicks": {"p1": limit + 0.1}}
        answer = client.post(f"/rankers/{name}/feedback", json=heavy)
        assert answer.status_code == 422
        assert "max_click_weight" in answer.text
        allowed = client.post(f"/rankers/{name}/feedback", json=heavy | {"clicks": {"p1": limit}})
        assert allowed.status_code == 200, allowed.text
    refused = client.put("/rankers/none", json=body | {"max_click_weight": 0.0})
    assert refused.status_code == 422


def test_a_side_may_evolve(client: httpx.Client) -> None:
    compare(client, "narrow", "wide")
    client.patch("/rankers/narrow/schema", json={"features": {"stock": "number"}}).raise_for_status()
    answer = client.post("/experiments/narrow-wide/rank", json={"items": products(stock=3)})
    assert answer.status_code == 200, answer.text


def test_ids_are_enough_where_both_have_the_same_catalogue(client: httpx.Client) -> None:
    assert compare(client, "wide-c", "narrow-c").status_code == 201
    assert client.post("/experiments/wide-c-narrow-c/rank", json={"ids": ["p1", "p2"]}).status_code == 200


@pytest.mark.parametrize(
    ("b", "field"),
    [
        ("other", "b"),
        ("turned", "b"),
        ("dense", "b"),
        ("wide-c", "b"),
        ({"weights": [1.0] * 6}, "b.weights"),
    ],
)
def test_sides_that_do_not_fit(client: httpx.Client, b: Any, field: str) -> None:
    answer = compare(client, "wide", b)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
    assert NAMED["problem"]["schema"] is SCHEMA


GUARDED: dict[str, Any] = SHOP | {"base": {"feature": "age"}, "evaluation_share": 0.5, "guard": True}


def test_what_the_guard_says_is_one_event(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=GUARDED | {"snapshot_every": 2})
        runtime = inside(client).directory.ranker("shop")
        runtime.config = runtime.config._replace(
            body=msgspec.structs.replace(runtime.config.body, evaluation_share=0.0)
        )
        learn(client, 3)
        inside(client).learning.worker.consumers["ranker/shop"].projection.now.counters.losses = 16
        learn(client, 1)  # the guard looks whenever an impression closes
        until(lambda: runtime.projection.frozen)
        learned = report(client)["counts"]["learned"]
        learn(client, 2)
        assert report(client)["counts"]["learned"] == learned
        assert report(client)["reason"] == LOST_TO_BASE
    said = [record.event for record in location.records() if isinstance(record.event, Frozen | RolledBack)]
    assert said == [RolledBack(2, LOST_TO_BASE, freezes=True)]
    (result,) = replay_records(location.records())
    assert (result.learned, result.differing) == (learned, ())


def test_a_guard_that_was_cut_short_speaks_at_the_next_start(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=GUARDED)
        report(client)
        course = inside(client).learning.worker.consumers["ranker/shop"]
        course.projection.now.counters.losses = 16  # and the process ends before it is noticed
        course.snapshot_is_current = False
    with running(location) as client:
        until(lambda: report(client)["frozen"])
        assert report(client)["reason"] == LOST_TO_BASE


def test_going_back_and_stopping_are_folded_together() -> None:
    projection = Projection(config_of(msgspec.convert(GUARDED, CreateBody)))
    outcome = projection.apply(Record(7, "ranker/shop", 0.0, RolledBack(3, "why", freezes=True)))
    assert (projection.now.frozen, projection.now.reason) == (True, "why")
    assert outcome == ("done", True, True)  # a step, after which a snapshot is due
    after = Projection(projection.config)
    after.restore(projection.saved())  # what the snapshot of that moment keeps
    assert after.now.frozen


@pytest.mark.parametrize("number", [2, 4])
def test_a_replay_that_differs_where_it_goes_back_says_so(tmp_path: Path, number: int) -> None:
    location = Location(tmp_path)
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2})
        learn(client, 4)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 3)
        client.post("/rankers/shop/rollback", json={"state": 2})
        learn(client, 1)
        rank(client)
    (result,) = replay_records(location.records())
    assert result.differing == ()
    (altered,) = replay_records(_altered(record, number) for record in location.records())
    assert altered == result._replace(checked=result.checked - 1, differing=(number,))


def _altered(record: Record, number: int) -> Record:
    """As if the service had written down another state."""
    event = record.event
    if isinstance(event, Snapshotted) and event.number == number:
        return record._replace(event=msgspec.structs.replace(event, digest="0" * 64))
    return record

"""A person is erased from log, archive and snapshots; the replay agrees, whether what they taught stays or goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rankloop.client import Client
from rankloop.service.application.jobs.retention import compact
from rankloop.service.application.rebuild import ReplayResult
from rankloop.service.application.upkeep.restoration import check
from rankloop.service.log.archive import archived, whole
from rankloop.service.records import Ranked
from rankloop.service.stores.open import log_at
from tests.service.cases import SHOP, Location, feed, inside, items, rank, report, running, until

PEOPLE = ("anne", "bob", "anne", "carl", "bob", "anne", "carl", "carl", "bob")


@pytest.fixture
def client(location: Location) -> Iterator[httpx.Client]:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2}).raise_for_status()
        yield client


def visit(client: httpx.Client, shift: int, user: str) -> None:
    shown = rank(client, items=items(shift=shift), user=user)
    answer = feed(client, shown["impression"], clicks=[shown["ranking"][shift % 3]], final=True)
    assert answer.json()["verdict"] == "closed"


def erase(client: httpx.Client, user: str, **query: Any) -> dict[str, Any]:
    answer = client.delete(f"/users/{user}", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def address_of(location: Location) -> str:
    return location.store or str(location.data)


def replay(location: Location) -> ReplayResult:
    (result,) = check(address_of(location), location.data)
    return result


def users_in(location: Location) -> set[str]:
    """Of the database, and of every file of the archive."""
    with log_at(address_of(location)) as log:
        there = [*log.read(), *archived(location.data, "ranker/shop"), *whole(log, "ranker/shop", location.data)]
    return {record.event.user for record in there if isinstance(record.event, Ranked)}


def bytes_of(location: Location) -> bytes:
    return b"".join(path.read_bytes() for path in Path(location.data).rglob("*") if path.is_file())


@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize("relearn", [False, True])
def test_a_person_is_gone_and_the_replay_agrees(
    client: httpx.Client, location: Location, relearn: bool, archive: bool
) -> None:
    for shift, user in enumerate(PEOPLE):
        visit(client, shift, user)
    until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 4)
    if archive:
        assert compact(inside(client).store, "ranker/shop", location.data, time.time() + 1) > 6
    waiting, other = rank(client, user="anne"), rank(client, user="bob")
    before = replay(location)
    weights = report(client)["weights"]
    told = erase(client, "anne", relearn=relearn)
    assert (told["impressions"], told["rankers"], told["relearned"]) == (4, {"shop": 4}, relearn)
    assert users_in(location) == {"bob", "carl"}
    if not location.store:
        assert b"anne" not in bytes_of(location)
    after = replay(location)
    assert not after.differing
    assert after.learned == (6 if relearn else 9)
    assert (after.digest == before.digest) is not relearn
    assert (report(client)["weights"] == weights) is not relearn
    assert feed(client, waiting["impression"], clicks=[], final=True).status_code == 404
    assert feed(client, other["impression"], clicks=other["ranking"][:1], final=True).json()["verdict"] == "closed"
    visit(client, 20, "bob")
    visit(client, 21, "carl")
    assert not replay(location).differing
    assert erase(client, "anne")["impressions"] == 0


def test_it_holds_after_a_restart_a_rollback_and_for_the_next_person(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2}).raise_for_status()
        for shift, user in enumerate(PEOPLE):
            visit(client, shift, user)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 4)
        numbers = [row["state"] for row in client.get("/rankers/shop/snapshots").json()["snapshots"]]
        erase(client, "anne")
        weights = report(client)["weights"]
    with running(location) as client:
        assert report(client)["weights"] == weights
        assert numbers[1] in [row["state"] for row in client.get("/rankers/shop/snapshots").json()["snapshots"]]
        answer = client.post("/rankers/shop/rollback", json={"state": numbers[1]})  # from between anne's events
        assert answer.status_code == 200
        visit(client, 30, "carl")
        assert not replay(location).differing
        assert (
            client.delete("/users/bob", params={"relearn": True}).status_code == 409
        )  # anne taught before, and is gone
        erase(client, "bob")
        visit(client, 31, "carl")
        weights = report(client)["weights"]
    assert users_in(location) == {"carl"}
    assert not replay(location).differing
    with running(location) as client:
        assert report(client)["weights"] == weights
    assert not replay(location).differing


def test_experiments_forget_a_person_and_keep_their_counts(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP).raise_for_status()
        sides = {"a": {"ranker": "shop"}, "b": {"weights": [1.0, 0.0, 0.0]}}
        client.put("/experiments/trial", json=sides).raise_for_status()
        for user in PEOPLE:
            shown = client.post("/experiments/trial/rank", json={"items": items(), "user": user}).json()
            body = {"impression": shown["impression"], "clicks": shown["ranking"][:1], "final": True}
            client.post("/experiments/trial/feedback", json=body).raise_for_status()
        before = client.get("/experiments/trial").json()
        assert erase(client, "anne")["experiments"] == {"trial": 3}
    with running(location) as client:
        after = client.get("/experiments/trial").json()
        assert {name: after[name] for name in ("wins", "ties", "losses")} == {
            name: before[name] for name in ("wins", "ties", "losses")
        }
        assert "anne" not in client.get("/log/trial.jsonl").text


def test_a_name_that_is_none_is_refused(client: httpx.Client) -> None:
    assert client.delete(f"/users/{'x' * 257}").status_code == 422
    assert erase(client, "nobody") == {
        "user": "nobody",
        "impressions": 0,
        "rankers": {},
        "experiments": {},
        "relearned": False,
    }


def test_the_client_erases_whatever_the_name_is(client: httpx.Client) -> None:
    visit(client, 0, "a/b c\u00e4")
    with Client(str(client.base_url)) as mine:
        assert mine.erase_user("a/b c\u00e4", relearn=True)["impressions"] == 1
    assert report(client)["counts"]["learned"] == 0

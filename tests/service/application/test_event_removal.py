"""Forgetting and taking back: the log, the snapshots and the state without what is gone, as if it had never been."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from rankloop.client import Client
from rankloop.service.application.event_removal import Amendment
from rankloop.service.application.rebuild import ReplayResult, replay_log, replay_records
from rankloop.service.domain.trainer import digest as digest_of
from rankloop.service.records import FeedbackReceived, Ranked, RolledBack, Snapshotted
from rankloop.service.stores.open import log_at
from tests.service.cases import Location, feed, inside, items, learn, rank, report, running, until

SHOP: dict[str, Any] = {
    "learner": {"kind": "3pr"},
    "problem": {"feature_names": ["price", "rating", "age"]},
    "seed": 3,
    "snapshot_every": 4,
}


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return Location(tmp_path / "data")


@pytest.fixture
def client(location: Location) -> Iterator[httpx.Client]:
    with running(location) as client:
        assert client.put("/rankers/shop", json=SHOP).status_code == 201
        yield client


def visit(client: httpx.Client, shift: int, query: str, user: str = "", position: int = 1) -> str:
    shown = rank(client, items=items(shift=shift), query_id=query, user=user)
    assert feed(client, shown["impression"], clicks=[shown["ranking"][position]], final=True).status_code == 200
    return str(shown["impression"])


def forget(client: httpx.Client, **what: Any) -> int:
    answer = client.post("/rankers/shop/forget", json=what)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["forgotten"])


def replay(location: Location) -> Any:
    with log_at(str(location.data)) as log:
        return replay_records(log.read("ranker/shop"))[0]


def digest(client: httpx.Client) -> str:
    return str(digest_of(inside(client).directory.rankers["shop"].serving.state))


def updates(location: Location) -> list[tuple[Ranked, FeedbackReceived]]:
    shown = {record.event.impression: record.event for record in location.records() if isinstance(record.event, Ranked)}
    found = [record.event for record in location.records() if isinstance(record.event, FeedbackReceived)]
    return [(shown[event.impression], event) for event in found]


def relearned(client: httpx.Client, location: Location) -> str:
    """The digest of the updates that are in the log, learned one after the other by hand."""
    from rankloop.service.domain.configuration import config_of
    from rankloop.service.domain.trainer import Trainer

    trainer = Trainer(config_of(inside(client).directory.rankers["shop"].body))
    for ranked, feedback in updates(location):
        trainer.learn(ranked, feedback)
    return trainer.digest()


@pytest.mark.parametrize("gone", [0, 1, 6, 10])
def test_a_query_is_gone_from_log_state_and_snapshots(client: httpx.Client, location: Location, gone: int) -> None:
    for i in range(11):
        visit(client, i, "secret words" if i == gone else f"query {i}")
    learned = digest(client)
    assert forget(client, query_id="secret words") == 1
    assert digest(client) != learned
    assert digest(client) == relearned(client, location) == replay(location).digest
    assert not replay(location).differing
    assert replay(location).checked == 3  # the two snapshots, and that of the state after the change
    assert len(updates(location)) == 10
    assert report(client)["counts"]["impressions"] == report(client)["counts"]["learned"] == 10
    visit(client, 30, "after it")
    assert digest(client) == relearned(client, location) == replay(location).digest


def test_no_byte_of_it_is_left_in_the_files(client: httpx.Client, location: Location) -> None:
    for i in range(9):
        visit(client, i, f"query number {i}", user=f"visitor-{i}")
    assert forget(client, user="visitor-3") == 1
    assert forget(client, query_id="query number 5") == 1
    content = b"".join(file.read_bytes() for file in location.data.rglob("*") if file.is_file())
    assert b"query number 4" in content
    for gone in (b"query number 3", b"visitor-3", b"query number 5", b"visitor-5"):
        assert gone not in content


def test_what_is_older_than_a_time_goes(client: httpx.Client, location: Location) -> None:
    visit(client, 0, "old")
    time.sleep(0.02)
    border = time.time()
    visit(client, 1, "new")
    assert forget(client, shown_before=border) == 1
    assert [ranked.query_id for ranked, _ in updates(location)] == ["new"]


def test_it_holds_after_a_restart(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP)
        for i in range(10):
            visit(client, i, f"q{i % 3}")
        assert forget(client, query_id="q1") == 3
        learned = digest(client)
    with running(location) as client:
        assert digest(client) == learned == replay(location).digest
        assert not replay(location).differing


def test_a_rollback_still_leads_to_the_state_of_its_time(client: httpx.Client, location: Location) -> None:
    for i in range(9):
        visit(client, i, f"q{i}")
    until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 3)
    client.post("/rankers/shop/rollback", json={"state": 8})
    visit(client, 20, "later")
    assert forget(client, query_id="q2") == 1
    events = [record.event for record in location.records()]
    numbers = [event.number for event in events if isinstance(event, Snapshotted)]
    assert numbers[:2] == [3, 7]
    assert [event.to for event in events if isinstance(event, RolledBack)] == [7]
    assert not replay(location).differing
    assert digest(client) == replay(location).digest


def test_a_click_is_taken_back_open_or_learned(client: httpx.Client, location: Location) -> None:
    shown = rank(client)
    first, second = shown["ranking"][:2]
    feed(client, shown["impression"], clicks=[first])
    feed(client, shown["impression"], clicks=[second])
    import asyncio

    def retract(id: str) -> bool:
        service = inside(client)
        return asyncio.run_coroutine_threadsafe(
            service.administration.retract("shop", shown["impression"], id), service.log._loop
        ).result()

    assert retract(second)
    assert not retract(second)
    feed(client, shown["impression"], clicks=[], final=True)
    assert digest(client) == relearned_merged(client, shown, [first])
    assert retract(first)
    assert report(client)["counts"] == {"impressions": 1, "open": 1} | {
        name: 0 for name in report(client)["counts"] if name not in ("impressions", "open")
    }
    assert digest(client) == replay(location).digest


def relearned_merged(client: httpx.Client, shown: dict[str, Any], clicks: list[str]) -> str:
    from rankloop.service.domain.configuration import config_of
    from rankloop.service.domain.trainer import Trainer

    service = inside(client)
    ranked = next(
        record.event
        for record in service.store.records_of_impression("ranker/shop", shown["impression"])
        if isinstance(record.event, Ranked)
    )
    trainer = Trainer(config_of(service.directory.rankers["shop"].body))
    numbers = [ranked.ids.index(id) for id in clicks]
    feedback = FeedbackReceived(ranked.impression, "clicks", numbers, [1.0] * len(numbers), True)
    trainer.learn(ranked, feedback)
    return trainer.digest()


def test_nothing_is_forgotten_unless_it_is_said_what(client: httpx.Client) -> None:
    learn(client, 2)
    assert client.post("/rankers/shop/forget", json={}).status_code == 422
    assert client.post("/rankers/nobody/forget", json={"user": "x"}).status_code == 404
    assert forget(client, user="nobody") == 0
    assert report(client)["counts"]["learned"] == 2


PEOPLE = ("anne", "bob", "anne", "carl", "bob", "anne", "carl", "carl", "bob")


@pytest.fixture(name="shop")
def erasure_client(location: Location) -> Iterator[httpx.Client]:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2}).raise_for_status()
        yield client


def erasure_visit(client: httpx.Client, shift: int, user: str) -> None:
    shown = rank(client, items=items(shift=shift), user=user, query_id=f"query {shift}")
    answer = feed(client, shown["impression"], clicks=[shown["ranking"][shift % 3]], final=True)
    assert answer.json()["verdict"] == "closed"


def erase(client: httpx.Client, user: str, **query: Any) -> dict[str, Any]:
    answer = client.delete(f"/users/{user}", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def address_of(location: Location) -> str:
    return location.store or str(location.data)


def erasure_replay(location: Location) -> ReplayResult:
    (result,) = replay_log(address_of(location))
    return result


def users_in(location: Location) -> set[str]:
    with log_at(address_of(location)) as log:
        return {record.event.user for record in log.read() if isinstance(record.event, Ranked)}


def bytes_of(location: Location) -> bytes:
    return b"".join(path.read_bytes() for path in Path(location.data).rglob("*") if path.is_file())


@pytest.mark.parametrize("relearn", [False, True])
def test_a_person_is_gone_and_the_replay_agrees(shop: httpx.Client, location: Location, relearn: bool) -> None:
    for shift, user in enumerate(PEOPLE):
        erasure_visit(shop, shift, user)
    until(lambda: len(shop.get("/rankers/shop/snapshots").json()["snapshots"]) == 5)
    waiting, other = rank(shop, user="anne"), rank(shop, user="bob")
    before = erasure_replay(location)
    state = digest(shop)
    told = erase(shop, "anne", relearn=relearn)
    assert (told["impressions"], told["rankers"], told["relearned"]) == (4, {"shop": 4}, relearn)
    assert users_in(location) == {"bob", "carl"}
    if not location.store:
        assert b"anne" not in bytes_of(location)
    after = erasure_replay(location)
    assert not after.differing
    assert after.learned == (6 if relearn else 9)
    assert (after.digest == before.digest) is not relearn
    assert (digest(shop) == state) is not relearn
    assert feed(shop, waiting["impression"], clicks=[], final=True).status_code == 404
    assert feed(shop, other["impression"], clicks=other["ranking"][:1], final=True).json()["verdict"] == "closed"
    erasure_visit(shop, 20, "bob")
    erasure_visit(shop, 21, "carl")
    assert not erasure_replay(location).differing
    assert erase(shop, "anne")["impressions"] == 0


def test_it_holds_after_a_restart_a_rollback_and_for_the_next_person(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2}).raise_for_status()
        for shift, user in enumerate(PEOPLE):
            erasure_visit(client, shift, user)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 5)
        numbers = [row["state"] for row in client.get("/rankers/shop/snapshots").json()["snapshots"]][1:]
        erase(client, "anne")
        weights = report(client)["weights"]
    with running(location) as client:
        assert report(client)["weights"] == weights
        assert numbers[1] in [row["state"] for row in client.get("/rankers/shop/snapshots").json()["snapshots"]]
        answer = client.post("/rankers/shop/rollback", json={"state": numbers[1]})  # from between anne's events
        assert answer.status_code == 200
        erasure_visit(client, 30, "carl")
        assert not erasure_replay(location).differing
        erase(client, "bob")
        erasure_visit(client, 31, "carl")
        weights = report(client)["weights"]
    assert users_in(location) == {"carl"}
    assert not erasure_replay(location).differing
    with running(location) as client:
        assert report(client)["weights"] == weights
    assert not erasure_replay(location).differing


def test_experiments_forget_a_person_and_keep_their_counts(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP).raise_for_status()
        variants = {"a": {"ranker": "shop"}, "b": {"weights": [1.0, 0.0, 0.0]}}
        client.put("/experiments/trial", json=variants).raise_for_status()
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


def test_a_name_that_is_none_is_refused(shop: httpx.Client) -> None:
    assert shop.delete(f"/users/{'x' * 257}").status_code == 422
    assert shop.get(f"/users/{'x' * 257}").status_code == 422
    proof = erase(shop, "nobody")
    assert proof.pop("checks")
    assert proof == {
        "user": "nobody",
        "impressions": 0,
        "rankers": {},
        "experiments": {},
        "places": {},
        "events": 0,
        "snapshots": 0,
        "relearned": False,
        "left": 0,
    }


def test_the_client_erases_whatever_the_name_is(shop: httpx.Client) -> None:
    erasure_visit(shop, 0, "a/b c\u00e4")
    with Client(str(shop.base_url)) as mine:
        assert mine.erase_user("a/b c\u00e4", relearn=True)["impressions"] == 1
    assert report(shop)["counts"]["learned"] == 0


def test_everybody_can_be_unlearned_after_weights_were_kept(location: Location) -> None:
    """Weights of anne are kept at first; when bob is unlearned everything is learned again, so anne's go too."""
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2}).raise_for_status()
        for shift, user in enumerate(PEOPLE):
            erasure_visit(client, shift, user)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 5)
        numbers = [row["state"] for row in client.get("/rankers/shop/snapshots").json()["snapshots"]][1:]
        erase(client, "anne")
        client.post("/rankers/shop/rollback", json={"state": numbers[1]}).raise_for_status()
        for shift, user in ((30, "carl"), (31, "dora"), (32, "carl")):
            erasure_visit(client, shift, user)
        proof = erase(client, "bob", relearn=True)
        assert (proof["impressions"], proof["relearned"], proof["left"]) == (3, True, 0)
        assert proof["snapshots"] > 0
        assert proof["events"] == 6  # three rankings and their feedback
        assert not erasure_replay(location).differing
        assert erasure_replay(location).learned == report(client)["counts"]["learned"] == 6
        assert erase(client, "dora", relearn=True)["impressions"] == 1
        erasure_visit(client, 40, "carl")
        learned = digest(client)
        result = erasure_replay(location)
        assert (result.differing, result.digest) == ((), learned)
    assert users_in(location) == {"carl"}
    with running(location) as client:
        assert digest(client) == learned


def test_a_query_is_forgotten_after_weights_were_kept(shop: httpx.Client, location: Location) -> None:
    """What was learned before the kept weights is unlearned too: no kept state brings it back."""
    for shift, user in enumerate(PEOPLE):
        erasure_visit(shop, shift, user)
    visit(shop, 20, "secret")
    erasure_visit(shop, 21, "anne")
    erase(shop, "anne")
    assert forget(shop, query_id="secret") == 1
    result = erasure_replay(location)
    assert (result.differing, result.learned) == ((), 6)
    assert digest(shop) == result.digest


NAMED_USERS: dict[str, Any] = {
    "learner": "click_regression",
    "problem": {
        "schema": {
            "features": {"price": "number", "user": "category"},
            "context": {"user_id": "id", "size": "category"},
            "crosses": ["size*price", "user_id*price"],
            "bits": 10,
        }
    },
}


def test_a_user_is_found_wherever_a_request_may_name_one(location: Location) -> None:
    """In user, session, tags, context and features, and in the session of a page before the user was known."""
    places = [
        ({"user": "anne", "session": "s1"}, {"price": 1}),
        ({"session": "s1"}, {"price": 2}),
        ({"session": "anne"}, {"price": 3}),
        ({"tags": {"customer_id": "anne"}}, {"price": 4}),
        ({"context": {"user_id": "anne"}}, {"price": 5}),
        ({"user": "bob"}, {"price": 6, "user": ["x", "anne"]}),
        ({"user": "bob", "session": "s1", "context": {"size": "anne"}}, {"price": 7}),
    ]
    with running(location) as client, Client(str(client.base_url)) as ours:
        client.put("/rankers/named", json=NAMED_USERS).raise_for_status()
        for body, row in places:
            shown = rank(client, "named", items=[{"id": "a", "features": row}, {"id": "b", "features": {}}], **body)
            assert feed(client, shown["impression"], "named", clicks=["a"], final=True).status_code == 200
        expected = {"user": 1, "session": 2, "tags.customer_id": 1, "context.user_id": 1, "features.user": 1}
        export = ours.find_user("anne")
        assert export["places"] == expected
        assert [each["ranker"] for each in export["impressions"]] == ["named"] * 6
        assert [each["events"][0]["rows"][0]["price"] for each in export["impressions"]] == [1, 2, 3, 4, 5, 6]
        assert all(each["events"][1]["kind"] == "feedback" for each in export["impressions"])
        proof = ours.erase_user("anne", relearn=True)
        assert (proof["places"], proof["impressions"], proof["left"]) == (expected, 6, 0)
        assert ours.find_user("anne")["impressions"] == []
        assert ours.find_user("bob")["places"] == {"user": 1}
    (result,) = replay_log(address_of(location))
    assert (result.learned, result.differing) == (1, ())
    if not location.store:  # a category of that name stays, and is no user
        assert bytes_of(location).count(b"anne") == 1


@pytest.mark.parametrize("n_meanwhile", [1, 9])  # nine visits make a snapshot, so that all is learned once more
def test_rankings_go_on_while_a_query_is_forgotten(
    client: httpx.Client, location: Location, monkeypatch: pytest.MonkeyPatch, n_meanwhile: int
) -> None:
    """The ranker is learned again beside serving; what comes meanwhile is logged, learned and replayed."""
    for shift in range(6):
        visit(client, shift, f"query {shift}")
    prepared, goes_on, prepare = threading.Event(), threading.Event(), Amendment.prepare

    def slow_prepare(self: Amendment, changes: Any, until: int) -> None:
        prepare(self, changes, until)
        prepared.set()
        assert goes_on.wait(20)

    monkeypatch.setattr(Amendment, "prepare", slow_prepare)
    with ThreadPoolExecutor() as pool:
        future = pool.submit(forget, client, query_id="query 2")
        assert prepared.wait(20)
        for shift in range(n_meanwhile):
            visit(client, shift, "meanwhile")
        goes_on.set()
        assert future.result(30) == 1
    assert digest(client) == relearned(client, location) == replay(location).digest
    assert not replay(location).differing
    assert len(updates(location)) == 5 + n_meanwhile

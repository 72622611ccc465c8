"""The same feedback twice learns once; clicks may come in several calls; what is late or unknown is never learned."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import httpx
import pytest

from rankloop.service.application.rebuild import replay_records
from tests.service.cases import SHOP, Location, feed, inside, items, learn, rank, report, running, until


@pytest.fixture(scope="module")
def client(module_position: Location) -> Iterator[httpx.Client]:
    with running(module_position) as client:
        assert client.put("/rankers/shop", json=SHOP).status_code == 201
        quick = SHOP | {"window": 0.15}
        assert client.put("/rankers/quick", json=quick).status_code == 201
        assert client.put("/rankers/unclicked", json=quick | {"default_feedback": "not_clicked"}).status_code == 201
        yield client


def _learned(client: httpx.Client, name: str = "shop") -> int:
    return int(report(client, name)["counts"]["learned"])


def test_the_same_feedback_twice_learns_once(client: httpx.Client) -> None:
    before, shown = _learned(client), rank(client)
    clicks = {"clicks": shown["ranking"][:1], "final": True}
    verdicts = [feed(client, shown["impression"], **clicks).json()["verdict"] for _ in range(3)]
    assert verdicts == ["closed", "repeated", "repeated"]
    assert _learned(client) == before + 1


def test_clicks_in_several_calls_are_one_update(client: httpx.Client) -> None:
    before, shown = _learned(client), rank(client)
    first, second = shown["ranking"][1:3]
    assert feed(client, shown["impression"], clicks=[first]).json()["verdict"] == "accepted"
    assert feed(client, shown["impression"], clicks=[first]).json()["verdict"] == "repeated"
    assert _learned(client) == before
    assert feed(client, shown["impression"], clicks={second: 2.0}, final=True).json()["verdict"] == "closed"
    assert _learned(client) == before + 1


def test_a_window_closes_by_itself_and_what_comes_later_is_gone(client: httpx.Client) -> None:
    shown, before = rank(client, "quick"), _learned(client, "quick")
    assert feed(client, shown["impression"], "quick", clicks=shown["ranking"][:1]).status_code == 200
    until(lambda: _learned(client, "quick") == before + 1)
    late = feed(client, shown["impression"], "quick", clicks=shown["ranking"][1:2])
    assert late.status_code == 410
    assert late.json()["type"] == "urn:rankloop:problem:late"
    counts = report(client, "quick")["counts"]
    assert (counts["late"], counts["learned"]) == (1, before + 1)


@pytest.mark.parametrize(("name", "expected"), [("quick", 0), ("unclicked", 1)])
def test_no_feedback_teaches_what_the_ranker_says(client: httpx.Client, name: str, expected: int) -> None:
    before, closed = _learned(client, name), report(client, name)["counts"]["closed"]
    rank(client, name)
    until(lambda: report(client, name)["counts"]["closed"] == closed + 1)
    until(lambda: _learned(client, name) >= before + expected)  # closing does not wait for learning
    assert _learned(client, name) == before + expected


def test_an_unknown_impression_is_not_found_and_counted(client: httpx.Client) -> None:
    before = report(client)["counts"]
    assert feed(client, "nobody", clicks=[]).status_code == 404
    after = report(client)["counts"]
    assert after == before | {"unknown": before["unknown"] + 1}


def test_a_repeated_request_to_rank_gives_the_same_impression(client: httpx.Client) -> None:
    def ask(shift: float, **more: Any) -> httpx.Response:
        body = {"items": [{"id": "a", "features": [shift, 0, 0]}, {"id": "b", "features": [0, 1, 0]}], **more}
        return client.post("/rankers/shop/rank", json=body, headers={"Idempotency-Key": "once"})

    first, again = ask(1.0), ask(1.0)
    assert first.json() == again.json()
    others = ({"query_id": "other"}, {"pinned": [first.json()["ranking"][-1]]}, {"excluded": ["b"]})
    assert [ask(2.0).status_code, *(ask(1.0, **other).status_code for other in others)] == [409] * 4
    feed(client, first.json()["impression"], clicks=["a"], final=True)
    assert ask(1.0).json() == first.json()


def test_kinds_of_feedback_do_not_mix(client: httpx.Client) -> None:
    assert client.put(
        "/rankers/any", json=SHOP | {"learner": {"kind": "fixed_weights", "weights": [1, 0, 0]}}
    ).is_success
    shown = rank(client, "any")
    assert feed(client, shown["impression"], "any", clicks=["i1"]).status_code == 200
    assert feed(client, shown["impression"], "any", relevances={"i1": 1}).status_code == 422


def test_reordered_and_duplicated_feedback_replays_to_the_same_bits(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 3})
        shown = [rank(client) for _ in range(12)]
        for one in [*shown[::-1], *shown[::2]]:
            feed(client, one["impression"], clicks=one["ranking"][1:2], final=True)
        learn(client, 5)
        assert _learned(client) == 17
    (result,) = replay_records(location.records())
    assert result.differing == ()
    assert (result.learned, result.checked) == (17, 17 // 3 + 1)


def test_a_request_that_was_held_up_until_its_twin_had_closed_is_not_learned_again(location: Location) -> None:
    """Both look for the key and find nothing, at two workers or at one, and one is logged after the other closed."""
    body, headers = {"items": items()}, {"Idempotency-Key": "one"}
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP).raise_for_status()
        service, found, go_on = inside(client), Event(), Event()
        look, asked = service.ranking.logged_ranking, []  # type: ignore[var-annotated]

        async def look_slowly(*arguments: Any) -> Any:
            before = await look(*arguments)
            asked.append(before)
            if len(asked) == 1:
                found.set()
                await asyncio.to_thread(go_on.wait, 30)
            return before

        service.ranking.logged_ranking = look_slowly
        with ThreadPoolExecutor(1) as thread:
            slow = thread.submit(httpx.post, f"{client.base_url}/rankers/shop/rank", json=body, headers=headers)
            assert found.wait(10)
            quick = client.post("/rankers/shop/rank", json=body, headers=headers).json()
            said = {"clicks": quick["ranking"][1:2], "final": True}
            assert feed(client, quick["impression"], **said).json()["verdict"] == "closed"
            go_on.set()
            assert slow.result(30).json() == quick
        assert feed(client, quick["impression"], **said).json()["verdict"] == "repeated"
        counts = report(client)["counts"]
        assert (counts["learned"], counts["impressions"], counts["open"]) == (1, 1, 0)
    (result,) = replay_records(location.records())
    assert (result.learned, result.differing) == (1, ())

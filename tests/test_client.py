"""The client: names and types, errors as they were meant, and retries that do not count twice."""

from __future__ import annotations

import runpy
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from rankloop.client import AsyncClient, Client, FeedbackReceipt, Refused, Unreachable, _pauses
from rankloop.core.errors import InvalidInput
from rankloop.features.schema import Schema
from tests.coroutines import run_coroutine
from tests.docs.pages import blocks_of
from tests.service.cases import SHOP, Location, report, running

pytestmark = pytest.mark.usefixtures("broken_connections_end_here")
BOOKS = {"a": {"price": 0.3}, "b": {"rating": 4.5}}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running(Location(tmp_path_factory.mktemp("client"))) as client:
        yield client


def test_the_loop_in_four_lines(served: httpx.Client) -> None:
    with Client(str(served.base_url)) as client:
        client.create("shop", **SHOP)
        shown = client.rank("shop", BOOKS)
        assert sorted(map(str, shown.ranking)) == ["a", "b"]
        assert client.feedback("shop", shown, clicks=["b"], final=True).verdict == "closed"
        assert client.ranker("shop")["counts"]["learned"] == 1


def test_the_same_awaited(served: httpx.Client) -> None:
    async def loop() -> str:
        async with AsyncClient(str(served.base_url)) as client:
            await client.create("shop", **SHOP)
            shown = await client.rank("shop", BOOKS)
            return (await client.feedback("shop", shown, clicks=["a"], final=True)).verdict

    assert run_coroutine(loop()) == "closed"


def test_a_refusal_says_why(served: httpx.Client) -> None:
    with Client(str(served.base_url)) as client, pytest.raises(Refused, match="no ranker 'nobody'") as refused:
        client.rank("nobody", BOOKS)
    assert refused.value.status == 404


def test_a_refusal_names_the_field(served: httpx.Client) -> None:
    with Client(str(served.base_url)) as client:
        with pytest.raises(Refused, match=r"422 invalid input: problem: unknown field .* feature_names, "):
            client.create("other", learner="3pr", problem={"features": ["price"]})
        client.create("shop", **SHOP)
        with pytest.raises(Refused, match="422 invalid input: items: there are no items to rank"):
            client.rank("shop")


@pytest.mark.parametrize("errors", [None, [], {}, [{}], ["x"], "x", [{"field": ""}]])
def test_a_refusal_of_somebody_else_needs_no_field(errors: Any) -> None:
    assert str(Refused(422, {"title": "no", "detail": "never", "errors": errors})) == "422 no: never"


def test_answers_that_are_lost_do_not_count_twice(served: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(str(served.base_url)) as client:
        client.create("shop", **SHOP)
        before = report(served)["counts"]
        send, lost = client._http.request, []

        def losing(**arguments: object) -> httpx.Response:
            response = send(**arguments)  # type: ignore[arg-type]
            if len(lost) % 2 == 0:
                lost.append(response)
                raise httpx.ReadError("the answer was lost")
            lost.append(response)
            return response

        monkeypatch.setattr(client._http, "request", losing)
        shown = client.rank("shop", BOOKS)
        assert lost[0].json()["impression"] == lost[1].json()["impression"] == shown.impression
        assert client.feedback("shop", shown, clicks=["a"], final=True).verdict == "repeated"
        after = report(served)["counts"]
        assert (after["impressions"], after["learned"]) == (before["impressions"] + 1, before["learned"] + 1)


def test_an_experiment_from_the_client(served: httpx.Client) -> None:
    with Client(str(served.base_url)) as client:
        client.create("shop", **SHOP)
        variants = {"a": {"weights": [0.0, 1.0, 0.0]}, "b": {"ranker": "shop"}}
        assert client.create_experiment("duel", **variants) == client.create_experiment("duel", **variants)
        shown = client.rank("duel", BOOKS, experiment=True)
        assert client.feedback("duel", shown, clicks=["b"], final=True, experiment=True).verdict == "closed"
        seen = client.experiment("duel")
        assert seen["wins"] + seen["ties"] + seen["losses"] == seen["impressions"] == 1
        with pytest.raises(Refused, match="other settings"):
            client.create_experiment("duel", **variants, seed=7)


def test_a_ranking_of_an_experiment_that_is_asked_twice_counts_once(served: httpx.Client) -> None:
    served.put("/experiments/once", json={"a": {"weights": [1.0]}, "b": {"weights": [-1.0]}})
    body = {"items": [{"id": "a", "features": [0.1]}, {"id": "b", "features": [0.2]}]}
    calls = [served.post("/experiments/once/rank", json=body, headers={"Idempotency-Key": "k-1"}) for _ in range(2)]
    assert calls[0].json() == calls[1].json()
    assert served.get("/experiments/once").json()["impressions"] == 1
    other = served.post("/experiments/once/rank", json={"items": body["items"][:1]}, headers={"Idempotency-Key": "k-1"})
    assert other.status_code == 409


def test_calls_survive_a_restart(tmp_path: Path) -> None:
    location, port = Location(tmp_path), free_port()
    with running(location, port=port), Client(f"http://127.0.0.1:{port}", patience=20) as client:
        client.create("shop", **SHOP)
        shown = client.rank("shop", BOOKS)
    with Client(f"http://127.0.0.1:{port}", patience=20) as client, ThreadPoolExecutor(max_workers=1) as thread:
        waiting = thread.submit(client.feedback, "shop", shown, clicks=["b"], final=True)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.3)
        with running(location, port=port):
            assert waiting.result(timeout=20).verdict == "closed"


def test_patience_ends_in_one_plain_error() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    said = f"no answer from {address} in 0.2 s; feedback may be sent again later"

    async def awaited() -> None:
        async with AsyncClient(address, patience=0.2) as client:
            await client.ranker("shop")

    with Client(address, patience=0.2) as client, pytest.raises(Unreachable) as error:
        client.ranker("shop")
    with pytest.raises(Unreachable) as later:
        run_coroutine(awaited())
    assert str(error.value) == str(later.value) == said


def test_a_service_that_stays_busy_says_so_itself(served: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = httpx.Response(503, json={"status": 503, "title": "unavailable", "detail": "no database"})
    with Client(str(served.base_url), patience=0.2) as client:
        monkeypatch.setattr(client._http, "request", lambda **arguments: busy)
        with pytest.raises(Refused, match="503 unavailable: no database"):
            client.ranker("shop")


FOREIGN = [
    httpx.Response(502, json=["no", "document"]),
    httpx.Response(404, json={"status": "gone", "message": "no such page"}),
    httpx.Response(404, text="<html>"),
    httpx.Response(200, text="<html>welcome</html>"),
    httpx.Response(200, json=["a"]),
    httpx.Response(200, json={"welcome": True}),
    httpx.Response(302, headers={"Location": "/login"}),
]


@pytest.mark.parametrize("answer", FOREIGN, ids=lambda answer: f"{answer.status_code} {answer.text[:12]}")
def test_whatever_else_stands_at_the_address_is_one_plain_error(
    answer: httpx.Response, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client("http://127.0.0.1:1", patience=0.0) as client:
        monkeypatch.setattr(client._http, "request", lambda **arguments: answer)
        for call in (lambda: client.rank("shop", BOOKS), lambda: client.feedback("shop", "x", clicks=[])):
            with pytest.raises(Refused, match="not a response of rankloop") as refused:
                call()
            assert refused.value.status == answer.status_code


def test_a_later_service_may_say_more(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = httpx.Response(200, json={"impression": "x", "verdict": "accepted", "state": 3, "mood": "sunny"})
    with Client("http://127.0.0.1:1") as client:
        monkeypatch.setattr(client._http, "request", lambda **arguments: answer)
        assert client.feedback("shop", "x", clicks=[]) == FeedbackReceipt("x", "accepted", 3)


def test_pauses_grow_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("rankloop.client.time.monotonic", lambda: now[0])
    slept = []
    for pause in _pauses(10.0):
        slept.append(pause)
        now[0] += pause
    assert slept == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0, 0.9])
    assert list(_pauses(0.0)) == []


@pytest.mark.parametrize("wrong", [{"address": "127.0.0.1:8080"}, {"patience": -1.0}, {"patience": float("nan")}])
def test_what_could_never_be_answered_is_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Client(**wrong)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_examples_of_the_page_are_true(tmp_path: Path) -> None:
    page = Path(__file__).parents[1] / "docs" / "service.md"
    (tmp_path / "page.py").write_text(next(code for code in blocks_of(page) if "def show_and_learn" in code))
    names = runpy.run_path(str(tmp_path / "page.py"))
    with running(Location(tmp_path / "data")) as client:
        assert sorted(names["show_and_learn"](str(client.base_url))) == ["a", "b"]


def test_values_that_json_does_not_know(served: httpx.Client) -> None:
    fields = {"since": "date", "price": "number", "tags": "category", "vector": {"kind": "vector", "size": 2}}
    with Client(str(served.base_url)) as client:
        client.create("plain", learner="click_regression", schema=Schema(fields))
        row = {"since": date(2026, 11, 15), "price": np.float64(3.5), "tags": {"a", "b"}, "vector": np.ones(2)}
        shown = client.rank("plain", {"x": row, "y": {"vector": "AACAPwAAAEA="}})
        assert client.feedback("plain", shown, clicks=["x"], final=True).verdict == "closed"
        parts = {part.name: part.value for part in client.explain("plain", shown, "y").contributions}
        assert (parts["vector[0]"], parts["vector[1]"]) == (1.0, 2.0)
        assert client.weights("plain")["impressions"][0]["impression"] == shown.impression
        with pytest.raises(ValueError, match="JSON"):
            client.rank("plain", {"x": {"price": float("nan")}})


def test_schemas_and_catalogues_awaited(served: httpx.Client, tmp_path: Path) -> None:
    async def loop() -> tuple[int, int, str]:
        async with AsyncClient(str(served.base_url)) as client:
            changed = (await client.put_catalogue("awaited", {1: {"price": 3}, "b": {"price": 4}}))["changed"]
            problem, schema = {"catalogue": "awaited"}, {"features": {"price": "number"}, "bits": 8}
            await client.create("awaited", learner="fair_pairs", problem=problem, schema=schema)
            shown = await client.rank("awaited", ids=[1, "b"])
            await client.feedback("awaited", shown, clicks=["b"], final=True)
            version = (await client.evolve("awaited", features={"age": "number"}))["schema"]["version"]
            assert (await client.catalogue("awaited"))["rows"] == 2
            assert (await client.weights("awaited"))["weights"] == []  # nothing was ranked by this version yet
            found = await client.explain("awaited", shown.impression, 1)
            await client.download("awaited", tmp_path / "awaited.rankloop")
            await client.upload("awaited-too", tmp_path / "awaited.rankloop")
            return changed, version, found.contributions[0].name[:7]

    assert run_coroutine(loop()) == (2, 2, "price ≈")

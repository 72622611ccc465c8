"""The client: names and types, errors as they were meant, and retries that do not count twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from service_cases import SHOP, Place, report, running

from rankloop.client import AsyncClient, Client, Refused

BOOKS = {"a": {"price": 0.3}, "b": {"rating": 4.5}}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running(Place(tmp_path_factory.mktemp("client"))) as client:
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

    with ThreadPoolExecutor(max_workers=1) as thread:  # a browser test in this process may hold its own event loop
        assert thread.submit(asyncio.run, loop()).result() == "closed"


def test_a_refusal_says_why(served: httpx.Client) -> None:
    with Client(str(served.base_url)) as client, pytest.raises(Refused, match="no ranker 'nobody'") as refused:
        client.rank("nobody", BOOKS)
    assert refused.value.status == 404


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

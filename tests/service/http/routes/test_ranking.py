"""The calls of page views go past FastAPI; nobody who calls can tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import get_ident
from typing import Any

import httpx
import pytest

from rankloop.service.application import served_ranker as service
from rankloop.service.http.app import make_app
from rankloop.service.http.routes import ranking
from rankloop.service.settings import Settings, keys_from
from tests.coroutines import run_coroutine
from tests.service.cases import SHOP, Location, items, running

JSON = {"Content-Type": "application/json"}
ASK = httpx.Response(200, json={"items": items()}).content
ADMIN = {"X-API-Key": "admin-key-1"}
KEYS = "rank:ranking-key,admin:admin-key-1"
REQUESTS: list[tuple[int, str, str, bytes, dict[str, str]]] = [
    (200, "POST", "/rankers/shop/rank", ASK, JSON),
    (200, "POST", "/rankers/shop/rank", ASK, {}),
    (404, "POST", "/rankers/nobody/rank", ASK, JSON),
    (404, "POST", "/rankers/sh%20op/rank", ASK, JSON),
    (404, "POST", "/rankers//rank", ASK, JSON),
    (307, "POST", "/rankers/shop/rank/", ASK, JSON),
    (200, "POST", "/rankers/shop/rank%0A", ASK, JSON),
    (404, "POST", "/experiments/nobody/rank", ASK, JSON),
    (404, "POST", "/experiments/nobody/feedback", b'{"impression": "x"}', JSON),
    (404, "POST", "/experiments/nobody/rank:batch", ASK, JSON),
    (404, "POST", "/rankers/shop/feedback", b'{"impression": "x", "clicks": []}', JSON),
    (422, "POST", "/rankers/shop/feedback", b'{"impression": 1}', JSON),
    (422, "POST", "/rankers/shop/rank", b'{"items": [{"id": "a", "colour": 1}]}', JSON),
    (400, "POST", "/rankers/shop/rank", b'{"items": [', JSON),
    (422, "POST", "/rankers/shop/rank", b"[" * 100_000, JSON),
    (400, "POST", "/rankers/shop/rank", b'{"query_id": "\xff"}', JSON),
    (400, "POST", "/rankers/shop/rank", b"", JSON),
    (415, "POST", "/rankers/shop/rank", ASK, {"Content-Type": "text/plain"}),
    (413, "POST", "/rankers/shop/rank", b" " * 2_000_001, JSON),
    (200, "POST", "/rankers/shop/rank:batch", b'{"requests": [{"items": []}]}', JSON),
    (200, "POST", "/rankers/shop/feedback:batch", b'{"feedback": [{"impression": "x", "clicks": []}]}', JSON),
    (405, "GET", "/rankers/shop/rank", b"", {}),
    (405, "HEAD", "/rankers/shop/rank", b"", {}),
    (200, "POST", "/rankers/shop/rank", ASK, JSON | {"Authorization": "Bearer wrong-key"}),
    (200, "POST", "/rankers/shop/rank", ASK, JSON | {"Authorization": "Bearer ranking-key"}),
]


NAMED = {"Idempotency-Key": "one", "X-Request-Id": "one"}


async def answers(folder: Path, keys: str) -> list[tuple[int, dict[str, str], bytes]]:
    app = make_app(Settings(data=folder, keys=keys_from(keys)))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=ADMIN) as client,
    ):
        (await client.put("/rankers/shop", json=SHOP)).raise_for_status()
        found = []
        for _, method, path, content, headers in REQUESTS:
            answer = await client.request(method, path, content=content, headers=NAMED | headers)
            found.append((answer.status_code, dict(answer.headers), answer.content))
        return found


@pytest.mark.parametrize("keys", ["", KEYS])
def test_a_call_past_fastapi_is_answered_like_any_other(tmp_path: Path, keys: str) -> None:
    results = run_coroutine(answers(tmp_path, keys))
    for (status, *request), (answered, headers, content) in zip(REQUESTS, results, strict=True):
        expected = 401 if keys and "wrong-key" in str(request) else status
        assert answered == expected, (request, content)
        assert headers["x-content-type-options"] == "nosniff"
        if answered >= 400:
            assert headers["content-type"] == "application/problem+json"


def test_an_idempotency_key_belongs_to_the_api_key_that_sends_it(tmp_path: Path) -> None:
    body = {"items": items(4), "query_id": "boats"}
    with running(Location(tmp_path), keys=keys_from(KEYS)) as client:
        client.put("/rankers/shop", json=SHOP, headers=ADMIN).raise_for_status()

        def impression(**headers: str) -> str:
            sent = client.post("/rankers/shop/rank", json=body, headers={"Idempotency-Key": "order 7"} | headers)
            return str(sent.raise_for_status().json()["impression"])

        first = impression(Authorization="Bearer ranking-key")
        assert impression(Authorization="bearer ranking-key") == first
        assert impression(**{"X-API-Key": "ranking-key"}) == first
        assert impression(**ADMIN) != first


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running(Location(tmp_path_factory.mktemp("ranking"))) as client:
        client.put("/rankers/shop", json=SHOP).raise_for_status()
        yield client


@pytest.mark.parametrize("value", ["null", '"cheap"', "1e999", "true", "[1]"])
@pytest.mark.parametrize(
    ("form", "field"),
    [('{"price": %s, "age": 1}', "items[3].features.price"), ("[%s, 1, 1]", "items[3].features[0]")],
)
def test_a_wrong_number_is_named(client: httpx.Client, value: str, form: str, field: str) -> None:
    listed = [f'{{"id": "i{i}", "features": {form % 1}}}' for i in range(3)] + [
        f'{{"id": "x", "features": {form % value}}}'
    ]
    answer = client.post("/rankers/shop/rank", content=f'{{"items": [{", ".join(listed)}]}}', headers=JSON)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field
    assert "price" in answer.json()["detail"]


def test_a_large_request_is_encoded_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()

    def noting(function: Any) -> Any:
        def noted(*arguments: Any) -> Any:
            threads.add(get_ident())
            return function(*arguments)

        return noted

    async def noting_loop(*arguments: Any) -> Any:
        nonlocal on_loop
        on_loop = get_ident()
        return await read(*arguments)

    on_loop, read = 0, ranking._rank
    monkeypatch.setattr(ranking, "_rank", noting_loop)
    monkeypatch.setattr(service, "query_request", noting(service.query_request))
    row = [0.25] * 1000
    with running(Location(tmp_path)) as client:
        client.put("/rankers/wide", json=SHOP | {"problem": {"n_features": 1000}}).raise_for_status()
        for n, off_loop in ((2, False), (300, True)):
            threads.clear()
            body = {"items": [{"id": i, "features": row} for i in range(n)]}
            assert len(client.post("/rankers/wide/rank", json=body).raise_for_status().json()["ranking"]) == n
            assert (on_loop in threads) != off_loop


def test_what_a_batch_refuses_is_counted_by_reason(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=SHOP).raise_for_status()
        asked = {"requests": [{"items": items()}, {"items": []}, {"items": [{"id": "a", "features": [1.0]}]}]}
        results = client.post("/rankers/shop/rank:batch", json=asked).raise_for_status().json()["results"]
        given = [{"impression": results[0]["impression"], "clicks": []}, {"impression": "nowhere", "clicks": []}]
        client.post("/rankers/shop/feedback:batch", json={"feedback": given}).raise_for_status()
        lines = client.get("/metrics").text.splitlines()
    assert [result.get("status") for result in results] == [None, 422, 422]
    counted = 'rankloop_refused_calls_total{{reason="{}",worker="0"}} {}'
    assert counted.format("invalid-input", 2.0) in lines
    assert counted.format("not-found", 1.0) in lines

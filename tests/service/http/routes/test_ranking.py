"""The calls of page views go past FastAPI; nobody who calls can tell."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.service.cases import SHOP, items

from rankloop.service.http.app import make_app
from rankloop.service.settings import Settings, keys_from

JSON = {"Content-Type": "application/json"}
ASK = httpx.Response(200, json={"items": items()}).content
ADMIN = {"X-API-Key": "admin-key-1"}
KEYS = "rank:ranking-key,admin:admin-key-1"
REQUESTS: list[tuple[str, str, bytes, dict[str, str]]] = [
    ("POST", "/rankers/shop/rank", ASK, JSON),
    ("POST", "/rankers/shop/rank", ASK, {}),
    ("POST", "/rankers/nobody/rank", ASK, JSON),
    ("POST", "/rankers/sh%20op/rank", ASK, JSON),
    ("POST", "/rankers//rank", ASK, JSON),
    ("POST", "/rankers/shop/rank/", ASK, JSON),
    ("POST", "/rankers/shop/rank%0A", ASK, JSON),
    ("POST", "/experiments/nobody/rank", ASK, JSON),
    ("POST", "/experiments/nobody/feedback", b'{"impression": "x"}', JSON),
    ("POST", "/experiments/nobody/rank:batch", ASK, JSON),
    ("POST", "/rankers/shop/feedback", b'{"impression": "x", "clicks": []}', JSON),
    ("POST", "/rankers/shop/feedback", b'{"impression": 1}', JSON),
    ("POST", "/rankers/shop/rank", b'{"items": [{"id": "a", "colour": 1}]}', JSON),
    ("POST", "/rankers/shop/rank", b'{"items": [', JSON),
    ("POST", "/rankers/shop/rank", b"[" * 100_000, JSON),
    ("POST", "/rankers/shop/rank", b'{"query_id": "\xff"}', JSON),
    ("POST", "/rankers/shop/rank", b"", JSON),
    ("POST", "/rankers/shop/rank", ASK, {"Content-Type": "text/plain"}),
    ("POST", "/rankers/shop/rank", b" " * 2_000_001, JSON),
    ("POST", "/rankers/shop/rank:batch", b'{"requests": [{"items": []}]}', JSON),
    ("POST", "/rankers/shop/feedback:batch", b'{"feedback": [{"impression": "x", "clicks": []}]}', JSON),
    ("GET", "/rankers/shop/rank", b"", {}),
    ("HEAD", "/rankers/shop/rank", b"", {}),
    ("POST", "/rankers/shop/rank", ASK, JSON | {"Authorization": "Bearer wrong-key"}),
    ("POST", "/rankers/shop/rank", ASK, JSON | {"Authorization": "Bearer ranking-key"}),
]


NAMED = {"Idempotency-Key": "one", "X-Request-Id": "one"}


async def answers(folder: Path, keys: str, past_fastapi: bool) -> list[tuple[int, dict[str, str], bytes]]:
    app = make_app(Settings(data=folder, keys=keys_from(keys)))
    gate: Any = app.gate
    if not past_fastapi:
        gate.app = app.answer
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=ADMIN) as client,
    ):
        (await client.put("/rankers/shop", json=SHOP)).raise_for_status()
        found = []
        for method, path, content, headers in REQUESTS:
            answer = await client.request(method, path, content=content, headers=NAMED | headers)
            found.append((answer.status_code, dict(answer.headers), answer.content))
        counted = [line for line in (await client.get("/metrics")).text.splitlines() if "_calls_total" in line]
        return [*found, (0, {}, "\n".join(counted).encode())]


@pytest.mark.parametrize("keys", ["", KEYS])
def test_a_call_past_fastapi_is_answered_like_one_through_it(tmp_path: Path, keys: str) -> None:
    quick, slow = (asyncio.run(answers(tmp_path / str(past), keys, past)) for past in (True, False))
    for request, one, other in zip([*REQUESTS, "metrics"], quick, slow, strict=True):
        assert one == other, request
    assert {status for status, *_ in quick} >= {200, 400, 404, 405, 413, 415, 422}

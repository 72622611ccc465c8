"""Every call declares who may make it, how large its body may be and its metric name; nothing else decides that."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import Response

from rankloop.service.http.app import make_app
from rankloop.service.http.endpoints import Endpoints, JsonResponse
from rankloop.service.settings import Settings, keys_from
from tests.service.cases import SHOP, Location, items, running
from tests.service.generated_requests import send_generated

KEYS = "rank:ranking-key,admin:admin-key-1"
EXAMPLES = max(int(os.environ.get("RANKLOOP_REQUESTS", "300")) // 20, 5)
SKIPPED = ("/events", "/log/{file}")  # endless, and binary
ANYONE = {
    "GET /",
    "HEAD /",
    "GET /healthz",
    "HEAD /healthz",
    "GET /readyz",
    "HEAD /readyz",
    "GET /rankloop.js",
    "HEAD /rankloop.js",
}


@pytest.fixture
def endpoints(tmp_path: Path) -> Endpoints:
    found: Endpoints = make_app(Settings(data=tmp_path)).state.endpoints
    return found


def scope(call: str) -> dict[str, Any]:
    method, _, path = call.partition(" ")
    return {"type": "http", "method": method, "path": path, "headers": []}


def test_every_route_is_declared(endpoints: Endpoints) -> None:
    for route in endpoints.app.routes:
        for method in getattr(route, "methods", ()):
            path = str(getattr(route, "path", "")).replace(":path}", "}")
            endpoint, _ = endpoints.find(scope(f"{method} {path}"))
            assert endpoint.name == f"{method} {path}"
            assert (endpoint.role == "anyone") == (endpoint.name in ANYONE)
            assert (endpoint.role in ("rank", "feedback")) == (endpoint.handler is not None)


@pytest.mark.parametrize(
    ("call", "name", "role", "ranker"),
    [
        ("POST /rankers/shop/rank", "POST /rankers/{name}/rank", "rank", "shop"),
        ("PUT /rankers/shop", "PUT /rankers/{name}", "admin", "shop"),
        ("GET /log/shop.jsonl", "GET /log/{file}", "admin", None),  # the handler cuts off the end of the file
        ("DELETE /users/a/b", "DELETE /users/{id}", "admin", ""),
        ("GET /page/app.js", "other", "anyone", ""),
        ("GET /rankers/shop/rank", "other", "admin", ""),
        ("GET /nowhere", "other", "admin", ""),
    ],
)
def test_a_call_finds_what_was_declared(
    endpoints: Endpoints, call: str, name: str, role: str, ranker: str | None
) -> None:
    endpoint, about = endpoints.find(scope(call))
    assert (endpoint.name, endpoint.role, about) == (name, role, ranker)


def test_files_may_be_larger_than_other_bodies(endpoints: Endpoints) -> None:
    settings = endpoints.settings
    limits = {call: endpoints.find(scope(call))[0].max_bytes for call in ("PUT /rankers/a", "PUT /catalogues/a")}
    assert limits == {"PUT /rankers/a": settings.max_file, "PUT /catalogues/a": settings.max_body}


def test_openapi_says_who_may_call(endpoints: Endpoints) -> None:
    paths = endpoints.app.openapi()["paths"]
    assert paths["/rankers/{name}/rank"]["post"]["x-role"] == "rank"
    assert paths["/rankers/{name}"]["delete"]["x-role"] == "admin"
    assert paths["/healthz"]["get"]["x-role"] == "anyone"


def test_an_addition_declares_its_own(tmp_path: Path) -> None:
    endpoints = Endpoints(FastAPI(), Settings(data=tmp_path))

    @endpoints.add("POST /shelf", role="rank", ranker="shelf", max_bytes=7)
    async def shelf() -> Response:
        return JsonResponse({})

    endpoint, about = endpoints.find(scope("POST /shelf"))
    assert (endpoint.name, endpoint.role, endpoint.max_bytes, about) == ("POST /shelf", "rank", 7, "shelf")


def test_a_ranking_key_may_do_what_is_declared_for_it(tmp_path: Path) -> None:
    with running(Location(tmp_path), keys=keys_from(KEYS)) as client:
        client.put("/rankers/shop", json=SHOP, headers={"X-API-Key": "admin-key-1"}).raise_for_status()
        client.headers["X-API-Key"] = "ranking-key"
        assert client.post("/rankers/shop/rank", json={"items": items()}).status_code == httpx.codes.OK
        for method, path in (("GET", "/rankers"), ("POST", "/rankers/shop/freeze"), ("GET", "/nowhere")):
            assert client.request(method, path).status_code == httpx.codes.FORBIDDEN


def test_generated_requests_never_break_it(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=SHOP)
        assert send_generated(client, lambda path: path not in SKIPPED, EXAMPLES) >= 50
        assert client.get("/rankers/shop").json()["counts"]["learned"] == 0

"""Closed by default: loopback, keys, roles, hosts, limits, headers; what is open says little."""

from __future__ import annotations

import logging
import sys
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Message, Receive, Scope, Send

from rankloop.core.errors import Conflict, InvalidInput
from rankloop.service.errors import TooMany
from rankloop.service.http import keys_and_limits as gate
from rankloop.service.http.endpoints import Endpoints
from rankloop.service.http.keys_and_limits import AccessMiddleware
from rankloop.service.http.metrics import Metrics
from rankloop.service.http.problems import ProblemDocument, response_of
from rankloop.service.http.server import LineLimit
from rankloop.service.settings import Settings, keys_from
from rankloop.service.stores.sqlite import SqliteStore
from tests.coroutines import run_coroutine
from tests.service.cases import SHOP, Location, items, running

KEYS = "rank:ranking-key,admin:admin-key-1"


def test_another_address_than_loopback_needs_a_key() -> None:
    with pytest.raises(InvalidInput, match="RANKLOOP_KEYS"):
        Settings(host="0.0.0.0")
    assert Settings(host="0.0.0.0", keys=keys_from(KEYS)).host == "0.0.0.0"
    assert "ranking-key" not in repr(Settings(keys=keys_from(KEYS)))
    for wrong in ("rank", "rank:short", "cook:long-enough"):
        with pytest.raises(InvalidInput):
            keys_from(wrong)


def test_keys_have_roles(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), running(Location(tmp_path), keys=keys_from(KEYS)) as client:
        ranking, admin = ({"Authorization": f"Bearer {key}"} for _, key in keys_from(KEYS))
        assert client.put("/rankers/shop", json=SHOP).status_code == 401
        assert client.put("/rankers/shop", json=SHOP, headers={"X-API-Key": "wrong-key"}).status_code == 401
        assert client.put("/rankers/shop", json=SHOP, headers=ranking).status_code == 403
        assert client.put("/rankers/shop", json=SHOP, headers=admin).status_code == 201
        body = {"items": items()}
        assert client.post("/rankers/shop/rank", json=body).status_code == 401
        assert client.post("/rankers/shop/rank", json=body, headers=ranking).status_code == 200
        assert client.get("/log/shop.jsonl", headers=ranking).status_code == 403
        assert client.get("/healthz").status_code == 200
        assert client.get("/metrics").status_code == 401
    assert not any(key in caplog.text for _, key in keys_from(KEYS))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> httpx.Client:
    with running(Location(tmp_path_factory.mktemp("closed"))) as client:
        yield client


def test_a_request_cannot_import_anything(
    client: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sneaky_module.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    changes = [
        {"imports": ["sneaky_module"]},
        {"import": "sneaky_module"},
        {"learner": {"kind": "3pr", "imports": ["sneaky_module"]}},
        {"learner": {"kind": "sneaky_module"}},
        {"learner": "sneaky_module.py"},
        {"problem": {"feature_names": ["price"], "imports": ["sneaky_module"]}},
    ]
    for change in changes:
        assert 400 <= client.put("/rankers/sneaky", json=SHOP | change).status_code < 500
    assert client.get("/rankers/sneaky").status_code == 404
    assert "sneaky_module" not in sys.modules


def test_a_page_elsewhere_cannot_reach_it_under_another_name(client: httpx.Client) -> None:
    assert client.get("/rankers", headers={"Host": "evil.example"}).status_code == 403
    assert client.get("/rankers", headers={"Host": "localhost:8080"}).status_code == 200
    form = {"Content-Type": "text/plain"}
    assert client.post("/rankers/shop/rank", content=b"{}", headers=form).status_code == 415


def test_every_answer_carries_the_security_headers(client: httpx.Client) -> None:
    for path in ("/", "/docs", "/rankers", "/nowhere"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "server" not in headers


def test_the_reference_needs_no_internet(client: httpx.Client) -> None:
    for path in ("/docs", "/page/docs.js"):
        page = client.get(path).text
        assert "http://" not in page
        assert "https://" not in page


def test_the_openapi_document_names_every_call(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    calls = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert {
        ("PUT", "/rankers/{name}"),
        ("POST", "/rankers/{name}/rank"),
        ("POST", "/experiments/{name}/feedback"),
    } <= calls
    assert document["components"]["schemas"]["RankBody"]["properties"].keys() >= {"items", "pinned", "excluded"}


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://localhost"])
def test_a_page_elsewhere_cannot_send_anything(client: httpx.Client, origin: str) -> None:
    asked = client.post("/rankers/shop/freeze", headers={"Origin": origin})
    assert asked.status_code == 403
    assert "may not call this service" in asked.json()["detail"]
    own = client.post("/rankers/shop/freeze", headers={"Origin": str(client.base_url).rstrip("/")})
    assert own.status_code == 404  # let in; there is no such ranker


def test_a_rate_limit_answers_429(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(Location(tmp_path), rate=20.0) as client:
        monkeypatch.setattr(gate, "time", SimpleNamespace(monotonic=lambda: 0.0, perf_counter=time.perf_counter))
        statuses = [client.get("/healthz").status_code for _ in range(25)]
    assert statuses == [200] * 20 + [429] * 5


def test_a_made_up_key_does_not_evade_the_rate_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guesses = [{"X-API-Key": f"guess-{number}"} for number in range(25)]
    for keys, answered in (("", 200), (KEYS, 401)):
        with running(Location(tmp_path), rate=20.0, keys=keys_from(keys)) as client:
            monkeypatch.setattr(gate, "time", SimpleNamespace(monotonic=lambda: 0.0, perf_counter=time.perf_counter))
            statuses = [client.get("/rankers", headers=guess).status_code for guess in guesses]
            assert statuses == [answered] * 20 + [429] * 5
            known = client.get("/rankers", headers={"X-API-Key": "admin-key-1"})
            assert known.status_code == (200 if keys else 429)


@pytest.mark.parametrize(("trusted", "refused"), [("", 5), ("127.0.0.1", 0), ("10.1.2.3", 5)])
def test_an_address_is_believed_only_of_a_proxy_that_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: str, refused: int
) -> None:
    monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    if trusted:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", trusted)
    with running(Location(tmp_path), rate=20.0) as client:
        monkeypatch.setattr(gate, "time", SimpleNamespace(monotonic=lambda: 0.0, perf_counter=time.perf_counter))
        claims = [{"X-Forwarded-For": f"10.0.0.{number}"} for number in range(25)]
        statuses = [client.get("/healthz", headers=claim).status_code for claim in claims]
    assert statuses.count(429) == refused


def test_a_rate_below_one_lets_a_call_through_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    with running(Location(tmp_path), rate=0.5) as client:
        monkeypatch.setattr(gate, "time", SimpleNamespace(monotonic=lambda: now[0], perf_counter=time.perf_counter))
        statuses = []
        for second in (0.0, 0.5, 2.1, 2.2, 9.0):
            now[0] = second
            statuses.append(client.get("/healthz").status_code)
    assert statuses == [200, 429, 200, 429, 200]


def test_made_up_paths_are_not_kept(tmp_path: Path) -> None:
    async def nowhere(scope: Scope, receive: Receive, send: Send) -> None:
        await response_of(ProblemDocument.of(404, "not-found", ""))(scope, receive, send)

    async def send(message: Message) -> None:
        pass

    async def ask(count: int) -> None:
        for number in range(count):
            name = f"{number}" * 1000
            for path in (f"/{name}", f"/rankers/{name}/rank", f"/page/{name}"):
                await whole(_scope(path), send, send)  # type: ignore[arg-type]

    whole = AccessMiddleware(nowhere, Endpoints(FastAPI(), Settings(data=tmp_path)), Metrics())
    run_coroutine(ask(10))
    tracemalloc.start()
    run_coroutine(ask(1000))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 300_000  # of 9 MB of paths


def test_many_addresses_do_not_reset_the_rate_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the client that has been silent longest is forgotten when too many are known."""
    monkeypatch.setattr(gate, "MAX_CLIENTS", 50)
    monkeypatch.setattr(gate, "time", SimpleNamespace(monotonic=lambda: 0.0, perf_counter=time.perf_counter))
    middleware = AccessMiddleware(FastAPI(), Endpoints(FastAPI(), Settings(data=tmp_path)), Metrics())
    refused = 0
    for number in range(200):
        for client in (f"10.0.0.{number}", "10.9.9.9"):
            try:
                middleware._check_rate({}, client, 20.0)
            except TooMany:
                refused += client == "10.9.9.9"
    assert refused == 180
    assert len(middleware._tokens) <= 50


def test_a_flood_of_lines_is_cut_and_counted() -> None:
    """Also the lines that uvicorn writes for what is no HTTP, which needs no key."""
    lines = [logging.LogRecord("uvicorn.error", 30, "httptools_impl.py", 1, "Invalid", (), None) for _ in range(1_000)]
    limit, begun = LineLimit(), time.monotonic()
    n_lines = sum(map(limit.filter, lines))
    assert 0 < n_lines <= 20 * (2 + time.monotonic() - begun)
    assert limit.filter(logging.LogRecord("rankloop.service", 40, "learning.py", 7, "another place", (), None))


def test_a_parameter_of_the_wrong_type_is_a_problem_document(client: httpx.Client) -> None:
    answer = client.delete("/users/ann", params={"relearn": "perhaps"})
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert answer.json()["errors"][0]["field"] == "relearn"


def test_the_log_of_calls_names_no_user(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rankloop.service")
    with running(Location(tmp_path)) as client:
        for number in range(100):
            client.get(f"/secret-{number}-" + "x" * 500)
        client.delete("/users/ann@example.org")
    lines = [record for record in caplog.records if record.name == "rankloop.service" and record.message == "call"]
    assert len(lines) == 100
    assert not any("secret" in str(vars(line)) or "ann@example" in str(vars(line)) for line in lines)


def _scope(path: str) -> Scope:
    return {"type": "http", "method": "POST", "path": path, "headers": [], "client": ("127.0.0.1", 1)}


def test_two_processes_cannot_share_a_file(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "rankloop.db")
    with pytest.raises(Conflict, match="another process"):
        SqliteStore(tmp_path / "rankloop.db")
    store.close()

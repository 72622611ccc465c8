"""The borders of HTTP: names, methods, numbers and defects, each answered in the plainest way that is right."""

from __future__ import annotations

import io
import logging
import socket
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

from rankloop.service.application.served_ranker import Ranking
from rankloop.service.http.app import make_app
from rankloop.service.http.routes import monitoring as watching
from rankloop.service.settings import Settings
from tests.service.cases import NAMES, SHOP, Location, feed, inside, items, rank, report, running, until

VARIANTS = {"a": {"weights": [1.0]}, "b": {"weights": [-1.0]}}
PAIR = {"items": [{"id": "a", "features": [0.1]}, {"id": "b", "features": [0.2]}]}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running(Location(tmp_path_factory.mktemp("borders"))) as client:
        client.put("/rankers/shop", json=SHOP)
        yield client


def test_an_app_is_made_while_another_thread_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba's own `catch_warnings` takes away the filter by which FastAPI hides a warning about itself."""
    monkeypatch.setattr(warnings, "simplefilter", lambda *arguments, **options: None)
    assert make_app(Settings(data=tmp_path)).routes


def test_a_name_does_not_end_in_a_new_line(client: httpx.Client) -> None:
    assert client.put("/rankers/abc%0A", json=SHOP).status_code == 422
    assert client.put("/experiments/abc%0A", json=VARIANTS).status_code == 422
    assert client.post("/rankers/shop/clone", json={"name": "x\n"}).status_code == 422


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("seed", -5), ("seed", 2**63), ("seed", 2**70), ("window", -5), ("window", 0), ("window", 1e300)],
)
def test_the_numbers_of_an_experiment_are_checked(client: httpx.Client, field: str, wrong: float) -> None:
    answer = client.put("/experiments/odd", json=VARIANTS | {field: wrong})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field
    assert client.get("/experiments/odd").status_code == 404
    assert client.get("/readyz").status_code == 200


def test_a_defect_is_a_problem_with_all_headers_and_is_counted(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Ranking, "rank", lambda *arguments: 1 / 0)
    with caplog.at_level(logging.INFO, logger="rankloop.service"):
        answer = client.post("/rankers/shop/rank", json={"items": items()})
        until(lambda: "call" in [record.message for record in caplog.records])  # noted after it is answered
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "division" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    counted = 'rankloop_calls_total{call="POST /rankers/{name}/rank",status="500",worker="0"} 1.0'
    assert counted in client.get("/metrics").text
    assert [record.message for record in caplog.records if record.name == "rankloop.service"] == [
        "unexpected error",
        "call",
    ]


def test_who_leaves_in_the_middle_of_a_request_is_no_defect(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="rankloop.service"):
        with socket.create_connection((client.base_url.host, client.base_url.port or 80)) as visitor:
            visitor.sendall(b"POST /rankers/shop/rank HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        until(lambda: 'status="499"' in client.get("/metrics").text)
    assert "unexpected error" not in caplog.text


def test_an_answer_that_breaks_off_is_not_taken_for_the_whole(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(records: object) -> Iterator[bytes]:
        yield b"{}\n"
        raise ZeroDivisionError

    monkeypatch.setattr(watching, "json_lines", broken)
    with pytest.raises(httpx.RemoteProtocolError):
        client.get("/log/shop.jsonl")
    assert client.get("/healthz").status_code == 200


def test_a_method_that_is_not_there_is_told_which_are(client: httpx.Client) -> None:
    answer = client.post("/rankers/shop")
    assert (answer.status_code, answer.json()["type"]) == (405, "urn:rankloop:problem:method-not-allowed")
    assert answer.headers["allow"] == "DELETE, GET, PATCH, PUT"
    assert client.get("/rankers/shop/rank").headers["allow"] == "POST"


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz"])
def test_probes_may_ask_for_the_head_only(client: httpx.Client, path: str) -> None:
    answer = client.head(path)
    assert (answer.status_code, answer.content) == (client.get(path).status_code, b"")


def test_invented_methods_make_no_series(client: httpx.Client) -> None:
    for number in range(3):
        assert client.request(f"FOO{number}", "/rankers").status_code in (400, 405)  # httptools knows no such method
    assert "FOO" not in client.get("/metrics").text


def test_not_ready_is_a_problem_that_still_says_who_leads(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.get("/readyz").json() == {"ready": True, "leads": True}
    monkeypatch.setattr(inside(client), "ready", False)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
    assert answer.headers["retry-after"] == "1"
    assert {"title": "unavailable", "status": 503, "ready": False, "leads": True}.items() <= answer.json().items()


def test_an_empty_key_is_none(client: httpx.Client) -> None:
    given = {"headers": {"Idempotency-Key": ""}, "json": {"items": items()}}
    first, second = (client.post("/rankers/shop/rank", **given).json() for _ in range(2))
    assert first["impression"] != second["impression"]


def test_grades_may_come_in_several_calls(client: httpx.Client) -> None:
    problem = {"feature_names": NAMES, "max_grade": 2}
    client.put("/rankers/graded", json={"learner": "online_gradient", "problem": problem}).raise_for_status()
    shown = rank(client, "graded")
    first, *rest = shown["ranking"]
    assert feed(client, shown["impression"], "graded", relevances={first: 2}).status_code == 200
    early = feed(client, shown["impression"], "graded", relevances={rest[0]: 1}, final=True)
    assert (early.status_code, early.json()["detail"][:8]) == (422, "2 grades")
    last = {"relevances": dict.fromkeys(rest, 1), "final": True}
    assert feed(client, shown["impression"], "graded", **last).json()["verdict"] == "closed"
    assert feed(client, shown["impression"], "graded", **last).json()["verdict"] == "repeated"
    counts = report(client, "graded")["counts"]
    assert (counts["learned"], counts["rejected"]) == (1, 0)


def test_an_experiment_with_the_name_of_a_ranker_has_a_log_too(client: httpx.Client) -> None:
    client.put("/experiments/shop", json=VARIANTS).raise_for_status()
    shown = client.post("/experiments/shop/rank", json=PAIR).json()
    given = {"impression": shown["impression"], "clicks": ["a"], "final": True}
    client.post("/experiments/shop/feedback", json=given).raise_for_status()
    table = pq.read_table(io.BytesIO(client.get("/log/shop.parquet?of=experiment").content)).to_pylist()
    assert [row["impression"] for row in table] == [shown["impression"]]
    logs = [client.get(f"/log/shop.jsonl{of}").text for of in ("", "?of=ranker", "?of=experiment")]
    assert ['"created"' in log for log in logs] == [True, True, False]
    client.put("/experiments/only", json=VARIANTS).raise_for_status()
    assert client.get("/log/only.jsonl").status_code == 200
    assert client.get("/log/only.jsonl?of=ranker").status_code == 404


def test_a_log_that_another_program_holds_is_not_ready(tmp_path: Path) -> None:
    """While a foreign lock keeps SQLite from writing, /readyz answers 503, and 200 afterwards."""
    with running(Location(tmp_path)) as client:
        assert client.get("/readyz").status_code == 200
        with closing(sqlite3.connect(next(tmp_path.rglob("*.db")), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert client.get("/readyz", timeout=10).status_code == 503
            assert client.get("/healthz", timeout=2).status_code == 200
            other.execute("ROLLBACK")
        until(lambda: client.get("/readyz", timeout=10).status_code == 200)

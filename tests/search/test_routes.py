"""The calls of the search page over HTTP: what they give, who may make them, and what they never let out."""

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from rankloop.search.local_engine import LocalEngine
from rankloop.search.ranked_search import MAX_SHOWN, SearchResult, SearchResults
from rankloop.search.routes import COOKIE, SearchPage
from rankloop.search.sources import FolderSource
from rankloop.search.study import is_compared
from rankloop.service.records import FeedbackReceived, Ranked
from rankloop.service.settings import keys_from
from tests.search.boxes import ENGINE_ORDER, content_of, records, replay, write_notes
from tests.service.cases import UNENCRYPTED
from tests.service.generated_requests import send_generated
from tests.service.page.server import page_server

KEYS = keys_from("rank:ranking-key,admin:admin-key-1")
RANKING, ADMIN = ({"Authorization": f"Bearer {key}"} for _, key in KEYS)
TEACHES, COMPARES = (next(f"{i:032x}" for i in range(99) if is_compared(f"{i:032x}") is half) for half in (False, True))
PROBLEM = "application/problem+json"


@contextmanager
def searching(folder: Path, study: bool = False, **settings: Any) -> Iterator[httpx.Client]:
    """A client, without cookies of its own, of a search page over the notes of a folder."""
    source, data = folder / "notes", folder / "data"
    if not source.exists():
        write_notes(source)
    documents, engine = FolderSource(source, data), LocalEngine(data)
    calls = SearchPage(engine, documents, study=study)
    try:
        with (
            page_server(data, demo=False, addition=calls, **settings) as address,
            httpx.Client(base_url=address, timeout=60, verify=UNENCRYPTED) as client,
        ):
            client.data = data  # type: ignore[attr-defined]
            yield client
    finally:
        engine.close()


def data(client: httpx.Client) -> Path:
    folder: Path = client.data  # type: ignore[attr-defined]
    return folder


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with searching(tmp_path_factory.mktemp("routes")) as client:
        yield client


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[httpx.Client]:
    with searching(tmp_path) as client:
        yield client


def ask(client: httpx.Client, text: str = "boat", visitor: str = TEACHES, **body: Any) -> dict[str, Any]:
    headers = {"Cookie": f"{COOKIE}={visitor}"}
    answer = client.post("/search", json={"text": text} | body, headers=headers)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def tell(client: httpx.Client, impression: str, *clicks: str, final: bool = True) -> str:
    body = {"impression": impression, "clicks": clicks, "final": final}
    answer = client.post("/search/clicks", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["verdict"])


def ids(found: dict[str, Any]) -> list[str]:
    return [result["id"] for result in found["results"]]


def test_search_click_learn(fresh: httpx.Client) -> None:
    for _ in range(3):
        shown = ask(fresh)
        assert set(shown) == set(SearchResults.__dataclass_fields__)
        assert set(shown["results"][0]) == set(SearchResult.__dataclass_fields__)
        assert tell(fresh, shown["impression"], "knots.md", final=False) == "accepted"
        assert tell(fresh, shown["impression"], "knots.md", final=False) == "repeated"
        assert tell(fresh, shown["impression"]) == "closed"
        assert tell(fresh, shown["impression"]) == "repeated"
    assert ids(ask(fresh, private=True))[0] == "knots.md"
    status = fresh.get("/search/status").json()
    assert status["counts"]["learned"] == status["state"] == 3
    assert status["documents"] == 4
    assert status["study"] is None
    assert 0 <= status["health"]["ctr_first"] <= 1
    assert status["health"]["click_position"] >= 1
    assert replay(data(fresh)).state == 3


def test_why_document_history_and_reference(client: httpx.Client) -> None:
    shown = ask(client)
    why = client.get("/search/why", params={"impression": shown["impression"], "id": "knots.md"}).json()
    assert why["id"] == "knots.md"
    assert why["score"] == pytest.approx(sum(part["contribution"] for part in why["contributions"]))
    document = client.get("/search/document", params={"id": "knots.md"}).json()
    assert document["title"] == "Knots"
    assert "A bowline holds a boat." in document["body"]
    assert isinstance(client.get("/search/history").json()["points"], list)
    openapi = client.get("/openapi.json").json()
    calls = {path: set(methods) for path, methods in openapi["paths"].items() if path.startswith("/search")}
    post = ("", "/clicks", "/undo", "/forget", "/forget-me", "/refresh")
    read = ("/why", "/document", "/status", "/history", "/study.{form}")
    expected = {f"/search{path}": {"post"} for path in post} | {f"/search{path}": {"get"} for path in read}
    assert calls == expected
    for path in ("/search", "/search/clicks", "/search/undo", "/search/forget"):
        schema = openapi["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert schema["$ref"].rsplit("/", 1)[1] in openapi["components"]["schemas"]
    assert "/page/docs.js" in client.get("/docs").text  # which shows this document


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/search", {}, 422),
        ("/search", {"text": 5}, 422),
        ("/search", {"text": None}, 422),
        ("/search", {"text": "boat", "n": 0}, 422),
        ("/search", {"text": "boat", "n": MAX_SHOWN + 1}, 422),
        ("/search", {"text": "boat", "n": 1.5}, 422),
        ("/search", {"text": "boat", "m": 1}, 422),
        ("/search", {"text": "b" * 20_001}, 422),
        ("/search", {"text": "boat", "private": "yes"}, 422),
        ("/search", [], 422),
        ("/search/clicks", {}, 422),
        ("/search/clicks", {"impression": "nobody"}, 404),
        ("/search/clicks", {"impression": "x" * 100_000, "clicks": ["knots.md"]}, 404),
        ("/search/clicks", {"impression": "nobody", "clicks": [5]}, 422),
        ("/search/clicks", {"impression": "nobody", "weights": {}}, 422),
        ("/search/undo", {"impression": "nobody"}, 422),
        ("/search/undo", {"impression": "nobody", "id": "knots.md"}, 404),
        ("/search", {"text": "boat", "visitor": "ann"}, 422),
        ("/search/undo", {"impression": "nobody", "id": "knots.md", "visitor": "F" * 32}, 422),
        ("/search/forget", {}, 422),
        ("/search/forget", {"visitor": ""}, 422),
        ("/search/forget", {"days": -1}, 422),
        ("/search/forget", {"days": "3"}, 422),
        ("/search/forget", {"session": "x"}, 422),
    ],
)
def test_wrong_bodies_are_problems(client: httpx.Client, path: str, body: Any, status: int) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM
    assert len(answer.text) < 1_000


@pytest.mark.parametrize("path", ["/search", "/search/clicks", "/search/undo", "/search/forget"])
def test_what_is_not_json_is_a_problem(client: httpx.Client, path: str) -> None:
    for content in (b"", b"{", b"\xff", b'{"text": "\\ud800"}', b"[" * 100_000):
        answer = client.post(path, content=content, headers={"Content-Type": "application/json"})
        assert 400 <= answer.status_code < 500, (content[:20], answer.text)
    assert client.post(path, content=b"text=boat").status_code in (400, 415)
    assert client.get(path).status_code in (200, 405)


def test_huge_bodies_are_refused(tmp_path: Path) -> None:
    with searching(tmp_path, max_body=2_000) as client:
        for path in ("/search", "/search/clicks", "/search/undo", "/search/forget"):
            assert client.post(path, json={"text": "b" * 3_000}).status_code == 413

        def chunks() -> Iterator[bytes]:
            yield b'{"text": "'
            for _ in range(100):
                yield b"b" * 100

        assert client.post("/search", content=chunks(), headers={"Content-Type": "application/json"}).status_code == 413


def test_clicks_on_what_was_not_there_or_is_over(client: httpx.Client) -> None:
    shown = ask(client)
    for clicks in (["bread.md"], ["knots.md", "knots.md"], ["../secret"]):
        answer = client.post("/search/clicks", json={"impression": shown["impression"], "clicks": clicks})
        assert answer.status_code == 422, answer.text
    tell(client, shown["impression"], "knots.md")
    answer = client.post("/search/clicks", json={"impression": shown["impression"], "clicks": ["boats.md"]})
    assert answer.status_code == 410


def test_undo_over_http(fresh: httpx.Client) -> None:
    shown = ask(fresh)
    tell(fresh, shown["impression"], "knots.md")
    undo = {"impression": shown["impression"], "id": "knots.md"}
    for stranger in ({}, {"visitor": "e" * 32}):
        assert fresh.post("/search/undo", json=undo | stranger).status_code == 404
    undo["visitor"] = TEACHES
    assert fresh.post("/search/undo", json=undo).json() == {"undone": True}
    assert fresh.post("/search/undo", json=undo).json() == {"undone": False}
    assert fresh.get("/search/status").json()["counts"]["learned"] == 0
    assert ids(ask(fresh, private=True)) == ENGINE_ORDER


def test_a_table_without_pyarrow_says_what_to_install(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    answer = client.get("/log/search.parquet")
    assert (answer.status_code, answer.headers["content-type"]) == (501, PROBLEM)
    assert "pip install 'rankloop[logs]'" in answer.json()["detail"]
    assert client.get("/log/search.jsonl").status_code == 200


@pytest.mark.parametrize("how", ["private", "prefix"])
def test_private_and_begun_leave_no_trace(client: httpx.Client, how: str) -> None:
    before = len(records(data(client)))
    answer = client.post("/search", json={"text": "boa of colonel mustard boa", how: True})
    assert answer.status_code == 200
    assert answer.json()["impression"] == ""
    assert "set-cookie" not in answer.headers
    assert len(records(data(client))) == before
    assert b"mustard" not in content_of(data(client))


def test_what_is_begun_is_found(client: httpx.Client) -> None:
    assert ids(ask(client, "bowl", prefix=True)) == ["knots.md"]
    assert ids(ask(client, "bowl", private=True)) == []


def test_a_visitor_gets_a_cookie_that_scripts_cannot_read(client: httpx.Client) -> None:
    answer = httpx.post(f"{client.base_url}/search", json={"text": "boat"})
    name, *rest = answer.headers["set-cookie"].split("; ")
    assert name.split("=")[0] == COOKIE
    assert len(name.split("=")[1]) == 32
    assert {part.lower() for part in rest} >= {"httponly", "samesite=strict", "path=/search"}
    again = httpx.post(f"{client.base_url}/search", json={"text": "boat"}, headers={"Cookie": name})
    assert "set-cookie" not in again.headers
    last = [record.event.user for record in records(data(client)) if isinstance(record.event, Ranked)][-2:]
    assert last == [name.split("=")[1]] * 2


@pytest.mark.parametrize(
    "value", ["", "x", "A" * 32, "0" * 33, "'; DROP TABLE events", "../../etc", "0" * 31 + "\u00b2"]
)
def test_a_cookie_that_we_have_not_given_is_nobody(client: httpx.Client, value: str) -> None:
    headers = {"Cookie": f"{COOKIE}={value}".encode("latin-1", "replace")}
    answer = httpx.post(f"{client.base_url}/search", json={"text": "boat"}, headers=headers)
    assert answer.status_code == 200
    assert COOKIE in answer.headers["set-cookie"]


def test_a_visitor_is_forgotten_with_the_cookie(fresh: httpx.Client) -> None:
    for visitor in (TEACHES, COMPARES):
        tell(fresh, ask(fresh, visitor=visitor)["impression"], "knots.md")
    assert fresh.post("/search/forget-me").json() == {"forgotten": 0}  # nobody
    answer = fresh.post("/search/forget-me", headers={"Cookie": f"{COOKIE}={TEACHES}"})
    assert answer.json() == {"forgotten": 1}
    assert f'{COOKIE}=""' in answer.headers["set-cookie"]
    assert TEACHES.encode() not in content_of(data(fresh))
    assert COMPARES.encode() in content_of(data(fresh))
    assert fresh.post("/search/forget", json={"query": "BOAT"}).json() == {"forgotten": 1}
    assert fresh.post("/search/forget", json={"days": 0}).json() == {"forgotten": 0}


@pytest.mark.parametrize(
    "id",
    [
        "../secret.txt",
        "../../etc/passwd",
        "/etc/passwd",
        "..\\secret.txt",
        "knots.md/../../secret.txt",
        "./knots.md",
        "notes/knots.md",
        "linked.txt",
        "%2e%2e/secret.txt",
        "knots.md\x00",
        "",
        "x" * 5_000,
    ],
)
def test_documents_come_from_the_index_and_never_from_a_path(closed: httpx.Client, id: str) -> None:
    answer = closed.get("/search/document", params={"id": id})
    assert answer.status_code == 404
    assert "top secret" not in answer.text


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Over a folder with a secret beside it and a link to it inside."""
    folder = tmp_path_factory.mktemp("closed")
    write_notes(folder / "notes")
    (folder / "secret.txt").write_text("top secret boat")
    (folder / "notes" / "linked.txt").symlink_to(folder / "secret.txt")
    with searching(folder) as client:
        yield client


def test_the_files_of_the_page_are_all_that_is_served(closed: httpx.Client) -> None:
    assert closed.get("/search/page/app.js").status_code == 200
    for path in ("../routes.py", "%2e%2e/routes.py", "..%2froutes.py", "/etc/passwd", "%2fetc%2fpasswd"):
        assert closed.get(f"/search/page/{path}").status_code in (404, 405)
    assert "top secret" not in json.dumps(ask(closed))


def test_pages_elsewhere_cannot_call(client: httpx.Client) -> None:
    own = str(client.base_url).rstrip("/")
    for path in ("/search", "/search/clicks", "/search/undo", "/search/forget", "/search/forget-me", "/search/refresh"):
        for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "http://localhost"):
            assert client.post(path, json={"text": "boat"}, headers={"Origin": origin}).status_code == 403
        assert client.post(path, json={"text": "boat"}, headers={"Host": "evil.example"}).status_code == 403
    for path in ("/search", "/search/status", "/search/document?id=knots.md", "/search/study.jsonl"):
        assert client.get(path, headers={"Host": "evil.example"}).status_code == 403
    assert client.post("/search", json={"text": "boat"}, headers={"Origin": own}).status_code == 200
    assert client.get("/search").headers["content-security-policy"].startswith("default-src 'self'")


def test_keys_and_roles(tmp_path: Path) -> None:
    """Visitors' keys search; what concerns others needs an admin's."""
    with searching(tmp_path, keys=KEYS) as client:
        shown = client.post("/search", json={"text": "boat"}, headers=RANKING).json()
        impression = shown["impression"]
        own: list[tuple[str, str, Any]] = [
            ("POST", "/search", {"text": "boat"}),
            ("POST", "/search/clicks", {"impression": impression, "clicks": ["knots.md"], "final": True}),
            ("POST", "/search/undo", {"impression": impression, "id": "knots.md", "visitor": TEACHES}),
            ("GET", "/search/status", None),
            ("GET", "/search/history", None),
            ("GET", f"/search/why?impression={impression}&id=knots.md", None),
            ("GET", "/search/document?id=knots.md", None),
            ("POST", "/search/forget-me", None),
        ]
        others: list[tuple[str, str, Any]] = [
            ("POST", "/search/forget", {"query": "nothing"}),
            ("POST", "/search/refresh", None),
            ("GET", "/search/study.json", None),
            ("GET", "/search/study.jsonl", None),
            ("GET", "/log/search.jsonl", None),
        ]
        for method, path, body in own + others:
            assert client.request(method, path, json=body).status_code == 401, path
            wrong = {"X-API-Key": "some-other-key"}
            assert client.request(method, path, json=body, headers=wrong).status_code == 401, path
        for method, path, body in own:
            assert client.request(method, path, json=body, headers=RANKING).status_code == 200, path
        for method, path, body in others:
            assert client.request(method, path, json=body, headers=RANKING).status_code == 403, path
            assert client.request(method, path, json=body, headers=ADMIN).status_code == 200, path
        for path in ("/search", "/search/page/app.js", "/healthz"):
            assert client.get(path).status_code == 200
        assert client.head("/search").status_code == 200
        for path in ("/search/", "/search//status", "/search/status/", "/search/page", "/SEARCH/status"):
            assert client.get(path).status_code in (401, 404), path


def test_a_study_splits_visitors_and_keeps_them_apart(tmp_path: Path) -> None:
    with searching(tmp_path, study=True) as client:
        halves = []
        for _ in range(60):
            answer = httpx.post(f"{client.base_url}/search", json={"text": "boat"})
            visitor = answer.headers["set-cookie"].partition("=")[2][:32]
            halves.append(answer.json()["compared"])
            assert halves[-1] is is_compared(visitor) is ask(client, visitor=visitor)["compared"]
        assert 10 < sum(halves) < 50  # 60 coins: outside with a probability below 1e-6
        assert not ask(client, visitor=COMPARES, private=True)["compared"]
        for _ in range(6):
            shown = ask(client, visitor=COMPARES)
            tell(client, shown["impression"], ids(shown)[0])
        assert client.get("/search/status").json()["counts"]["learned"] == 0
        standing = client.get("/search/study.json").json()
        assert standing["wins"] + standing["losses"] == 6
        assert client.get("/search/status").json()["study"] == standing
        lines = [json.loads(line) for line in client.get("/search/study.jsonl").text.splitlines()]
        assert [line["visitor"] for line in lines] == [COMPARES] * 6
        winners = [line["winner"] for line in lines]
        assert (winners.count("learned"), winners.count("engine")) == (standing["wins"], standing["losses"])
        assert client.get("/search/study.csv").status_code == 404
        tell(client, ask(client, visitor=TEACHES)["impression"], "knots.md")
        assert client.get("/search/status").json()["counts"]["learned"] == 1


def test_documents_are_read_again(tmp_path: Path) -> None:
    with searching(tmp_path) as client:
        (tmp_path / "notes" / "ferries.md").write_text("# Ferries\n\nA ferry.")
        (tmp_path / "notes" / "bread.md").unlink()
        (tmp_path / "notes" / "picture.md").write_bytes(b"\x00\x01\x02")
        found = client.post("/search/refresh").json()
        assert {name: found[name] for name in ("documents", "added", "changed", "removed", "n_skipped")} == {
            "documents": 4,
            "added": 1,
            "changed": 0,
            "removed": 1,
            "n_skipped": 1,
        }
        assert found["skipped"][0]["what"] == "picture.md"
        assert ids(ask(client, "ferry")) == ["ferries.md"]
        assert client.get("/search/document", params={"id": "bread.md"}).status_code == 404
        assert client.get("/search/status").json()["documents"] == 4


class Crowd:
    """People who search and click until they are told to stop, and what was acknowledged to them."""

    def __init__(self, client: httpx.Client, n: int = 3) -> None:
        self.address, self.clicked, self.failed = str(client.base_url), dict[str, tuple[str, str]](), list[str]()
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._visit, args=(f"{i:032x}",)) for i in range(n)]
        for thread in self._threads:
            thread.start()

    def leave(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _visit(self, visitor: str) -> None:
        with httpx.Client(base_url=self.address, timeout=60) as client:
            while not self._stopping.is_set():
                headers = {"Cookie": f"{COOKIE}={visitor}"}
                answer = client.post("/search", json={"text": "boat"}, headers=headers)
                if answer.status_code != 200:
                    self.failed.append(answer.text)
                    continue
                shown = answer.json()
                id = shown["results"][0]["id"]
                body = {"impression": shown["impression"], "clicks": [id], "final": True}
                told = client.post("/search/clicks", json=body)
                if told.status_code != 200:
                    self.failed.append(told.text)
                else:
                    self.clicked[shown["impression"]] = id, visitor


def test_nothing_is_lost_while_others_forget_and_take_back(fresh: httpx.Client) -> None:
    crowd = Crowd(fresh)
    undone, gone = set(), "f" * 32
    try:
        for _ in range(5):
            shown = ask(fresh, "secret boat", visitor=gone)
            tell(fresh, shown["impression"], "knots.md")
            assert fresh.post("/search/forget", json={"visitor": gone}).json() == {"forgotten": 1}
            while len(crowd.clicked) <= len(undone) + 1:
                threading.Event().wait(0.01)
            impression = next(name for name in list(crowd.clicked) if name not in undone)
            id, visitor = crowd.clicked[impression]
            body = {"impression": impression, "id": id, "visitor": visitor}
            assert fresh.post("/search/undo", json=body).json() == {"undone": True}
            undone.add(impression)
    finally:
        crowd.leave()
    assert crowd.failed == []
    told = {r.event.impression for r in records(data(fresh)) if isinstance(r.event, FeedbackReceived)}
    assert told == crowd.clicked.keys() - undone
    status = fresh.get("/search/status").json()
    assert status["counts"]["learned"] == len(told)
    found = replay(data(fresh))
    assert (found.state, found.differing) == (len(told), ())
    assert gone.encode() not in content_of(data(fresh))
    order = ids(ask(fresh, private=True))
    assert sorted(order) == sorted(ENGINE_ORDER)


def test_searches_are_answered_while_documents_come_and_go(tmp_path: Path) -> None:
    with searching(tmp_path) as client:
        crowd = Crowd(client, 2)
        try:
            for turn in range(8):
                boat = tmp_path / "notes" / f"boat{turn}.md"
                boat.write_text("# A boat\n\nboat boat boat")
                assert client.post("/search/refresh").status_code == 200
                boat.unlink()
                assert client.post("/search/refresh").status_code == 200
        finally:
            crowd.leave()
        assert crowd.failed == []
        assert crowd.clicked
        assert replay(data(client)).differing == ()


def test_generated_requests_never_break_it(tmp_path: Path) -> None:
    with searching(tmp_path) as client:
        examples = max(int(os.environ.get("RANKLOOP_REQUESTS", "0")) // 20, 3)
        assert send_generated(client, lambda path: path.startswith("/search"), examples) >= 25
        assert client.get("/search/status").status_code == 200

"""rankloop.js on a page of another origin: clicks and outcomes arrive, with a key that can do nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.service.http.app import PAGE_FOLDER
from tests.service.page.server import eventually, page_server

ADMIN, PUBLIC = "secret-of-the-shop", "public-key-of-the-page"
ITEMS = [{"id": name, "features": [1.0 - place]} for place, name in enumerate("abc")]
PAGE = """<!doctype html><title>shop</title>
<button data-item="b">b</button><a href="other.html" id="leave">leave</a>
<script src="{address}/rankloop.js" data-ranker="shop" data-key="{key}" {more}></script>
<script>rankloop.show("{impression}", "[data-item]")</script>"""


class QuietHandler(SimpleHTTPRequestHandler):
    def end_headers(self) -> None:
        # A page that is written twice in one second has the same modification time: the browser would keep the first.
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """The shop's own pages, on an origin of their own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[tuple[Path, str, str, httpx.Client]]:
    """The folder of the pages, their origin, the address of the service, and a client with the admin key."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "other.html").write_text("<!doctype html><title>other</title>")
    keys = (("admin", ADMIN), ("feedback", PUBLIC))
    with (
        site(folder) as origin,
        page_server(tmp_path / "data", demo=False, keys=keys, origins=(origin,)) as address,
        httpx.Client(base_url=address, headers={"Authorization": f"Bearer {ADMIN}"}, timeout=30) as client,
    ):
        outcomes = {"purchase": {"weight": 5, "window": "7d"}}
        body = {"learner": "click_regression", "problem": {"feature_names": ["x"]}, "outcomes": outcomes}
        made = client.put("/rankers/shop", json=body)
        assert made.status_code == 201, made.text
        yield folder, origin, address, client


def impression_of(client: httpx.Client) -> str:
    answer = client.post("/rankers/shop/rank", json={"items": ITEMS})
    return str(answer.raise_for_status().json()["impression"])


def n_feedback(client: httpx.Client) -> int:
    return client.get("/log/shop.jsonl").text.count('"kind":"feedback"')


def test_the_script_is_small_and_needs_nothing() -> None:
    text = (PAGE_FOLDER / "rankloop.js").read_text()
    assert len(text.encode()) <= 4_000
    assert "cookie" not in text.lower()
    assert "import" not in text


def test_the_public_key_may_only_send_feedback_from_allowed_pages(shop: Any) -> None:
    _, origin, address, client = shop
    impression, allowed = impression_of(client), {"Origin": origin, "Content-Type": "text/plain"}
    body = f'{{"impression": "{impression}", "clicks": ["b"]}}'
    feedback = f"{address}/rankers/shop/feedback?key={PUBLIC}"
    answer = httpx.post(feedback, content=body, headers=allowed)
    assert answer.status_code == 200, answer.text
    assert answer.headers["access-control-allow-origin"] == origin
    assert httpx.post(feedback, content=body, headers=allowed | {"Origin": "https://evil.example"}).status_code in (
        401,
        403,
    )
    json = {"Content-Type": "application/json", "Authorization": f"Bearer {PUBLIC}"}
    elsewhere = httpx.post(f"{address}/rankers/shop/feedback", content=body, headers=json)
    assert elsewhere.status_code == 403
    assert "pages of --allow-origin" in elsewhere.text
    guessed = body.replace(impression, impression[:-4] + "0000")
    assert httpx.post(feedback, content=guessed, headers=allowed).status_code == 404
    for path in ("/rankers/shop/rank", "/rankers/shop/feedback:batch"):
        assert httpx.post(f"{address}{path}?key={PUBLIC}", content=body, headers=allowed).status_code in (401, 403)
    for path in ("/rankers/shop", "/rankers", "/log/shop.parquet"):
        assert httpx.get(f"{address}{path}", headers={"Authorization": f"Bearer {PUBLIC}"}).status_code == 403
    script = httpx.get(f"{address}/rankloop.js")
    assert (script.status_code, script.headers["cross-origin-resource-policy"]) == (200, "cross-origin")


def test_an_origin_is_scheme_and_host(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="give scheme and host"), page_server(tmp_path, demo=False, origins=("*",)):
        pass


def test_clicks_outcomes_retries_and_beacons_arrive(shop: Any, browser: Any) -> None:
    folder, origin, address, client = shop
    context = browser.new_context()
    page = context.new_page()

    def open_page(more: str = "") -> str:
        impression = impression_of(client)
        text = PAGE.format(address=address, key=PUBLIC, impression=impression, more=more)
        (folder / "index.html").write_text(text)
        page.goto(f"{origin}/index.html")
        return impression

    try:
        open_page()
        page.click("button")
        eventually(lambda: _expect(n_feedback(client), 1))
        assert page.evaluate("document.cookie + JSON.stringify(localStorage)") == "{}"
        assert page.evaluate("rankloop.outcome('purchase', 'b', 1)") is True
        open_page()
        failures: list[str] = []  # the first call finds no service, the next does

        def fail_once(route: Any) -> None:
            if failures:
                route.continue_()
            else:
                failures.append(route.request.url)
                route.abort()

        page.route("**/feedback*", fail_once)
        assert page.evaluate("rankloop.click('c')") is True
        assert len(failures) == 1
        page.unroute("**/feedback*")
        open_page("data-remember='7'")
        page.evaluate("window.fetch = () => Promise.reject(new Error('no network')); void rankloop.click('a')")
        page.click("#leave")  # what is not acknowledged leaves as a beacon
        eventually(lambda: _expect(n_feedback(client), 3))
        page.goto(f"{origin}/index.html")
        assert page.evaluate("Object.keys(JSON.parse(localStorage['rankloop-items']))") == ["a"]
        assert page.evaluate("rankloop.outcome('purchase', 'a')") is True
        assert page.evaluate("(rankloop.forget(), localStorage.length)") == 0
    finally:
        context.close()


def _expect(n: int, expected: int) -> None:
    assert n == expected

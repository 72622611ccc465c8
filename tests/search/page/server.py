"""A real server over a folder of notes, some of which mean harm, for the tests of the search page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from rankloop.search.local_engine import LocalEngine
from rankloop.search.routes import COOKIE, SearchPage
from rankloop.search.sources import FolderSource
from rankloop.search.study import is_compared
from tests.service.page.server import page_server

HARM = "window.harm = (window.harm ?? 0) + 1"
FILLER = ["pear", "quince", "medlar", "plum", "cherry", "fig", "walnut", "hazel", "almond", "chestnut"]
TEACHES, COMPARES = (next(f"{i:032x}" for i in range(99) if is_compared(f"{i:032x}") is half) for half in (False, True))
ANOTHER = "before => (document.querySelector('#results').dataset.impression || before) !== before"
ORDER = "all => all.map(one => one.dataset.id)"


def notes() -> dict[str, str]:
    """Names and texts. Note n has fewer apples than the notes before it, so that the engine's own order is plain."""
    apples = {
        f"note-{n:02d}.md": f"# Note {n}\n\n" + " ".join(["apple"] * (16 - n) + FILLER * 2 + FILLER[: n % 7])
        for n in range(1, 15)
    }
    hostile = {
        "evil.txt": f"<img src=x onerror='{HARM}'> hostile\n\nhostile <script>{HARM}</script> <b>bold</b> &lt;i&gt;",
        "evil.html": f"<title>&lt;script&gt;{HARM}&lt;/script&gt; hostile</title><body onload='{HARM}'>"
        f"<script>{HARM}</script>hostile &lt;svg onload='{HARM}'&gt; words</body>",
        "a \"quoted\" 'name' & more.txt": "Quoted title\n\nhostile names are names",
        "日本語 😀.txt": "日本語の題\n\n😀👩‍👩‍👧 𝔘nicode 😀 banana before 𠮷野家 and banana after 日本語の文",
    }
    return apples | hostile


@contextmanager
def search_server(folder: Path, study: bool = False, **settings: Any) -> Iterator[str]:
    """The address of a service that searches the notes, which are written first."""
    source, data = folder / "notes", folder / "data"
    source.mkdir(exist_ok=True)
    for name, text in notes().items():
        (source / name).write_text(text, encoding="utf-8")
    (source / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    documents, engine = FolderSource(source), LocalEngine(data)
    calls = SearchPage(engine, documents, study=study)
    with page_server(data, demo=False, addition=calls, **settings) as address:
        yield address
    engine.close()


def ask(page: Any, text: str) -> list[str]:
    """Search as a person does; the ids that are in sight."""
    before = page.get_attribute("#results", "data-impression") or ""
    page.fill("#query", text)
    page.press("#query", "Enter")
    page.wait_for_function(ANOTHER, arg=before)
    return shown(page)


def shown(page: Any) -> list[str]:
    ids: list[str] = page.eval_on_selector_all("#results li", ORDER)
    return ids


def click(page: Any, id: str) -> None:
    """Open a result and come back."""
    with page.expect_response("**/search/clicks"):
        title(page, id).click()
    page.wait_for_selector("#reader[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#reader[open]", state="detached")


def title(page: Any, id: str) -> Any:
    return page.locator("#results li").filter(has=page.locator("bdi", has_text=id)).locator(".title")


def row(page: Any, id: str) -> Any:
    return page.locator("#results li").filter(has=page.locator("bdi", has_text=id))


def predicted(address: str, text: str) -> list[str]:
    """The learned order, without swaps and without a trace."""
    body = {"text": text, "n": 50, "private": True}
    answer = httpx.post(f"{address}/search", json=body, timeout=60).raise_for_status().json()
    return [result["id"] for result in answer["results"]]


def log_of(address: str) -> list[str]:
    return httpx.get(f"{address}/log/search.jsonl", timeout=60).raise_for_status().text.splitlines()


def become(page: Any, visitor: str) -> None:
    """Be a visitor whose half of the study is known."""
    page.context.add_cookies([{"name": COOKIE, "value": visitor, "domain": "127.0.0.1", "path": "/search"}])


def owner_of(page: Any, address: str) -> Any:
    """The owner's page, in another tab of the same browser."""
    owner = page.context.new_page()
    owner.goto(f"{address}/search/owner")
    owner.wait_for_selector("#chart-first canvas")
    return owner

"""A browser for the tests of the pages; without one they say so and are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = os.environ.get("RANKLOOP_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="the page was not tested: playwright is not installed"
    )
    if CHROMIUM is None:
        pytest.skip("the page was not tested: Chromium is not installed (apt-get install chromium)")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Any]:
    """Opens an address at a width, and fails the test if the page had an error or loaded anything from elsewhere."""
    contexts, wrong = [], []

    def opened(address: str, width: int = 1280, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
        base = "/".join(address.split("/")[:3])
        page.on("request", lambda request: None if request.url.startswith(base) else wrong.append(request.url))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []

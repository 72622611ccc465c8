"""Desktop and phone, light and dark, with and without a key, with and without rankers, for ears as for eyes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.service.page.checks import CONTRAST, NAMELESS, SMALL
from tests.service.page.server import page_server

READ = [".lead", ".tiles dt", ".tiles b", "h2", ".name", ".key"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_fits_and_can_be_read(demo: str, open_page: Any, width: int, scheme: str) -> None:
    page = open_page(demo, width, color_scheme=scheme)
    page.wait_for_selector("#shelf li")
    page.wait_for_selector("#chart-quality canvas")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert min(page.evaluate(CONTRAST, [".card", READ])) >= 4.5
    assert page.eval_on_selector_all("button, select, input, progress, [role=img]", NAMELESS) == []
    assert page.eval_on_selector_all("main button, select", SMALL) == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert dark == (scheme == "dark")


def test_the_theme_can_be_chosen_and_is_kept(demo: str, open_page: Any) -> None:
    page = open_page(demo, color_scheme="light")
    colours = []
    for words in ("Theme: auto", "Theme: light", "Theme: dark"):
        assert page.text_content("#theme") == words
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.click("#theme")
    assert colours[0] == colours[1] != colours[2]
    page.click("#theme")
    page.reload()
    assert page.text_content("#theme") == "Theme: light"


def test_needs_no_inline_styles_or_scripts(demo: str, open_page: Any) -> None:
    page = open_page(f"{demo}/healthz")

    def strict(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, headers=answer.headers | {"content-security-policy": "default-src 'self'"})

    page.route("**/", strict)
    page.goto(demo)
    page.wait_for_selector("#shelf[data-impression]")
    page.wait_for_selector("#chart-quality canvas")


@pytest.mark.parametrize("width", [390, 1280])
def test_the_reference_shows_every_call_with_its_fields(demo: str, open_page: Any, width: int) -> None:
    page = open_page(f"{demo}/docs", width)
    page.wait_for_selector("#RankBody")
    text = page.inner_text("main")
    assert "POST /rankers/{name}/rank" in text
    assert "Body: RankBody (application/json)" in text
    assert "items?: list of Item" in text
    assert "verdict: accepted or closed or repeated" in text
    assert page.eval_on_selector_all("dd a", "links => links.every(link => document.querySelector(link.hash))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_still_for_those_who_want_less_motion(demo: str, open_page: Any) -> None:
    page = open_page(demo, reduced_motion="reduce")
    page.wait_for_selector("#shelf li")
    page.click("#shelf li:last-child button")
    page.wait_for_timeout(150)
    assert page.evaluate("document.getAnimations().length") == 0


def test_without_rankers_it_says_how_to_begin(tmp_path: Path, open_page: Any) -> None:
    with page_server(tmp_path, demo=False) as address:
        page = open_page(address)
        page.wait_for_selector("#empty:not([hidden])")
        assert "PUT" in page.text_content("#empty")
        page.context.close()


def test_a_key_is_asked_for_and_used(tmp_path: Path, open_page: Any) -> None:
    keys = (("admin", "a-long-admin-key"), ("rank", "a-long-rank-key"))
    with page_server(tmp_path, keys=keys) as address:
        page = open_page(address)
        page.wait_for_selector("#key-form:not([hidden])")
        for key, words in (("not-a-known-key", "needs a valid key"), ("a-long-rank-key", "role admin")):
            page.fill("#key", key)
            page.press("#key", "Enter")
            page.wait_for_selector(f"#key-problem:has-text('{words}')")
        page.fill("#key", "a-long-admin-key")
        page.press("#key", "Enter")
        page.wait_for_selector("#shelf li")
        assert page.text_content("#connection") == "live"
        page.context.close()


def test_it_says_when_the_service_is_gone(tmp_path: Path, open_page: Any) -> None:
    with page_server(tmp_path) as address:
        page = open_page(address)
        page.wait_for_selector("#connection[data-state=live]")
    page.wait_for_selector("#connection[data-state=lost]")
    assert page.text_content("#connection") == "connection lost"

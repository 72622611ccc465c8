"""By keyboard alone, on a phone, in the dark, with a key, for ears as for eyes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.search.page.server import ask, click, search_server, shown, title
from tests.service.page.checks import CONTRAST, NAMELESS, SMALL
from tests.service.page.server import eventually, said

READ = [
    "#found-title",
    ".title",
    ".path",
    ".snippet",
    ".why",
    ".reasons th",
    ".lead",
    "h2",
    "#filters small",
    "footer p",
]
OVERLAP = """() => [...document.querySelectorAll('#results li')].filter((one, i, all) => i &&
    one.getBoundingClientRect().top < all[i - 1].getBoundingClientRect().bottom).length"""
FOCUSED = "document.activeElement.closest('#results li')?.dataset.id ?? document.activeElement.id"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_fits_and_can_be_read(notes_box: str, open_page: Any, width: int, scheme: str) -> None:
    page = open_page(f"{notes_box}/search", width, color_scheme=scheme)
    page.wait_for_selector("#examples button")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ask(page, "hostile")
    page.click("#results .why >> nth=0")
    page.wait_for_selector(".reasons tr")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERLAP) == 0
    assert min(page.evaluate(CONTRAST, ["#results li", READ])) >= 4.5
    assert page.eval_on_selector_all(":is(button, select, input, [role=img]):visible", NAMELESS) == []
    assert page.eval_on_selector_all("main button, select", SMALL) == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert dark == (scheme == "dark")
    title(page, "evil.txt").click()
    page.wait_for_selector("#reader[open]")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.querySelector('#reader').matches(':modal')") == (width == 360)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_owners_page_fits_and_can_be_read(notes_box: str, open_page: Any, width: int, scheme: str) -> None:
    page = open_page(f"{notes_box}/search/owner", width, color_scheme=scheme)
    page.wait_for_selector("#chart-first canvas")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert min(page.evaluate(CONTRAST, [".card", [".lead", ".tiles dt", "h2", "figcaption"]])) >= 4.5
    assert page.eval_on_selector_all(":is(button, select, input, [role=img]):visible", NAMELESS) == []
    assert page.eval_on_selector_all("main button, select", SMALL) == []


def test_the_keyboard_is_enough(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search")
    keys = page.keyboard
    page.evaluate("document.activeElement.blur()")
    keys.press("/")
    assert page.evaluate(FOCUSED) == "query"
    keys.type("apple")
    expect(page.locator("#results li")).to_have_count(10)
    keys.press("ArrowDown")  # turns to the results, which makes the search
    expect(page.locator("#found-title")).to_contain_text("14 results")
    keys.press("ArrowDown")
    keys.press("ArrowDown")
    keys.press("ArrowUp")
    ids = shown(page)
    assert page.evaluate(FOCUSED) == ids[1]
    keys.press("w")
    expect(page.locator("#results li:nth-child(2) .reasons table")).to_be_visible()
    keys.press("w")
    keys.press("Enter")
    expect(page.locator("#reader")).to_be_visible()
    assert page.evaluate("document.activeElement.id") == "reader-title"
    keys.press("Escape")
    expect(page.locator("#reader")).to_be_hidden()
    assert page.evaluate(FOCUSED) == ids[1]
    expect(page.locator("#results li:nth-child(2) .undo")).to_be_visible()
    keys.press("u")
    expect(page.locator("#results li:nth-child(2) .undo")).to_be_hidden()
    keys.press("?")
    expect(page.locator("#keys")).to_be_visible()
    keys.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    keys.press("p")
    expect(page.locator("#private")).to_have_attribute("aria-pressed", "true")
    page.focus("#results li:nth-child(1) .title")
    keys.press("Escape")
    assert page.evaluate(FOCUSED) == "query"
    keys.press("Escape")
    expect(page.locator("#query")).to_have_value("")
    expect(page.locator("#welcome")).to_be_visible()


def test_letters_in_the_box_are_letters(notes_box: str, open_page: Any) -> None:
    page = open_page(f"{notes_box}/search")
    page.click("#query")
    page.keyboard.type("a/b?wup")
    assert page.input_value("#query") == "a/b?wup"
    assert not page.is_visible("#keys")


def test_focus_can_be_seen_and_results_are_announced(notes_box: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{notes_box}/search")
    ask(page, "apple")
    expect(page.locator("#news[role=status]")).to_have_text(re.compile("14 results.* for apple"))
    page.keyboard.press("ArrowDown")
    style = "getComputedStyle(document.activeElement)"
    assert page.evaluate(f"{style}.outlineStyle") == "solid"
    assert page.evaluate(f"parseFloat({style}.outlineWidth)") >= 2
    click(page, shown(page)[0])
    expect(page.locator("#toast [role=status]")).to_contain_text("Noted for “apple”")
    assert page.get_attribute("#results li:first-child .why", "aria-expanded") == "false"


def test_the_theme_can_be_chosen(notes_box: str, open_page: Any) -> None:
    page = open_page(f"{notes_box}/search", color_scheme="light")
    page.wait_for_selector("#examples button")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    page.click("#theme")
    assert page.text_content("#theme") == "Theme: dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


def test_needs_no_inline_styles_or_scripts(notes_box: str, open_page: Any) -> None:
    page = open_page(f"{notes_box}/healthz")

    def strict(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, headers=answer.headers | {"content-security-policy": "default-src 'self'"})

    page.route("**/search", lambda route: strict(route) if route.request.method == "GET" else route.continue_())
    page.goto(f"{notes_box}/search")
    page.wait_for_selector("#examples button")
    ask(page, "apple")
    page.click("#results .why >> nth=0")
    page.wait_for_selector(".reasons tr")
    page.route("**/search/owner", strict)
    page.goto(f"{notes_box}/search/owner")
    page.wait_for_selector("#chart-first canvas")


def test_still_for_those_who_want_less_motion(fresh: str, open_page: Any) -> None:
    page = open_page(f"{fresh}/search", reduced_motion="reduce")
    click(page, ask(page, "apple")[4])
    ask(page, "apple")
    assert page.evaluate("document.getAnimations().length") == 0


def test_a_touch_screen_needs_no_enter(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search", 360, has_touch=True, is_mobile=True)
    page.type("#query", "apple")
    expect(page.locator("#found-title")).to_contain_text("14 results")
    page.tap("#results li:nth-child(3) .title")
    page.tap("#reader #toast button")  # the way back is in reach though the document covers the page
    expect(page.locator("#toast span")).to_have_text("Taken back.")
    page.tap("#reader-close")
    expect(page.locator("#reader")).to_be_hidden()


def test_a_key_is_asked_for_and_used(browser: Any, tmp_path: Path, open_page: Any) -> None:
    from playwright.sync_api import expect

    keys = (("admin", "a-long-admin-key"), ("rank", "a-long-rank-key"))
    with search_server(tmp_path, keys=keys) as address:
        page = open_page(f"{address}/search")
        for key in ("not-a-known-key", "a-long-rank-key"):
            page.wait_for_selector("#key-form:not([hidden])")
            expect(page.locator("#key-problem")).to_contain_text("needs a valid key")
            page.fill("#key", key)
            page.press("#key", "Enter")
        expect(page.locator("#welcome")).to_be_visible()
        click(page, ask(page, "apple")[2])
        page.goto(f"{address}/search/owner")
        page.fill("#forgotten", "apple")
        page.click("#forget-query button")
        page.click("#forget-query button")
        expect(page.locator("#forget-news")).to_contain_text("role admin")
        page.goto(f"{address}/healthz")  # the end of the search carries the key

        def learned() -> None:
            assert said(address, "/search/status", "a-long-rank-key")["counts"]["learned"] == 1

        eventually(learned)
        page.evaluate("sessionStorage.setItem('rankloop-key', 'a-long-admin-key')")
        page.goto(f"{address}/search/owner")
        page.wait_for_selector("#chart-first canvas")
        with page.expect_download() as taken:
            page.click(".exports a:has-text('log')")
        assert taken.value.path().stat().st_size > 100
        page.context.close()

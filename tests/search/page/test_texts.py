"""Documents and queries that mean harm are shown as they are; characters of every script are counted right."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.search.page.server import ask, title
from tests.service.page.server import said

MARKS = "all => all.map(one => one.textContent)"
STRANGERS = """() => document.querySelectorAll(
    '#results :is(img, script, svg, b, i, style, iframe), #reader :is(img, script, svg, b, i)').length"""


def test_hostile_documents_are_text(notes_box: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{notes_box}/search")
    ids = ask(page, "hostile")
    assert set(ids) >= {"evil.txt", "evil.html", "a \"quoted\" 'name' & more.txt"}  # others by meaning
    for id in ids:
        title(page, id).click()
        expect(page.locator("#reader-path")).to_have_text(id)
        path = f"/search/document?{httpx.QueryParams({'id': id})}"
        assert page.text_content("#reader-body") == said(notes_box, path)["body"]
        page.keyboard.press("Escape")
    assert "<img src=x onerror=" in title(page, "evil.txt").text_content()
    assert "<script>" in title(page, "evil.html").text_content()
    assert page.evaluate(STRANGERS) == 0
    page.click("#results li:first-child .why")
    page.wait_for_selector(".reasons tr")
    assert page.evaluate("window.harm") is None


def test_markup_in_a_text_is_read_as_it_stands(notes_box: str, open_page: Any) -> None:
    page = open_page(f"{notes_box}/search")
    ask(page, "bold")
    title(page, "evil.txt").click()
    page.wait_for_selector("#reader[open]")
    assert "<b>bold</b>" in page.text_content("#reader-body")
    assert page.eval_on_selector_all("#results mark", MARKS) == ["bold"]
    assert "<b>bold</b>" in page.text_content("#results .snippet")


HOSTILE = [
    "<script>window.harm = 1</script>",
    "\"><img src=x onerror='window.harm = 1'>",
    "'; DROP TABLE documents; --",
    '"" ( ) * - : ~ AND OR NOT',
    "apple" * 190,
    "\u202eelppa \u0000 \ud83d",
    "a%20b#q=c&d=e+f \\ / ? .. ../../etc/passwd",
    "𠮷" * 300,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_queries(notes_box: str, open_page: Any, text: str) -> None:
    page = open_page(f"{notes_box}/search")
    page.evaluate(
        """text => { const box = document.querySelector('#query');
        box.value = text; box.dispatchEvent(new Event('input')); }""",
        text.encode("utf-8", "replace").decode(),
    )
    page.press("#query", "Enter")
    page.wait_for_function("() => location.hash.startsWith('#q=')")  # it was answered
    assert page.text_content("#problem") == ""
    assert page.evaluate("window.harm") is None
    assert page.evaluate(STRANGERS) == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    page.reload()  # it is in the address
    page.wait_for_selector("#found:not([hidden])")
    assert page.evaluate("window.harm") is None


def test_half_a_character_is_mended(notes_box: str, open_page: Any) -> None:
    page = open_page(f"{notes_box}/search")
    page.evaluate("document.querySelector('#query').value = 'banana \\ud83d'")
    page.press("#query", "Enter")
    page.wait_for_selector("#found:not([hidden])")
    assert page.text_content("#problem") == ""


def test_marks_stand_on_the_words_whatever_comes_before(notes_box: str, open_page: Any) -> None:
    page = open_page(f"{notes_box}/search")
    assert ask(page, "banana") == ["日本語 😀.txt"]
    assert page.eval_on_selector_all("#results mark", MARKS) == ["banana", "banana"]
    assert "😀" in page.text_content("#results .snippet")
    ask(page, "日本語")
    assert set("".join(page.eval_on_selector_all("#results mark", MARKS))) <= set("日本語")
    assert page.eval_on_selector_all("#results mark", MARKS)


def test_names_come_through_as_they_are(notes_box: str, open_page: Any) -> None:
    page = open_page(f"{notes_box}/search")
    for text, id in (("quoted", "a \"quoted\" 'name' & more.txt"), ("banana", "日本語 😀.txt")):
        assert ask(page, text) == [id]
        page.click("#results .title")
        page.wait_for_selector("#reader[open]")
        assert page.text_content("#reader-path") == id
        page.keyboard.press("Escape")

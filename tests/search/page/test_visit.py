"""Somebody types, searches, clicks, takes it back, and is left alone in private."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx

from tests.search.page.server import COMPARES, ask, become, click, log_of, predicted, row, search_server, shown, title
from tests.service.page.server import eventually, said


def test_answers_come_while_typing_and_leave_no_trace(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search")
    before = log_of(fresh)
    page.type("#query", "app")
    expect(page.locator("#results li")).to_have_count(10)
    assert shown(page)[:3] == ["note-01.md", "note-02.md", "note-03.md"]
    assert "preview" in page.text_content("#found-title")
    assert page.locator(".why:visible").count() == 0  # there is no impression to ask about
    assert log_of(fresh) == before


def test_answers_that_are_overtaken_are_dropped(notes_box: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{notes_box}/search")
    held: list[Any] = []

    def hold(route: Any) -> None:
        asked = json.loads(route.request.post_data)["text"]
        held.append(route) if asked == "hostile" else route.continue_()

    page.route("**/search", hold)
    page.fill("#query", "hostile")
    eventually(lambda: _is_held(page, held))
    page.fill("#query", "banana")
    expect(page.locator("#results li")).to_have_count(1)
    for route in held:
        route.continue_()
    page.wait_for_timeout(300)
    assert shown(page) == ["日本語 😀.txt"]


def _is_held(page: Any, held: list[Any]) -> None:
    page.wait_for_timeout(50)
    assert held


def test_enter_makes_a_search_that_is_logged(fresh: str, open_page: Any) -> None:
    page = open_page(f"{fresh}/search")
    before = len(log_of(fresh))
    ids = ask(page, "apple")
    assert len(ids) == 10
    assert len(log_of(fresh)) == before + 1
    page.click("#more")
    assert len(shown(page)) == 14
    assert not page.is_visible("#more")
    assert len(log_of(fresh)) == before + 1  # more of the same list
    assert page.url.endswith("#q=apple")


def test_a_long_question_is_not_cut(fresh: str, open_page: Any) -> None:
    page = open_page(f"{fresh}/search")
    page.focus("#query")
    page.keyboard.insert_text("unknown " * 200 + "banana")
    page.keyboard.press("Enter")
    page.wait_for_selector("#again:visible")
    assert shown(page) == ["日本語 😀.txt"]


def test_three_clicks_change_the_order(fresh: str, open_page: Any) -> None:
    page = open_page(f"{fresh}/search")
    target = ask(page, "apple")[2]
    before = predicted(fresh, "apple").index(target)
    for _ in range(3):
        click(page, target)
        page.press("#query", "Enter")
        eventually(lambda: _is_up_to_date(page, fresh))
    after = shown(page).index(target)
    assert after < 2
    assert predicted(fresh, "apple").index(target) < before
    assert said(fresh, "/search/status")["counts"]["learned"] == 3


def test_the_first_click_is_seen_with_a_mark(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search")
    first = ask(page, "apple")
    target = first[2]
    click(page, target)
    second = ask(page, "apple")
    up = 2 - second.index(target)
    assert up > 0
    expect(row(page, target).locator(".moved")).to_contain_text(f"▲ {up}")
    expect(row(page, target).locator(".moved")).to_contain_text("since your last search of this query")
    for id in first:
        moved = first.index(id) - second.index(id) if id in second else 0
        mark = row(page, id).locator(".moved")
        assert not moved or f"{abs(moved)} position" in mark.text_content()


def _is_up_to_date(page: Any, address: str) -> None:
    status = said(address, "/search/status")
    page.wait_for_timeout(50)
    found = re.search(r"learned from (\d+)", page.text_content("#found-title"))
    assert status["counts"]["open"] == 1
    assert found
    assert int(found[1]) == status["state"]


def test_undo_puts_it_back(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search")
    target = ask(page, "apple")[2]
    before = predicted(fresh, "apple")
    click(page, target)
    ask(page, "apple")
    assert predicted(fresh, "apple").index(target) == 0
    undo = row(page, target).locator(".undo")
    expect(undo).to_be_visible()
    undo.click()
    expect(page.locator("#toast span")).to_have_text("Taken back, and what was learned from it.")
    expect(undo).to_be_hidden()
    assert predicted(fresh, "apple") == before
    assert said(fresh, "/search/status")["health"]["ctr"] is None


def test_undo_before_it_was_learned(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search")
    ids, before = ask(page, "apple"), predicted(fresh, "apple")
    title(page, ids[3]).click()
    page.click("#toast button:has-text('Undo')")
    expect(page.locator("#toast span")).to_have_text("Taken back.")
    page.keyboard.press("Escape")
    ask(page, "apple")
    assert said(fresh, "/search/status")["counts"]["closed"] == 0
    assert predicted(fresh, "apple") == before


def test_private_leaves_no_trace(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search")
    before = log_of(fresh)
    page.click("#private")
    expect(page.locator("#private-note")).to_contain_text("nothing is learned")
    page.fill("#query", "apple")
    page.press("#query", "Enter")
    expect(page.locator("#found-title")).to_contain_text("in private")
    page.click("#results li:nth-child(3) .title")
    page.wait_for_selector("#reader[open]")
    page.keyboard.press("Escape")
    assert "#q" not in page.url
    assert page.locator(".why:visible, .undo:visible").count() == 0
    page.goto(f"{fresh}/healthz")  # leaving says nothing either
    assert log_of(fresh) == before
    assert page.context.cookies() == []


def test_a_list_without_clicks_teaches_nothing(fresh: str, open_page: Any) -> None:
    page = open_page(f"{fresh}/search")
    before = predicted(fresh, "apple")
    for _ in range(3):
        ask(page, "apple")
    page.goto(f"{fresh}/healthz")
    assert predicted(fresh, "apple") == before
    assert said(fresh, "/search/status")["counts"]["open"] == 3


def test_leaving_finishes_a_search(fresh: str, open_page: Any) -> None:
    page = open_page(f"{fresh}/search")
    click(page, ask(page, "apple")[1])
    page.goto(f"{fresh}/healthz")
    eventually(lambda: _has_learned(fresh))


def _has_learned(address: str) -> None:
    assert said(address, "/search/status")["counts"]["learned"] == 1


def test_a_click_on_a_preview_teaches_nothing(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search")
    page.fill("#query", "apple")
    expect(page.locator("#results li")).to_have_count(10)
    page.route("**/search", lambda route: None)  # the search that turning to the results makes never comes back
    page.eval_on_selector("#results li .title", "one => one.click()")
    expect(page.locator("#toast span")).to_contain_text("nothing is learned")
    assert said(fresh, "/search/status")["counts"]["closed"] == 0


def test_turning_to_the_results_makes_the_search(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search")
    page.fill("#query", "apple")
    expect(page.locator("#results li")).to_have_count(10)
    page.hover("#results li:nth-child(2)")
    expect(page.locator("#found-title")).to_contain_text("14 results")
    assert said(fresh, "/search/status")["counts"]["impressions"] == 1


def test_the_address_brings_a_search_back(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search#q=banana")
    expect(page.locator("#results li")).to_have_count(1)
    ask(page, "apple")
    page.go_back()
    expect(page.locator("#query")).to_have_value("banana")
    expect(page.locator("#results li")).to_have_count(1)


def test_nothing_found_and_nothing_asked(notes_box: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{notes_box}/search")
    expect(page.locator("#welcome")).to_contain_text("Search 18 documents")
    expect(page.locator("#examples button")).to_have_count(3)
    page.fill("#query", "zyzzyva")
    page.press("#query", "Enter")
    expect(page.locator("#nothing")).to_contain_text("zyzzyva")
    page.fill("#query", "")
    expect(page.locator("#welcome")).to_be_visible()
    page.click("#examples button >> nth=0")
    expect(page.locator("#results li").first).to_be_visible()


def test_problems_are_said_in_one_line(notes_box: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{notes_box}/search")
    wrong = {"type": "about:blank", "title": "Unavailable", "status": 503, "detail": "the disk is full"}
    page.route("**/search", lambda route: route.fulfill(status=503, json=wrong), times=1)
    page.fill("#query", "apple")
    expect(page.locator("#problem")).to_have_text("the disk is full")
    page.press("#query", "Enter")
    expect(page.locator("#results li").first).to_be_visible()
    expect(page.locator("#problem")).to_be_empty()


def test_who_compares_is_told(tmp_path: Path, open_page: Any) -> None:
    from playwright.sync_api import expect

    with search_server(tmp_path, study=True) as address:
        page = open_page(f"{address}/search")
        become(page, COMPARES)
        ids = ask(page, "apple")
        expect(page.locator("#compared")).to_contain_text("compares")
        click(page, ids[2])
        expect(page.locator("#toast span")).to_have_text("Noted for the comparison.")
        ask(page, "apple")
        assert page.locator(".moved:visible").count() == 0
        assert said(address, "/search/status")["counts"]["learned"] == 0
        page.context.close()


def test_the_document_that_closes_late_leaves_the_box_alone(fresh: str, open_page: Any) -> None:
    """The event of closing comes later than the closing: by then somebody may type."""
    page = open_page(f"{fresh}/search")
    title(page, ask(page, "apple")[0]).click()
    page.wait_for_selector("#reader[open]")
    page.evaluate(
        """() => { const box = document.querySelector('#query');
        document.querySelector('#reader').close(); box.focus();
        box.value = 'banana'; box.dispatchEvent(new Event('input')); }"""
    )
    page.wait_for_function("() => document.querySelector('#found-title').textContent.includes('preview')")
    assert page.evaluate("document.activeElement.id") == "query"
    assert said(fresh, "/search/status")["counts"]["impressions"] == 1


def test_filters_count_and_narrow(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search")
    ask(page, "hostile")
    html = page.locator("#filters button", has_text="html")
    counts = said_facets(fresh, "hostile")["type"]
    expect(html.locator("small")).to_have_text(str(counts["html"]))
    html.click()
    expect(page.locator("#query")).to_have_value("hostile type:html")
    expect(page.locator("#results li")).to_have_count(1)
    chosen = page.locator("#filters button[aria-pressed=true]")
    expect(chosen).to_have_count(1)
    chosen.click()
    expect(page.locator("#query")).to_have_value("hostile")
    expect(page.locator("#results li").nth(1)).to_be_visible()


def test_results_keep_their_width_beside_a_document(fresh: str, open_page: Any) -> None:
    page = open_page(f"{fresh}/search")
    title(page, ask(page, "hostile")[0]).click()
    page.wait_for_selector("#reader[open]")
    ask(page, "hostile names")
    assert page.eval_on_selector("#filters", "filters => !filters.hidden")
    assert page.eval_on_selector("#results", "results => results.clientWidth") > 400


def test_the_field_for_other_pages(fresh: str, open_page: Any) -> None:
    """Links keep the slashes of a path, and a server that is gone is told."""
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search-field.js")  # a page without scripts of its own
    page.evaluate(
        """address => { const script = document.createElement('script'); script.src = address + '/search-field.js';
        document.body.innerHTML = '<div id=here></div>'; script.dataset.into = '#here';
        script.dataset.link = '/docs/{id}'; document.body.append(script); }""",
        fresh,
    )
    answer = {"impression": "x", "results": [{"id": "a/b c?.md", "title": "A", "snippet": "a", "highlights": []}]}
    page.route("**/search", lambda route: route.fulfill(json=answer))
    page.fill("#here input", "apple")
    page.press("#here input", "Enter")
    expect(page.locator("#here a")).to_have_attribute("href", "/docs/a/b%20c%3F.md")
    page.unroute_all()
    page.route("**/search", lambda route: route.abort())
    page.press("#here input", "Enter")
    expect(page.locator("#here p[role=status]")).to_have_text("The search does not answer.")


def said_facets(address: str, text: str) -> Any:
    body = {"text": text, "private": True, "facets": True}
    return httpx.post(f"{address}/search", json=body, timeout=60).raise_for_status().json()["facets"]


def test_newest_first(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search")
    ask(page, "apple")
    page.select_option("#sort", "date")
    expect(page.locator("#found-title")).to_contain_text("newest first")
    assert said(fresh, "/search/status")["counts"]["impressions"] == 1  # nothing is learned from this order


def test_suggestions_forgive_a_letter(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search")
    page.type("#query", "red chesnu")
    expect(page.locator("#suggestions button")).to_have_text(["red chestnut"])
    page.click("#suggestions button")
    expect(page.locator("#query")).to_have_value("red chestnut")
    expect(page.locator("#found-title")).to_contain_text("results")
    expect(page.locator("#suggestions")).to_be_hidden()


def test_an_engine_that_fails_is_said(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search")

    def aged(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"age_seconds": 130.0})

    page.route("**/search", aged)
    ask(page, "apple")
    expect(page.locator("#stale")).to_have_text("The engine does not answer. This is what it found 2 minutes ago.")

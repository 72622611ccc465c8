"""A visitor's clicks reorder the shelf; simulated users move the curves."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from tests.service.page.server import eventually, said

CHARTS = ("#chart-quality", "#chart-exploration", "#chart-learning")
ORDER = "all => all.map(one => one.dataset.id)"
LIKED = {"Peach", "Dusk"}  # warm, round and quiet


@pytest.fixture
def fresh(demo: str) -> str:
    """The demo, its playground with nothing learned."""
    httpx.post(f"{demo}/rankers/playground/rollback", json={"state": 0}).raise_for_status()
    return demo


def order(page: Any) -> list[str]:
    found: list[str] = page.eval_on_selector_all("#shelf li", ORDER)
    return found


def like(page: Any, name: str) -> None:
    page.click(f"#shelf li[data-id={name}] button")
    page.wait_for_selector("#shelf:not([aria-busy])")


def check_liked_are_first(shelf: list[str]) -> None:
    assert LIKED.issubset(shelf[:4])  # pairs are swapped at random, so one may stand a place lower


def test_a_click_reorders_the_shelf(fresh: str, open_page: Any) -> None:
    page = open_page(fresh)
    page.wait_for_selector("#shelf[data-impression]")
    before = order(page)
    like(page, "Dusk")
    from playwright.sync_api import expect

    expect(page.locator("#shelf-news")).to_have_text(re.compile(r"^Dusk moved from position \d+ to \d+\.$"))
    after = order(page)
    assert sorted(after) == sorted(before)
    assert after.index("Dusk") < before.index("Dusk")
    assert any(said(fresh, "/rankers/playground")["weights"].values())


def test_the_keyboard_is_enough(fresh: str, open_page: Any) -> None:
    page = open_page(fresh)
    page.wait_for_selector("#shelf[data-impression]")
    learned = said(fresh, "/rankers/playground")["counts"]["learned"]
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "print":
            break
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    chosen = page.evaluate("document.activeElement.parentElement.dataset.id")
    assert order(page).index(chosen) == 8  # two rows of four down
    page.keyboard.press("Enter")
    page.wait_for_selector("#shelf-news:has-text('moved from')")
    assert said(fresh, "/rankers/playground")["counts"]["learned"] == learned + 1
    assert page.evaluate("document.activeElement.parentElement.dataset.id") == chosen  # focus goes along


def test_five_hundred_users(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(fresh)
    page.wait_for_selector("#shelf[data-impression]")
    before = said(fresh, "/rankers/playground")["counts"]["learned"]
    drawn = [page.eval_on_selector(f"{chart} canvas", "one => one.toDataURL()") for chart in CHARTS]
    page.click("#start-users")
    expect(page.locator("#start-users")).to_be_disabled()
    expect(page.locator("#users-news")).to_have_text("All 500 users are done.", timeout=120_000)
    assert page.eval_on_selector("#users-progress", "bar => [bar.value, bar.max]") == [500, 500]
    report = said(fresh, "/rankers/playground")
    assert (
        report["counts"]["learned"] == before + 400
    )  # a fifth of them took part in the comparison, which teaches nobody
    assert set(sorted(report["weights"], key=lambda name: -abs(report["weights"][name]))[:3]) == {
        "warm",
        "round",
        "busy",
    }
    eventually(lambda: check_liked_are_first(order(page)))
    expect(page.locator("#start-users")).to_be_enabled()
    for chart, before_them in zip(CHARTS, drawn):  # the curves have moved
        assert page.eval_on_selector(f"{chart} canvas", "one => one.toDataURL()") != before_them


def test_start_over(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(fresh)
    page.wait_for_selector("#shelf[data-impression]")
    like(page, "Lagoon")
    page.click("#start-over")
    expect(page.locator("#shelf-news")).to_have_text("The ranker is back at its initial state.")
    assert not any(said(fresh, "/rankers/playground")["weights"].values())


def test_a_shelf_that_is_too_old(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(fresh)
    page.wait_for_selector("#shelf[data-impression]")
    gone = {"type": "about:blank", "title": "Gone", "status": 410, "detail": "the window has closed"}
    page.route("**/feedback", lambda route: route.fulfill(status=410, json=gone), times=1)
    like(page, "Moon")
    expect(page.locator("#shelf-news")).to_contain_text("too old")
    like(page, "Moon")
    expect(page.locator("#shelf-news")).to_contain_text("Moon moved from")

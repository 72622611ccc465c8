"""Reasons, numbers, curves, the study, the documents, forgetting and exports: all as the service says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from tests.search.page.server import COMPARES, ask, become, click, log_of, owner_of, predicted, row, search_server
from tests.service.page.server import eventually, said

READ = """all => all.map(one => [one.dataset.path, one.dataset.form, JSON.parse(one.dataset.value), one.textContent])"""
FORMS = {
    "share": lambda value: f"{100 * value:.1f} %",
    "rate": lambda value: f"{value:.1f}",
    "count": lambda value: f"{value:,}",
    "chance": lambda value: "< 0.001" if value < 0.001 else f"{value:.3f}",
}
REASONS = """all => all.map(one => [one.querySelector('th').textContent,
    JSON.parse(one.querySelector('td.value').dataset.value)])"""


def at(report: Any, path: str) -> Any:
    for name in path.split("."):
        report = (report or {}).get(name)
    return report


def check_numbers(page: Any, address: str) -> None:
    status = said(address, "/search/status")
    numbers = page.eval_on_selector_all("#progress [data-path][data-form]", READ)
    assert len(numbers) == 10
    for path, form, value, text in numbers:
        assert value == pytest.approx(at(status, path)), path
        assert text == ("–" if value is None else FORMS[form](value)), path


def test_numbers_and_curves_follow_the_clicks(fresh: str, open_page: Any) -> None:
    page = open_page(f"{fresh}/search")
    owner = owner_of(page, fresh)
    empty = owner.eval_on_selector("#chart-position canvas", "one => one.toDataURL()")
    assert owner.locator("#chart-first.waiting").count() == 1
    page.bring_to_front()
    for _ in range(3):
        click(page, ask(page, "apple")[2])
    ask(page, "apple")
    owner.bring_to_front()

    def check() -> None:
        owner.wait_for_timeout(200)
        check_numbers(owner, fresh)
        assert said(fresh, "/search/status")["health"]["click_position"] == 3.0
        assert owner.get_attribute("#chart-position", "aria-label") == "1 is the top: 3.0"
        assert owner.eval_on_selector("#chart-position canvas", "one => one.toDataURL()") != empty
        assert int(owner.get_attribute("#chart-first", "data-points")) >= 2
        assert owner.locator(".chart.waiting").count() == 0

    eventually(check)


def test_why_here_adds_up_to_the_score(fresh: str, open_page: Any) -> None:
    page = open_page(f"{fresh}/search")
    target = ask(page, "apples")[2]
    click(page, target)
    ask(page, "apples")
    row(page, target).locator(".why").click()
    page.wait_for_selector(".reasons tr")
    impression = page.get_attribute("#results", "data-impression")
    told = said(fresh, f"/search/why?impression={impression}&id={target}")
    reasons = dict(page.eval_on_selector_all(".reasons tr", REASONS))
    assert sum(reasons.values()) == pytest.approx(told["score"], abs=0.01)
    memory = {part["name"]: part["contribution"] for part in told["contributions"]}
    assert reasons["Clicks on it for this very query"] == memory[f"query = apples × document = {target}"] > 0
    assert "Clicks on it for queries with “apples”" in reasons  # the service knows the stem
    assert f"Score {told['score']:.3f}" in row(page, target).locator(".reasons").text_content()
    assert row(page, target).locator(".why").get_attribute("aria-expanded") == "true"
    row(page, target).locator(".why").click()
    assert page.locator(".reasons:visible").count() == 0


def test_study_numbers_are_those_of_the_service(tmp_path: Path, open_page: Any) -> None:
    from playwright.sync_api import expect

    with search_server(tmp_path, study=True) as address:
        page = open_page(f"{address}/search")
        become(page, COMPARES)
        owner = owner_of(page, address)
        expect(owner.locator("#study-verdict")).to_have_text("Nothing decided yet.")
        page.bring_to_front()
        for _ in range(8):
            click(page, ask(page, "apple")[0])
        ask(page, "banana")
        owner.bring_to_front()

        def check() -> None:
            owner.wait_for_timeout(200)
            study = said(address, "/search/status")["study"]
            assert study["wins"] + study["losses"] + study["ties"] == 8
            check_numbers(owner, address)
            assert owner.locator("#chart-study canvas").count() == 1

        eventually(check)
        assert said(address, "/search/status")["counts"]["learned"] == 0
        lines = httpx.get(f"{address}{owner.get_attribute('#study-file', 'href')}").text.splitlines()
        assert {json.loads(line)["query"] for line in lines} == {"apple"}
        assert len(lines) == 8
        page.context.close()


def test_documents_are_read_again(fresh: str, open_page: Any, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search")
    owner = owner_of(page, fresh)
    expect(owner.locator("#skipped summary")).to_have_text("1 file could not be read")
    owner.click("#skipped summary")
    expect(owner.locator("#skipped li")).to_have_text("image.png: it is not a text")
    (tmp_path / "notes" / "new.md").write_text("# Rhubarb\n\nrhubarb", encoding="utf-8")
    (tmp_path / "notes" / "note-14.md").unlink()
    owner.click("#refresh")
    expect(owner.locator("#documents-news")).to_have_text("18 documents: 1 new, 0 changed, 1 gone.")
    page.bring_to_front()
    assert ask(page, "rhubarb") == ["new.md"]


def press_twice(page: Any, button: str) -> None:
    from playwright.sync_api import expect

    page.click(button)
    expect(page.locator(button)).to_have_text("Really? Press again")
    page.click(button)


def test_forget_me_takes_it_all_out(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search")
    before, log = predicted(fresh, "apple"), log_of(fresh)
    for text in ("apple", "banana", "apple"):
        click(page, ask(page, text)[-1])
    ask(page, "apple")
    assert predicted(fresh, "apple") != before
    press_twice(page, "#forget-me")
    expect(page.locator("#forget-news")).to_have_text("Forgotten: 4 searches.")
    expect(page.locator("#query")).to_have_value("")
    assert predicted(fresh, "apple") == before
    assert not any("banana" in line for line in log_of(fresh))
    assert [json.loads(line) for line in log_of(fresh)][: len(log)] == [json.loads(line) for line in log]
    assert page.evaluate("sessionStorage.getItem('rankloop-orders')") is None
    assert page.context.cookies() == []


def test_forget_a_query_and_old_ones(fresh: str, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{fresh}/search")
    ask(page, "banana")
    click(page, ask(page, "Apple!")[4])
    ask(page, "apple")
    owner = owner_of(page, fresh)
    owner.fill("#forgotten", "apple")
    press_twice(owner, "#forget-query button")
    expect(owner.locator("#forget-news")).to_have_text("Forgotten: 2 searches.")
    owner.fill("#days", "0")
    press_twice(owner, "#forget-days button")
    expect(owner.locator("#forget-news")).to_have_text("Forgotten: 1 search.")
    assert said(fresh, "/search/status")["counts"]["learned"] == 0


def test_the_log_can_be_taken_along(fresh: str, open_page: Any) -> None:
    page = open_page(f"{fresh}/search")
    first = ask(page, "apple")[0]
    click(page, first)
    ask(page, "banana")
    owner = owner_of(page, fresh)
    with owner.expect_download() as taken:
        owner.click(".exports a:has-text('log')")
    assert pq.read_table(taken.value.path())["query_id"].to_pylist() == ["apple"]  # what is finished

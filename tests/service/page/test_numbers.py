"""Every number on the page is the one that `GET /rankers/{name}` or `GET /experiments/{name}` says."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.service.page.server import eventually, page_server, said
from tests.service.shop import NAMED, visit

FORMS = {
    "share": lambda value: f"{100 * value:.1f} %",
    "number": lambda value: f"{value:.3f}",
    "count": lambda value: f"{value:,}",
}
READ = """all => all.map(one => ({path: one.dataset.path, form: one.dataset.form, value: one.dataset.value,
                                  text: one.textContent}))"""
READ_WEIGHTS = "all => all.map(one => [one.dataset.weight, JSON.parse(one.dataset.value), one.textContent])"
READ_PARTS = "all => all.map(one => [one.dataset.contribution, JSON.parse(one.dataset.value)])"
READ_POSITIONS = "all => all.map(one => [Number(one.dataset.position), JSON.parse(one.dataset.value)])"
READ_FIELDS = "all => all.map(one => [one.dataset.field, JSON.parse(one.dataset.value)])"


def at(report: Any, path: str) -> Any:
    for name in path.split("."):
        report = report.get(name)
    return report


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A demo whose playground sixty users have used, and nobody else."""
    with page_server(tmp_path_factory.mktemp("used")) as address:
        httpx.post(f"{address}/demo/users", json={"users": 60}, timeout=60).raise_for_status()
        while said(address, "/demo/users")["running"]:
            time.sleep(0.05)
        yield address


def test_numbers_are_those_of_the_service(used: str, open_page: Any) -> None:
    page = open_page(used)
    page.wait_for_selector("#shelf[data-impression]")

    def check() -> None:
        report = said(used, "/rankers/playground")
        shown = page.eval_on_selector_all("[data-path]", READ)
        assert len(shown) == 18
        for number in shown:
            value = at(report, number["path"])
            assert json.loads(number["value"]) == value, number
            if number["form"]:
                assert number["text"] == ("–" if value is None else FORMS[number["form"]](value)), number
        assert report["counts"]["learned"] > 0
        assert 0 < report["health"]["ctr"] < 1

    eventually(check)


def test_weights_and_positions_are_those_of_the_service(used: str, open_page: Any) -> None:
    page = open_page(used)
    page.wait_for_selector("#shelf[data-impression]")
    report = said(used, "/rankers/playground")

    def check() -> None:
        weights = page.eval_on_selector_all("[data-weight]", READ_WEIGHTS)
        assert [(name, value) for name, value, _ in weights] == list(report["weights"].items())
        assert [text for *_, text in weights] == [f"{value:.3f}" for value in report["weights"].values()]
        positions = page.eval_on_selector_all("[data-position]", READ_POSITIONS)
        assert [value for _, value in positions] == report["health"]["ctr_by_position"]

    eventually(check)


def test_experiments_are_those_of_the_service(used: str, open_page: Any) -> None:
    page = open_page(used)
    result = said(used, "/experiments/learned-or-boldest")
    assert result["wins"] + result["ties"] + result["losses"] == 12  # every fifth of 60

    def check() -> None:
        fields = page.eval_on_selector_all("[data-experiment='learned-or-boldest'] [data-field]", READ_FIELDS)
        assert dict(fields) == {name: result[name] for name in ("wins", "ties", "losses", "win_ratio", "p_value")}

    eventually(check)


GRADED = {"learner": "online_gradient", "problem": {"feature_names": ["match", "age"], "max_grade": 4}}


def grade(address: str, updates: int, pause: float = 0.0) -> None:
    """Rank and grade three documents, several times."""
    with httpx.Client(base_url=address, timeout=60) as client:
        client.put("/rankers/graded", json=GRADED).raise_for_status()
        for _ in range(updates):
            documents = [{"id": f"d{i}", "features": [i / 3, 1 - i / 3]} for i in range(3)]
            shown = client.post("/rankers/graded/rank", json={"items": documents}).json()
            grades = {"d0": 0, "d1": 2, "d2": 4}
            body = {"impression": shown["impression"], "relevances": grades, "final": True}
            client.post("/rankers/graded/feedback", json=body).raise_for_status()
            time.sleep(pause)


def test_graded_feedback_shows_as_ndcg(used: str, open_page: Any) -> None:
    grade(used, 3)
    page = open_page(f"{used}/#graded")
    page.wait_for_selector("#tiles [data-path='health.ndcg'][data-value]:not(:text-is('–'))")
    assert page.input_value("#ranker") == "graded"
    assert not page.is_visible("#playground")
    assert "nDCG@10: " in page.get_attribute("#chart-quality", "aria-label")


def test_curves_begin_before_the_page_was_opened(used: str, open_page: Any) -> None:
    remembered = said(used, "/rankers/playground/history")["points"]
    assert len(remembered) >= 2
    page = open_page(used)
    page.wait_for_selector("#chart-quality canvas")

    def check() -> None:
        assert int(page.get_attribute("#chart-quality", "data-points")) >= len(remembered)

    eventually(check, 5.0)


def test_updates_per_second_are_the_difference_of_two_events(used: str, open_page: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        grading = pool.submit(grade, used, 12, pause=0.5)
        page = open_page(f"{used}/#graded")
        page.wait_for_selector("#pace:not(:text-is('0.0'))")
        assert 0.2 < float(page.text_content("#pace")) < 10  # an update every half second
        grading.result()


def test_names_and_reasons_are_those_of_the_service(used: str, open_page: Any) -> None:
    httpx.put(f"{used}/rankers/named", json=NAMED, timeout=60).raise_for_status()
    with httpx.Client(base_url=used, timeout=60) as client:
        shown = [visit(client, "named") for _ in range(3)][-1]
    page = open_page(f"{used}/#named")
    page.wait_for_selector("#why:not([hidden]) tbody tr")
    asked = f"/rankers/named/explain?impression={shown['impression']}&id={shown['ranking'][0]}"
    found = said(used, asked)["contributions"][:12]

    def check() -> None:
        parts = page.eval_on_selector_all("[data-contribution]", READ_PARTS)
        assert parts == [[part["name"], part["contribution"]] for part in found]
        names = [name for name, *_ in page.eval_on_selector_all("[data-weight]", READ_WEIGHTS)]
        assert names == [part["name"] for part in said(used, "/rankers/named/weights")["weights"]][: len(names)]
        assert names

    eventually(check)


def test_an_uploaded_model_shows_its_weights_and_its_states(
    tmp_path_factory: pytest.TempPathFactory, open_page: Any
) -> None:
    """Before its first ranking, columns have numbers instead of names; the initial state can be restored."""
    with page_server(tmp_path_factory.mktemp("uploaded")) as address, httpx.Client(base_url=address) as client:
        client.put("/rankers/trained", json=NAMED).raise_for_status()
        for _ in range(5):
            visit(client, "trained")
        file, media = client.get("/rankers/trained/state").content, {"Content-Type": "application/octet-stream"}
        client.put("/rankers/uploaded/state", content=file, headers=media).raise_for_status()
        page = open_page(f"{address}/#uploaded")

        def check() -> None:
            weights = {each["name"]: each["weight"] for each in said(address, "/rankers/uploaded/weights")["weights"]}
            shown = page.eval_on_selector_all("[data-weight]", READ_WEIGHTS)
            assert len(shown) > 3
            assert all(weights[name] == value for name, value, _ in shown)
            listed = said(address, "/rankers/uploaded/snapshots")["snapshots"]
            states = page.eval_on_selector_all("#states li", "all => all.map(one => Number(one.dataset.state))")
            assert states[-1] == 0
            assert states == [row["state"] for row in reversed(listed)]

        eventually(check)

"""The tables that pages show of results are those of the results that are kept."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from rankloop.experiments.report.charts import Line
from research.charts import small_multiples
from tools import first_contact

FOLDER = Path(__file__).parents[2] / "docs" / "results"


def script(name):
    spec = importlib.util.spec_from_file_location(f"docs_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


update = script("update")
ONLINE = {
    "id": "online-rankers",
    "claims": [
        {
            "subject": ["goal"],
            "text": "shown in all rounds, pooled: newton pairs is at least 0.02 above the best other, PDGD",
            "word": "partly",
            "because": "0.7 ± 0.1 against 0.6 ± 0.1",
            "difference": {"mean": 0.021, "low": 0.019, "high": 0.023},
        },
        {
            "subject": ["goal"],
            "text": "newton pairs is above the best other, PDGD",
            "word": "holds",
            "because": "by far",
            "difference": None,
        },
        {
            "subject": ["web search, simulated", "perfect"],
            "text": "newton pairs is above PDGD",
            "word": "holds",
            "because": "0.7 ± 0.1 against 0.6 ± 0.1",
            "difference": {"mean": 0.0081, "low": 4.1e-4, "high": 0.0101},
        },
    ],
    "tables": [
        {
            "title": "newton pairs less each other, pooled: nDCG(empty='skip')@5",
            "header": ["", "shown in the last tenth", "new queries at the end"],
            "rows": [["PDGD", "+0.0131 ± 0.0018", "−0.0021 ± 0.0011"]],
        },
        {
            "title": "web search, simulated, shown in the last tenth: nDCG(empty='skip')@5",
            "header": ["", "perfect"],
            "rows": [["newton pairs", "0.6996 ± 0.001"], ["PDGD", "0.6964"], ["fair pairs, memory 300", "–"]],
        },
        {
            "title": "web search, simulated, new queries at the end: nDCG(empty='skip')@5",
            "header": ["", "perfect"],
            "rows": [["newton pairs", "0.5996 ± 0.001"], ["PDGD", "0.6964"]],
        },
    ],
}


@pytest.mark.parametrize("page", update.PAGES, ids=lambda page: page.stem)
def test_a_page_shows_what_is_kept(page):
    text = page.read_text(encoding="utf-8")
    assert update.filled(text) == text, "run docs/results/update.py"


def test_every_part_is_on_a_page():
    found = [name for page in update.PAGES for _, name, *_ in update.RESULT.findall(page.read_text(encoding="utf-8"))]
    assert sorted(found) == sorted(update.PARTS)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setattr(update, "HERE", tmp_path)
    update.keep([ONLINE])
    return tmp_path


def test_findings_are_kept_by_their_id(here):
    assert json.loads((here / "online-rankers.json").read_text(encoding="utf-8")) == ONLINE


def test_comparisons_say_the_difference_and_its_interval(here):
    assert update.comparisons().splitlines() == [
        "| data set | users | above PDGD |",
        "| --- | --- | --- |",
        "| web search, simulated | perfect | holds, +0.008 (0.000 to 0.010) |",
    ]


def test_the_best_learner_is_bold(here):
    last, new = (update.PARTS[f"online-rankers-{name}"][0]() for name in ("qualities", "new-queries"))
    assert last.splitlines()[2] == "| web search, simulated | perfect | **.700** | .696 | – |"
    assert new.splitlines()[2:] == ["| web search, simulated | perfect | .600 | **.696** |"]


def test_goals_and_pooled_differences(here):
    assert update.goals().splitlines()[2:] == [
        "| shown in all rounds, pooled: newton pairs is at least 0.02 above the best other, PDGD | partly "
        "| +0.021 (0.019 to 0.023) |",
        "| newton pairs is above the best other, PDGD | holds | by far |",
    ]
    assert update.pooled().splitlines()[2:] == ["| PDGD | +.013 ± .002 | −.002 ± .001 |"]


def test_sections_without_results_stay(here):
    page = "<!-- result: {} -->\nold\n<!-- end of result -->"
    assert update.filled(page.format("coactive-claims")) == page.format("coactive-claims")
    assert "**.700**" in update.filled(page.format("online-rankers-qualities"))
    twice = update.filled(update.filled(page.format("online-rankers-qualities")))
    assert twice == update.filled(page.format("online-rankers-qualities"))


def test_what_a_call_costs_is_told_with_what_was_promised(here):
    row = {"server": "SQLite, 1 worker", "calls": "rank", "rate": 1234.5, "p50": 0.0012, "p99": 0.0034, "cpu": 456e-6}
    goal = {"quantity": "rank", "limit": "≤ 1.5 × bare", "here": "1.40 ×", "verdict": "held"}
    update.keep([{"id": "load", "machine": {"cores": "2"}, "busy": 1.25, "rows": [row], "goals": [goal]}])
    assert update.load().split("\n\n") == [
        "cores 2; the load of the machine was 1.2 at most.",
        "| server | calls | per second | p50 | p99 | processor time |\n| --- | --- | --- | --- | --- | --- |\n"
        "| SQLite, 1 worker | rank | 1,234 | 1.2 ms | 3.4 ms | 456 µs |",
        "| what | goal | here |  |\n| --- | --- | --- | --- |\n| rank | ≤ 1.5 × bare | 1.40 × | held |",
    ]
    update.keep([{"id": "soak", "rows": [{"kind": "kills", "outcome": "3 passed", "held": True, "minutes": 1.26}]}])
    assert update.soak().splitlines()[2:] == ["| kills | 3 passed | 1.3 |"]


def test_negative_differences_have_a_minus():
    claim = {"because": "", "difference": {"mean": -0.0503, "low": -0.06, "high": -0.04}}
    assert update.numbers(claim) == "−0.050 (−0.060 to −0.040)"


def test_small_multiples_have_a_cell_for_each_pair():
    rounds, rows = np.array([10, 100, 1000]), np.array([[0.1, 0.2, 0.3], [0.2, 0.3, 0.4]])
    lines = [Line("one", rows), Line("random order", rows, 1, "floor")]
    cells = {(row, column): (rounds, lines) for row in ("MQ2007", "web, simulated") for column in ("a", "b", "c")}
    chart = small_multiples("test", "Test", cells, y_label="nDCG@5")
    assert chart.png.startswith(b"\x89PNG")
    assert chart.svg.count("axes_") == 6
    assert all(text in chart.svg for text in ("MQ2007", "simulated", "random order", "nDCG@5"))


def test_the_page_of_first_contact_shows_what_is_kept():
    kept = json.loads((FOLDER / "first-contact.json").read_text(encoding="utf-8"))
    assert first_contact.page(kept) == (FOLDER / "first-contact.md").read_text(encoding="utf-8")
    missed = {row["name"] for entry in kept.values() for row in entry["rows"] if row["value"] > row["goal"]}
    assert missed <= {first_contact.CLOCK_ROW}  # measured while others used the machine

"""The page of a report: what stands beside what, what is counted, what is folded."""

from __future__ import annotations

from rankloop.experiments.analysis.verdicts import Verdict
from rankloop.experiments.report.html import UNFOLDED, counts, duration, page, told
from rankloop.experiments.report.model import Chart, Finding, Table

CLAIMS = (
    Verdict("A <bold> claim.", "holds", "0.9 against 0.5", "table 1: 0.91"),
    Verdict("Another.", "cannot hold", "at most 6.6", "section 4: 9.36", "Recovery has a <larger> chance."),
)


def test_the_paper_s_number_stands_beside_ours_on_the_page() -> None:
    text = page("P", [Finding("a", "A", claims=CLAIMS)])
    for part in ("0.9 against 0.5", "table 1: 0.91", "Recovery has a &lt;larger&gt; chance."):
        assert part in text


def test_the_first_page_counts_and_lists() -> None:
    first = Finding(
        "a", "Title A", claims=CLAIMS, facts=(("seeds", "0, 1, 2"),), missing=("Yahoo is away",), seconds=7.25
    )
    text = page("P", [first, Finding("b", "Title B", claims=CLAIMS[:1], facts=(("seeds", "nothing is drawn"),))])
    front = text[: text.index("<section")]
    assert "2 figures and tables, 3 claims, 7.2 s of computing." in front
    assert '<div class="holds"><b>2</b> hold</div>' in front
    assert '<a href="#a">a</a></td><td>Title A</td>' in front
    assert "<td>3</td><td>7.2 s</td>" in front
    assert "<td>nothing is drawn</td><td>–</td>" in front
    assert "Another.<small>Recovery has" in front
    assert "a: Yahoo is away" in front
    assert counts(CLAIMS) == {"holds": 1, "cannot hold": 1}
    assert told(CLAIMS) == "1 hold, 1 cannot hold as printed"
    assert [duration(None), duration(59.94), duration(600.0)] == ["–", "59.9 s", "10 min"]


def test_many_charts_and_tables_are_folded() -> None:
    charts = tuple(Chart(f"c{i}", f"Chart {i}", "", "<svg></svg>", b"") for i in range(UNFOLDED + 2))
    tables = tuple(Table(f"Table {i}", ("a",), [("1",)]) for i in range(UNFOLDED))
    text = page("P", [Finding("a", "A", charts=charts, tables=tables)])
    assert text.count("<figure>") == UNFOLDED + 2
    assert "<summary>2 more figures</summary>" in text
    assert "more tables" not in text

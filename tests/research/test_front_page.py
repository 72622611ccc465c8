"""The first page of a report over many reproductions sums up what was claimed, and by whom."""

from __future__ import annotations

from rankloop.experiments.analysis.verdicts import Verdict
from rankloop.experiments.report.model import Finding
from research.front_page import claim_counts, counts, duration, front_page

CLAIMS = (
    Verdict("A <bold> claim.", "holds", "0.9 against 0.5", "table 1: 0.91"),
    Verdict("Another.", "cannot hold", "at most 6.6", "section 4: 9.36", "Recovery has a <larger> chance."),
)


def test_the_first_page_counts_and_lists() -> None:
    first = Finding(
        "a", "Title A", claims=CLAIMS, facts=(("seeds", "0, 1, 2"),), missing=("Yahoo is away",), seconds=7.25
    )
    own = Verdict("Ours.", "partly", "0.6 against 0.5")
    front = front_page(
        [first, Finding("b", "Title B", claims=(CLAIMS[0], own), facts=(("seeds", "nothing is drawn"),))]
    )
    assert "2 figures and tables, 3 claims of the papers and 1 of our own, 7.2 s of computing." in front
    papers, _, ours = front.partition("Our own, which no paper makes:")
    assert '<div class="holds"><b>2</b> hold</div>' in papers
    assert '<div class="partly"><b>1</b> hold partly</div>' in ours
    assert '<div class="partly">' not in papers
    assert '; our own: <span class="partly">1&nbsp;hold&nbsp;partly</span>' in front
    assert '<a href="#a">a</a></td><td>Title A</td>' in front
    assert "<td>3</td><td>7.2 s</td>" in front
    assert "<td>nothing is drawn</td><td>–</td>" in front
    assert "Another.<small>Recovery has" in front
    assert "a: Yahoo is away" in front
    assert counts(CLAIMS) == {"holds": 1, "cannot hold": 1}
    assert claim_counts(CLAIMS) == "1 hold, 1 cannot hold as printed"
    assert claim_counts((*CLAIMS, own)) == "1 hold, 1 cannot hold as printed; our own: 1 hold partly"
    assert [duration(None), duration(59.94), duration(600.0)] == ["–", "59.9 s", "10 min"]

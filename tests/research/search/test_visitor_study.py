"""search-study through HTTP, with few visits to documents that are made up."""

from pathlib import Path

import pytest

from rankloop.engine import Here
from research.registry import Setting, everything
from research.search import collection, visitor_study
from research.search.visitor_study import Standing, _claims, _table, simulated


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    monkeypatch.setattr(collection, "TOPICS", 5)
    monkeypatch.setattr(visitor_study, "QUICK_VISITS", 120)


def test_the_study_runs_as_a_whole(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    setting = Setting(tmp_path, Here(), lambda done, of: steps.append((done, of)), quick=True)
    finding = everything()["search-study"].work(setting)
    assert steps[-1] == (120, 120)
    (row,) = finding.tables[0].rows
    wins, losses, ties = map(int, row[1:4])
    assert 20 < wins + losses + ties < 100
    assert len(finding.claims) == 2
    assert finding.missing


def test_the_same_seed_asks_the_same_and_the_last_visit_counts() -> None:
    found = collection.made_up()
    standings = simulated("made up", found, 43, 0)
    assert [standing.visits for standing in standings] == list(range(1, 44))
    totals = [standing.wins + standing.losses + standing.ties for standing in standings]
    assert totals == sorted(totals)
    assert simulated("made up", found, 101, 0)[-1].visits == 101


def run(wins: int, losses: int, p_value: float) -> list[Standing]:
    return [Standing(10, 1, 1, 0, 1.0), Standing(20, wins, losses, 3, p_value)]


def test_claims_can_fail() -> None:
    won = [claim.word for claim in _claims([run(90, 30, 1e-6), run(80, 30, 1e-5), run(85, 30, 1e-5)])]
    assert won == ["holds", "holds"]
    lost = [claim.word for claim in _claims([run(30, 90, 0.2), run(30, 80, 0.3), run(30, 85, 0.2)])]
    assert lost == ["does not hold", "does not hold"]
    assert [claim.word for claim in _claims([run(90, 30, 1e-6), run(80, 30, 0.5)])][1] == "partly"


def test_a_row_says_when_it_was_sure() -> None:
    rows = _table([run(90, 30, 1e-6), run(5, 4, 1.0)], (0, 1)).rows
    assert [row[-1] for row in rows] == ["20", "never"]

"""The figures on clicks: found, computed on small worlds, with claims that can fail."""

import numpy as np
import pytest

from rankloop.engine import Here
from rankloop.experiments.reproducing import Setting, everything
from rankloop.experiments.reproductions import click_worlds as worlds_module
from rankloop.experiments.reproductions import coactive_figures as figures
from rankloop.experiments.reproductions import coactive_study as study_module
from rankloop.experiments.reproductions import online_rankers as rankers
from rankloop.experiments.reproductions.click_worlds import CLEAN_GRADER, GRADER, LETOR, ClickWorld, click_worlds
from rankloop.experiments.reproductions.coactive_toy import highest_possible_rank, ranks
from rankloop.experiments.reproductions.verdicts import is_above

IDS = {"coactive-toy", "coactive-table-1", "online-rankers", *(f"coactive-{figure}" for figure in range(1, 8))}
STREAM = {"kind": "web_search", "n_items": 8, "n_features": 5, "n_queries": 50}
SMALL = ClickWorld("small", STREAM, GRADER, CLEAN_GRADER, 4)


@pytest.fixture
def setting(tmp_path, monkeypatch):
    monkeypatch.setattr(worlds_module, "click_worlds", lambda wanted: ([SMALL], ""))
    monkeypatch.setattr(rankers, "click_worlds", lambda wanted: ([SMALL], ""))
    monkeypatch.setattr(worlds_module, "QUICK_SHARE", 100)
    monkeypatch.setattr(rankers, "QUICK_HORIZON", 150)
    return Setting(tmp_path, Here(), lambda finished, of: None, quick=True)


def test_all_figures_are_known():
    assert set(everything()) >= IDS


def test_worlds_that_are_missing_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    found, notice = click_worlds(LETOR[:1])
    assert [world.name for world in found] == ["web search, simulated"]
    assert "MQ2007" in notice


@pytest.mark.parametrize(
    "figure", ["learning_curves", "swap_probabilities", "swap_over_time", "noise", "presented_and_predicted"]
)
def test_figures_on_a_small_world(figure, setting):
    finding = getattr(figures, figure)(setting)
    assert finding.claims
    assert finding.charts
    assert {claim.word for claim in finding.claims} <= {"holds", "partly", "does not hold"}
    assert all(claim.text.startswith("small: ") for claim in finding.claims)


def test_online_rankers_on_a_small_world(setting, monkeypatch):
    monkeypatch.setattr(rankers, "CONDITIONS", ("perfect", "drift"))
    monkeypatch.setattr(rankers, "_verdicts", lambda world, curves: [])
    finding = rankers.online_rankers(setting)
    assert finding.tables[0].header == ("", "perfect", "drift")
    assert [row[0] for row in finding.tables[0].rows] == [rankers.FULL, *rankers.RANKERS, rankers.TOP_1, "random order"]


def test_the_study_teaches_with_half_of_the_visits(monkeypatch):
    monkeypatch.setattr(study_module, "STREAM", STREAM)
    found = study_module.study.__wrapped__("3PR", 0, 900)
    assert found.rounds.tolist() == [100, 200, 300]
    assert np.all((found.common >= 0) & (found.common <= 8))
    assert np.all(np.isfinite(found.affirmativeness))


def test_the_toy_oscillates_within_what_is_possible():
    assert highest_possible_rank() == pytest.approx(6.56, abs=0.01)
    found = ranks(("preference perceptron", 0))
    assert set(found) == {1, 10}
    assert 3 < np.mean(found) < 8.5


def test_a_verdict_flips_with_the_data():
    more, less = np.array([0.5, 0.52, 0.51]), np.array([0.4, 0.41, 0.43])
    assert is_above("", more, less).word == "holds"
    assert is_above("", less, more).word == "does not hold"
    assert is_above("", np.array([0.5, 0.1, 0.6]), np.array([0.4, 0.2, 0.3])).word == "partly"
    assert is_above("", np.array([np.nan, 0.5]), np.array([0.1, 0.2])).word == "holds"

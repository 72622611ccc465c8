"""Files that rankloop 0.1 saved open, and go on as they would have with 0.1: rankers, policies, trained models."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.compatibility.observations import (
    ELSEWHERE,
    FILES,
    assert_same,
    copied,
    gone_on,
    judged,
    read,
    settings_of,
    state_of,
    trained,
)

import rankloop

RANKERS = read("rankers/expected.json.gz")
COMMANDS = read("commands/expected.json.gz")
pytestmark = pytest.mark.filterwarnings(ELSEWHERE)


def saved(name: str) -> Path:
    return FILES / "rankers" / f"{name}.rankloop"


def test_every_saved_ranker_has_its_expectation() -> None:
    assert {path.stem for path in (FILES / "rankers").glob("*.rankloop")} == set(RANKERS)
    assert len(RANKERS) == 67


@pytest.mark.parametrize("name", RANKERS)
def test_a_saved_session_opens_with_its_recipe_and_state(name: str) -> None:
    session = rankloop.load(saved(name))
    assert_same(settings_of(session), RANKERS[name]["settings"], "settings")
    loaded = dict(RANKERS[name]["expected"]["loaded"])
    loaded.pop("missing")
    assert_same(state_of(session), loaded)


@pytest.mark.parametrize("name", RANKERS)
def test_a_saved_ranker_learns_late_and_ranks_on(name: str) -> None:
    told = RANKERS[name]
    assert_same(gone_on(saved(name), told["late"], told["rounds"]), told["expected"])


@pytest.mark.parametrize("name", RANKERS)
def test_a_saved_ranker_that_is_saved_again_goes_on_the_same(name: str, tmp_path: Path) -> None:
    told = RANKERS[name]
    rankloop.Ranker.load(saved(name)).save(tmp_path / "again.rankloop")
    assert_same(gone_on(tmp_path / "again.rankloop", told["late"], told["rounds"]), told["expected"])


@pytest.mark.parametrize("name", RANKERS)
def test_what_was_shown_reads_and_writes_as_the_same_line(name: str) -> None:
    for text, _ in RANKERS[name]["late"]:
        assert rankloop.Shown.from_json(text).to_json() == text


def test_a_file_says_on_which_cpu_it_was_written() -> None:
    """On that kind nothing is said; elsewhere there is a warning, which the other tests expect."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        rankloop.load(saved("3pr-0"))
    assert all("was written on a" in str(warning.message) for warning in said)


@pytest.mark.parametrize("name", sorted(COMMANDS["gone_on"]))
def test_a_model_that_a_command_saved_goes_on(name: str) -> None:
    found = gone_on(FILES / "commands" / f"{name}.rankloop", [], COMMANDS["rounds"][name])
    assert_same(found, COMMANDS["gone_on"][name])


@pytest.mark.parametrize("name", sorted(COMMANDS["loaded"]))
def test_a_plain_session_opens(name: str) -> None:
    session = rankloop.load(FILES / "commands" / f"{name}.rankloop")
    assert_same(settings_of(session) | state_of(session), COMMANDS["loaded"][name])


def test_training_again_gives_the_same_models(tmp_path: Path) -> None:
    """The logs and grades are as they were, so the weights and all that is said of them are."""
    assert_same(trained(tmp_path, FILES / "commands"), COMMANDS["trained"])


def test_saved_models_are_judged_as_they_were(tmp_path: Path) -> None:
    assert_same(judged(copied("commands", tmp_path)), read("commands/judged.json"))


@pytest.mark.parametrize("change", [{"learned": 3}, {"state": {"weights": [0.0]}}])
def test_a_difference_would_be_noticed(change: dict[str, Any]) -> None:
    found = state_of(rankloop.load(saved("3pr-0")))
    with pytest.raises(AssertionError):
        assert_same(found | change, found)

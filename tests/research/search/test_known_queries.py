"""search-cranfield on documents that are made up, small."""

from pathlib import Path

import numpy as np
import pytest

from rankloop.engine import Here
from research.registry import Setting, everything
from research.search import collection, known_queries
from research.search.collection import Documents, asked, engine_of, made_up
from research.search.known_queries import USER_GROUPS, Played, _claims, played


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    monkeypatch.setattr(collection, "TOPICS", 6)
    monkeypatch.setattr(collection, "N_QUERIES", 40)
    monkeypatch.setattr(known_queries, "N_ASKED_QUERIES", 25)
    for name, value in {"QUICK_ROUNDS": 400, "FIRST": 100, "LAST": 100}.items():
        monkeypatch.setattr(known_queries, name, value)


@pytest.mark.usefixtures("small")
def test_the_figure_is_drawn_and_says_what_it_lacks(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    setting = Setting(tmp_path, Here(), lambda done, of: steps.append((done, of)), quick=True)
    finding = everything()["search-cranfield"].work(setting)
    assert steps[-1] == (len(USER_GROUPS), len(USER_GROUPS))
    assert finding.missing
    assert "Cranfield is not on this machine" in finding.missing[0]
    assert [row[0] for row in finding.tables[0].rows] == [users.name for users in USER_GROUPS]
    assert dict(finding.facts)["rounds"] == "400"
    words = {claim.text: claim.word for claim in finding.claims}
    assert words["The last 2,000 searches are shown a better order than the engine's"] == "holds"


@pytest.mark.usefixtures("small")
def test_a_run_is_a_function_of_its_seed_and_people_matter() -> None:
    found = made_up()
    with engine_of(Documents("made up", found.documents)) as engine:
        schema, queries = asked(found, engine)
    honest, again, other = (played(schema, queries, USER_GROUPS[0], 300, seed) for seed in (0, 0, 1))
    random = played(schema, queries, USER_GROUPS[3], 300, 0)
    assert np.array_equal(honest.shown, again.shown)
    assert not np.array_equal(honest.shown, other.shown)
    assert np.array_equal(honest.engine, random.engine)  # the same queries, asked in the same order
    assert honest.shown[-100:].mean() > honest.engine[-100:].mean() + 0.05
    # Trust in memory falls only after some hundred random clicks, and this run is short.
    assert abs(random.shown.mean() - random.engine.mean()) < 0.08


@pytest.mark.parametrize(("level", "word"), [(0.9, "holds"), (0.1, "does not hold")])
def test_claims_can_fail(level: float, word: str) -> None:
    run = Played(np.full(2_000, level), np.full(2_000, level), level, 0.5, 0.5)
    runs = {users.name: [run, run] for users in USER_GROUPS}
    words = {claim.text: claim.word for claim in _claims(runs, real=True)}
    assert words.pop("Random clicks cost at most .01") == "holds"
    assert set(words.values()) == {word}
    assert len(words) == 4

"""A learner of one's own: refused where its updates could not be read again, missed in one line where it is missing."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numpy.random import Generator

from rankloop import Decision, InvalidInput, Problem, Query, Ranker, Session, build, register
from rankloop.core.saved_session import save
from rankloop.learners.fair_pairs import FairPairs
from rankloop.service.application import served_ranker
from rankloop.service.application.rebuild import replay_records
from tests.registry_entries import unregister
from tests.service.cases import Location, learn, rank, report, running
from tests.service.processes import only_line, served

PROBLEM = {"feature_names": ["price", "rating", "age"]}
MUTE = "Mute.rank needs a return annotation"


class Told(FairPairs):
    """A learner as it should be."""


class Mute(FairPairs):
    """A learner that does not say what its receipts are."""

    def rank(self, state, query, rng):  # type: ignore[no-untyped-def]  # this is what is tested
        return super().rank(state, query, rng)


class Loose(FairPairs):
    """A learner whose receipts could be anything."""

    def rank(self, state: Any, query: Query, rng: Generator) -> Decision[Any]:
        return super().rank(state, query, rng)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register("told_pairs")(Told)
    register("mute_pairs")(Mute)
    register("loose_pairs")(Loose)
    yield
    unregister("loose_pairs", "learner")
    unregister("told_pairs", "learner")
    unregister("mute_pairs", "learner")


@pytest.mark.parametrize("learner", ["mute_pairs", {"kind": "standardised", "inner": "mute_pairs"}], ids=str)
def test_a_learner_whose_updates_could_not_be_read_again_is_refused(tmp_path: Path, learner: Any) -> None:
    with running(Location(tmp_path)) as client:
        for body in ({}, {"base": {"feature": "price"}}):
            answer = client.put("/rankers/shop", json={"learner": learner, "problem": PROBLEM} | body)
            assert answer.status_code == 422
            assert answer.json()["errors"][0]["field"] == "learner"
            assert MUTE in answer.json()["detail"]
        assert client.get("/rankers").json() == {"rankers": []}
    with pytest.raises(InvalidInput, match=MUTE):
        Ranker(learner, features=["price"])
    save(Session(build(learner, "learner"), Problem(n_features=1)), tmp_path / "mute.rankloop")
    with pytest.raises(InvalidInput, match=MUTE):
        Ranker.load(tmp_path / "mute.rankloop")


@pytest.mark.parametrize("learner", ["loose_pairs", {"kind": "standardised", "inner": "loose_pairs"}], ids=str)
def test_receipts_that_could_be_anything_are_refused(tmp_path: Path, learner: Any) -> None:
    with running(Location(tmp_path)) as client:
        answer = client.put("/rankers/shop", json={"learner": learner, "problem": PROBLEM})
        assert (answer.status_code, "needs a return annotation" in answer.text) == (422, True)


def test_one_that_says_it_is_learned_again(location: Location) -> None:
    with running(location) as client:
        assert client.put("/rankers/shop", json={"learner": "told_pairs", "problem": PROBLEM}).status_code == 201
        learn(client, 4)
    (result,) = replay_records(location.records())
    assert (result.learned, result.differing) == (4, ())
    with running(location) as client:
        assert report(client)["counts"]["learned"] == 4


def test_a_start_without_its_module_is_one_line(location: Location) -> None:
    learner = {"kind": "standardised", "inner": "told_pairs"}
    with running(location) as client:
        client.put("/rankers/plain", json={"learner": "3pr", "problem": PROBLEM})
        assert client.put("/rankers/regal", json={"learner": learner, "problem": PROBLEM}).status_code == 201
    said = re.compile(r"rankloop: ranker regal: .*no learner 'told_pairs'.*start with --import MODULE")
    for workers in ("1", "2") if location.store else ("1",):
        done = served("--data", str(location.data), "--workers", workers, store=location.store)
        assert (done.returncode, bool(said.fullmatch(only_line(done)))) == (2, True)


def test_long_texts_are_read_beside_other_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of 100,000 ligatures takes seconds, in which no other call was answered."""
    threads, read = list[int](), served_ranker.query_request

    def noted(*arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return read(*arguments)

    monkeypatch.setattr(served_ranker, "query_request", noted)
    schema = {"features": {"title": {"kind": "words"}}}
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json={"learner": "click_residuals", "problem": {"schema": schema}})
        for title in ("\ufdfa", "\ufdfa" * 6_000, "a" * 90_000):
            rank(client, items=[{"id": "a", "features": {"title": title}}])
    loop, thread, loop_again = threads
    assert loop == loop_again != thread

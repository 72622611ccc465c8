"""A policy that was trained on a log is asked with rows as the log has them, in Python and behind the service."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankloop import Ranker, adapter
from rankloop.bandits.train import load_policy
from rankloop.client import Client, Refused
from rankloop.core.errors import InvalidInput
from rankloop.evaluation import ChoiceLog
from rankloop.service.application.rebuild import replay_records
from rankloop.training.policy import train_policy
from tests.service.cases import Location, running

WISH = {"student": "hats", "clerk": "coats"}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Students click hats, clerks coats."""
    ads = WISH.values()
    rows = [f"{n % 9},{job},{ad},{WISH[job] == ad:d},0.5" for n in range(40) for job in WISH for ad in ads]
    (tmp_path / "log.csv").write_text("age,job,ad,click,propensity\n" + "\n".join(rows) + "\n")
    train_policy(ChoiceLog(tmp_path / "log.csv")).save(tmp_path / "ads.rankloop")
    return tmp_path / "ads.rankloop"


def test_a_ranker_takes_rows_and_keeps_what_they_mean(saved: Path) -> None:
    ranker = Ranker.load(saved)
    for _ in range(2):
        for job, wish in WISH.items():
            shown = ranker.rank(context={"age": 3, "job": job})
            assert shown.ids[0] == wish
            assert shown.context.tolist() == [3.0, float(job == "clerk"), float(job == "student"), 1.0]
            assert shown.missing == 0
            ranker.learn(shown, reward=1.0)
        with pytest.raises(InvalidInput, match="context has no 'job'"):
            ranker.rank(context={"age": 3})
        ranker.save(saved)
        ranker = Ranker.load(saved)


def test_the_service_takes_rows(location: Location, saved: Path, tmp_path: Path) -> None:
    with running(location) as http, Client(str(http.base_url)) as client:
        client.upload("ads", saved)
        http.post("/rankers/ads/clone", json={"name": "copy"})
    with running(location) as http, Client(str(http.base_url)) as client:
        for name in ("ads", "copy"):
            for job, wish in WISH.items():
                answer = client.rank(name, context={"age": 3, "job": job})
                assert answer.ranking[0] == wish
                client.feedback(name, answer, reward=1.0, final=True)
            assert client.rank(name, context=[3, 0, 1, 1]).ranking[0] == "hats"
            client.rank(name, context={"age": None, "job": "pilot"})
            for wrong, said in (({"age": 3}, "has no 'job'"), ({"age": "3", "job": "clerk"}, "age must be a finite")):
                with pytest.raises(Refused, match=said):
                    client.rank(name, context=wrong)
        (tmp_path / "again.rankloop").write_bytes(http.get("/rankers/ads/state").content)
        assert client.ranker("ads")["spec"]["problem"]["context"]["columns"] == ["age", "job"]
    assert load_policy(tmp_path / "again.rankloop").encoding == load_policy(saved).encoding._replace(left_out=())
    assert all(result.differing == () for result in replay_records(location.records()))


def test_a_context_by_names_is_part_of_the_problem(location: Location) -> None:
    context = {"columns": ["age", "job"], "values": [[], ["clerk", "student"]], "means": [40.0, 0.0]}
    problem = {"items": ["hats", "coats"], "shown": 1, "context": context}
    with running(location) as http, Client(str(http.base_url)) as client:
        client.create("ads", learner="auc_policy", problem=problem)
        client.rank("ads", context={"age": 41, "job": "student"})
        client.create("plain", learner="auc_policy", problem={"items": ["hats", "coats"], "n_context": 1})
        with pytest.raises(Refused, match="no names for its context"):
            client.rank("plain", context={"age": 41})
        with pytest.raises(Refused, match=r"context: give age, job \(null: not known\), or 4 finite numbers"):
            client.rank("ads")
        with pytest.raises(Refused, match="context: must be 1 finite numbers"):
            client.rank("plain")
        for changed in ({"means": [40.0]}, {"values": [["a", "a"], []]}):
            with pytest.raises(Refused, match=r"an encoding has ads and columns|occurs twice"):
                client.create("other", learner="auc_policy", problem=problem | {"context": context | changed})
        with pytest.raises(Refused, match="but the context has 4 columns"):
            client.create("other", learner="auc_policy", problem=problem | {"n_context": 3})


def test_many_rows_become_an_array_as_few_do(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    listed = [[int(number) if number > 1 else float(number) for number in row] for row in rng.normal(size=(57, 3))]
    ids: list[adapter.Id] = list(range(57))
    names = ("x", "y", "z")
    adapter_of_names = adapter.Adapter(names, len(names))
    whole = adapter_of_names._features(ids, listed)
    by_name = adapter_of_names._features(ids, [dict(zip(names, row)) for row in listed])
    monkeypatch.setattr(adapter, "MAX_NUMBERS_AT_ONCE", 10)  # three rows in a step
    in_steps = adapter_of_names._features(ids, listed)
    for features, present in (by_name, in_steps):
        assert present is None
        assert features.tobytes() == whole[0].tobytes() == np.array(listed, dtype=np.float64).tobytes()
    with pytest.raises(InvalidInput, match="item 56 has 2 features, this ranker has 3"):
        adapter_of_names._features(ids, [*listed[:-1], [1.0, 2.0]])
    with pytest.raises(InvalidInput, match=r"item 56: y \(feature 1\) must be a finite number"):
        adapter_of_names._features(ids, [*listed[:-1], [1.0, np.inf, 2.0]])


@pytest.mark.parametrize("ids", [[], ["a"], ["a" * 256], ["a" * 257], ["a", 1], [2**64 - 1], [2**64], ["a", 2**64]])
def test_ids_are_valid_together_if_each_is(ids: list[adapter.Id]) -> None:
    assert adapter.are_valid_ids(ids) == all(map(adapter.is_valid_id, ids))

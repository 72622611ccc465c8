"""The log of a service judges another ranker, place by place, with the states that drew its rankings."""

from __future__ import annotations

import json
import math
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop import Session, build, load, save
from rankloop.cli import main
from rankloop.core.types import Problem, Query
from rankloop.evaluation.off_policy.estimators import Options
from rankloop.evaluation.off_policy.ranking_log import AskedRanker, prefix_probabilities
from rankloop.evaluation.propensity_evaluation import report_of_rankings
from rankloop.logs.reader import lists_in
from rankloop.service.application.service_log_reader import _logged_rankings
from rankloop.service.records import Ranked
from tests.service.cases import Location, running

pytestmark = pytest.mark.usefixtures("broken_connections_end_here")
ROUNDS = 300
WORTH = np.array([0.5, 0.1, 0.3])  # how likely an item is to be clicked, by what it is


def features() -> list[dict[str, Any]]:
    return [{"id": f"i{i}", "features": row} for i, row in enumerate(np.eye(3).tolist())]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Location:
    """People look at both shown places and click what they like; every fifth impression gets no answer."""
    location, rng = Location(tmp_path_factory.mktemp("judged")), np.random.default_rng(0)
    learner = {"kind": "standardised", "inner": {"kind": "pdgd", "learning_rate": 0.02}}
    body = {"learner": learner, "problem": {"n_features": 3, "shown": 2}, "seed": 1, "snapshot_every": 50}
    with running(location) as client:
        client.put("/rankers/shop", json=body)
        client.put("/rankers/other", json=body)
        for round in range(ROUNDS):
            answer = client.post("/rankers/shop/rank", json={"items": features()}).json()
            if round % 5:
                seen = answer["ranking"][:2]
                clicked = [item for item in seen if rng.random() < WORTH[int(item[1:])]]
                body = {"impression": answer["impression"], "clicks": clicked, "final": True}
                assert client.post("/rankers/shop/feedback", json=body).status_code == 200
    return location


@pytest.fixture(scope="module")
def best(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ranker that nearly always shows the items by what they are worth."""
    path = tmp_path_factory.mktemp("model") / "best.rankloop"
    session = Session(build({"kind": "pdgd", "start": [3.0, 0.0, 1.5]}), Problem(n_features=3, shown=2), 0)
    save(session, path)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        main(["evaluate", *arguments])
    captured = capsys.readouterr()
    return int(leaving.value.code or 0), captured.out, captured.err


def test_the_states_that_drew_the_rankings_are_found_again(log: Location) -> None:
    """The product over the places is the probability that the service wrote down when it drew."""
    written = {}
    for record in log.records():
        if isinstance(record.event, Ranked) and record.event.log_propensity is not None:
            written.setdefault(tuple(record.event.order), set()).add(round(record.event.log_propensity, 9))
    found = list(_logged_rankings(str(log.data), "shop"))
    assert len(found) == ROUNDS * 4 // 5  # those without an answer are still open
    for entry in found:
        probabilities = prefix_probabilities(entry.drawn_by, entry.query, entry.ranking, 2)
        assert round(float(np.log(probabilities).sum()), 9) in written[tuple(entry.ranking.tolist())]


def test_lists_whose_states_were_unlearned_keep_the_propensity_that_was_logged(
    best: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    location, written = Location(tmp_path), {}
    body = {"learner": "pdgd", "problem": {"n_features": 3, "shown": 2}}
    with running(location) as client:
        client.put("/rankers/shop", json=body)
        for number in range(60):
            page = {"items": features(), "user": f"u{number % 30}"}
            answer = client.post("/rankers/shop/rank", json=page).json()
            if number % 30 != 5:
                written[number] = math.exp(answer["log_propensity"])
            body = {"impression": answer["impression"], "clicks": answer["ranking"][:1], "final": True}
            assert client.post("/rankers/shop/feedback", json=body).status_code == 200
        assert client.request("DELETE", "/users/u5?relearn=true").status_code == 200
    lists = list(_logged_rankings(str(location.data)))
    assert len(lists) == len(written) == 58
    assert [entry.propensity is None for entry in lists[:5]] == [True] * 5  # nothing before them was erased
    assert lists[-1].propensity is not None  # 58 updates remain, and the state of number 59 drew it
    for entry, propensity in zip(lists, written.values()):
        drawn = prefix_probabilities(entry.drawn_by, entry.query, entry.ranking, 2).prod()
        assert (drawn if entry.propensity is None else entry.propensity) == pytest.approx(propensity)
    assert "58 pages" in run(capsys, str(best), "--log", str(location.data))[1]


def test_pages_that_rules_reordered_are_left_out_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    location, rng = Location(tmp_path), np.random.default_rng(0)
    items = [{"id": f"i{i}", "features": {"price": 100 * (i + 1)}} for i in range(4)]
    with running(location) as client:
        schema = {"features": {"price": "number"}}
        client.put("/rankers/shop", json={"learner": "click_regression", "problem": {"schema": schema, "shown": 2}})
        for round in range(60):
            if round == 40:
                boost = [{"field": "price", "value": 300, "by": 2}]
                assert client.put("/rankers/shop/rules", json={"boost": boost}).status_code == 200
            answer = client.post("/rankers/shop/rank", json={"items": items, "query_id": "q"}).json()
            clicked = [item for item in answer["ranking"][:2] if rng.random() < 0.5]
            body = {"impression": answer["impression"], "clicks": clicked, "final": True}
            assert client.post("/rankers/shop/feedback", json=body).status_code == 200
        (tmp_path / "new.rankloop").write_bytes(client.get("/rankers/shop/state").content)
    for estimator in ("examination", "cascade_ips"):
        arguments = (str(tmp_path / "new.rankloop"), "--log", str(location.data), "--estimator", estimator)
        status, out, err = run(capsys, *arguments)
        n_left = 60 - len(list(_logged_rankings(str(location.data))))
        assert status == 0
        assert 0 < n_left <= 20
        assert f"{60 - n_left} pages" in out
        assert f"note: {n_left} pages were left out" in " ".join(err.split())


def test_the_command_judges_by_position(log: Location, best: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, query = load(best), Query.of(np.eye(3))
    orders = [np.array(order) for order in permutations(range(3))]
    right = sum(math.exp(target.log_prob(query, order)) * WORTH[order[:2]].sum() for order in orders)
    for method in ("cascade_ips", "position_wise", "pseudo_inverse", "ips"):
        arguments = [str(best), "--log", str(log.data), "--ranker", "shop", "--estimator", method, "--json"]
        code, out, err = run(capsys, *arguments)
        assert code == 0, err
        answer = json.loads(out)
        found = answer["estimates"]["ranker of best.rankloop"]
        assert found["n"] == answer["n_rows"] == ROUNDS * 4 // 5
        assert found["method"] == method
        assert abs(found["value"] - right) < 4 * found["standard_error"], method
        rankings = _logged_rankings(str(log.data), "shop")
        report = report_of_rankings(AskedRanker(target), rankings, "best", method, Options())
        assert report.estimates["best"].value == found["value"]
    assert lists_in(str(log.data), ranker="shop").export.feature_names == ()


def test_what_cannot_be_judged_is_refused_in_one_line(
    log: Location, best: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, str(best), "--log", str(log.data))
    assert code == 2
    assert "the rankers other, shop: choose one, as in --ranker other" in err
    code, _, err = run(capsys, str(best), "--log", str(log.data), "--ranker", "shpo")
    assert code == 2
    assert "did you mean 'shop'" in err
    code, _, err = run(capsys, "--log", str(log.data), "--ranker", "shop")
    assert code == 2
    assert "name the saved ranker" in err
    with running(log) as client:
        (tmp_path / "shop.parquet").write_bytes(client.get("/log/shop.parquet").content)
    code, _, err = run(capsys, str(best), "--log", str(tmp_path / "shop.parquet"), "--estimator", "cascade_ips")
    assert code == 2
    assert "give the folder of the service" in err.replace("\n", " ")

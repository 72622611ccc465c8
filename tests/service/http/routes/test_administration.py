"""A ranker that was trained elsewhere goes to work: a saved file becomes a ranker of the service."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankloop import Problem, Ranker, Session, build
from rankloop.client import Client, Refused
from rankloop.core.saved_session import dumps, loads
from rankloop.service.application.rebuild import replay_records
from rankloop.training.rank_bundle import NORMALISED_NOTE
from tests.service.cases import Location, running

ITEMS = {"a": {"price": 1.0}, "b": {"price": 2.0, "rating": 1.0}, "c": {"rating": 3.0}}


def trained(path: Path) -> Ranker:
    ranker = Ranker("preference_perceptron", features=["price", "rating"], seed=3)
    for _ in range(5):
        ranker.learn(ranker.rank(ITEMS), clicks=["a"])
    ranker.save(path)
    return ranker


def test_a_saved_ranker_goes_on_behind_the_service(location: Location, tmp_path: Path) -> None:
    ranker = trained(tmp_path / "shop.rankloop")
    shown = []
    for part in range(2):  # a restart between
        with running(location) as http, Client(str(http.base_url)) as client:
            if part == 0:
                assert client.upload("shop", tmp_path / "shop.rankloop")["state"] == 0
            answer = client.rank("shop", ITEMS)
            client.feedback("shop", answer, clicks=["c"], final=True)
            shown.append(answer.ranking)
            saved = loads(http.get("/rankers/shop/state").content)
    expected = []
    for _ in range(2):
        here = ranker.rank(ITEMS)
        ranker.learn(here, clicks=["c"])
        expected.append(here.ids)
    assert shown == expected
    assert saved.state.inner.weights.tolist() == list(ranker.weights.values())
    (result,) = replay_records(location.records())
    assert result.differing == ()


def test_a_fixed_set_keeps_its_names(location: Location, tmp_path: Path) -> None:
    Ranker("ftpl", items=["x", "y"], seed=0).save(tmp_path / "set.rankloop")
    with running(location) as http, Client(str(http.base_url)) as client:
        client.upload("set", tmp_path / "set.rankloop")
        assert sorted(client.rank("set").ranking) == ["x", "y"]


@pytest.mark.parametrize("content", [b"", b"PK", b"{}", b"PK\x03\x04" + bytes(100)])
def test_what_is_no_saved_ranker_is_refused(location: Location, content: bytes) -> None:
    with running(location) as http:
        answer = http.put("/rankers/shop/state", content=content)
        assert answer.status_code == 422
        assert http.get("/rankers").json() == {"rankers": []}


def test_a_model_of_scaled_features_is_refused(location: Location) -> None:
    session = Session(build({"kind": "fixed_weights", "weights": [1.0, 2.0]}), Problem(n_features=2), 0)
    with running(location) as http:
        answer = http.put("/rankers/shop/state", content=dumps(session, {NORMALISED_NOTE: True}))
        assert (answer.status_code, "scaled within each query" in answer.text) == (422, True)
        assert http.put("/rankers/shop/state", content=dumps(session, {NORMALISED_NOTE: False})).status_code == 201


def test_a_name_is_taken_once(location: Location, tmp_path: Path) -> None:
    ranker = trained(tmp_path / "shop.rankloop")
    ranker.learn(ranker.rank(ITEMS), clicks=["b"])
    ranker.save(tmp_path / "later.rankloop")
    with running(location) as http, Client(str(http.base_url)) as client:
        client.upload("shop", tmp_path / "shop.rankloop")
        with pytest.raises(Refused, match="409"):
            client.upload("shop", tmp_path / "later.rankloop")
        again = http.put("/rankers/shop/state", content=(tmp_path / "shop.rankloop").read_bytes())
        assert (again.status_code, again.json()) == (200, client.ranker("shop"))
        client.create("other", learner="3pr", problem={"feature_names": ["price", "rating"]})
        with pytest.raises(Refused, match="409"):
            client.upload("other", tmp_path / "shop.rankloop")
        assert http.put("/rankers/a b/state", content=b"x").status_code == 422


def test_a_header_that_would_take_long_to_read_is_refused_unread(tmp_path: Path) -> None:
    session = Session(build("3pr"), Problem(n_features=2), 0)
    with running(Location(tmp_path), max_body=100_000) as http:
        small, large = (dumps(session, {"words": ["x" * 10] * n}) for n in (100, 10_000))
        assert http.put("/rankers/small/state", content=small).status_code == 201
        answer = http.put("/rankers/large/state", content=large)
        assert (answer.status_code, "header of" in answer.json()["detail"]) == (413, True)
        assert http.get("/rankers/large").status_code == 404

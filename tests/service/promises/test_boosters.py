"""A booster file as the base of a ranker: its order at the beginning, corrected by clicks, equal in a replay."""

from __future__ import annotations

import base64
import io
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest

from rankloop.client import Client
from rankloop.core.types import Query
from rankloop.service.application.rebuild import replay_records
from rankloop.service.domain.trainer import digest
from rankloop.training.clicks.train import train_click_trees
from rankloop.training.trees import TreeSettings
from tests.service.cases import Location, feed, inside, rank, report, running
from tests.training.clicks.test_train_trees import BRANDS, written_shop

lightgbm = pytest.importorskip("lightgbm")
NAMES = ["price", "rating", "age"]
RNG = np.random.default_rng(8)
ROWS = RNG.random((120, 3))
GRADES = (ROWS[:, 0] > 0.5) == (ROWS[:, 1] > 0.5)  # no line says it


@pytest.fixture(scope="module")
def booster() -> Any:
    table = lightgbm.Dataset(ROWS, GRADES.astype(int), group=[10] * 12, feature_name=NAMES)
    options = {"objective": "lambdarank", "verbosity": -1, "num_leaves": 5, "min_data_in_leaf": 3, "num_threads": 1}
    return lightgbm.train(options, table, 20)


def body(booster: Any, **more: Any) -> dict[str, Any]:
    content = booster if isinstance(booster, bytes) else booster.model_to_string().encode()
    base = {"booster": base64.b64encode(content).decode()}
    problem = {"feature_names": ["stock", *NAMES]}
    return {"learner": "newton_pairs", "problem": problem, "seed": 3, "base": base} | more


def candidates(number: int = 0) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Ten items by name, one of which lacks its rating; and the rows that the booster is to score."""
    rows = ROWS[10 * number : 10 * number + 10].copy()
    named = [{"stock": i % 2, **dict(zip(NAMES, row))} for i, row in enumerate(rows.tolist())]
    items = [{"id": f"i{i}", "features": features} for i, features in enumerate(named)]
    del items[4]["features"]["rating"]
    rows[4, 1] = np.nan
    return items, rows


def best_first(booster: Any, rows: np.ndarray) -> list[str]:
    return [f"i{i}" for i in np.argsort(-booster.predict(rows, raw_score=True), kind="stable")]


def predicted(client: httpx.Client, features: np.ndarray) -> list[str]:
    """The order that the ranker would show without exploration."""
    query = Query("", np.array(features), np.empty(0))
    return [f"i{i}" for i in inside(client).directory.rankers["shop"].serving.predict(query)]


def test_it_begins_with_the_order_of_the_booster_and_corrects_it(booster: Any, tmp_path: Path) -> None:
    """People click what is in stock, of which the booster knows nothing."""
    location = Location(tmp_path / "data")
    items, rows = candidates()
    in_stock = {item["id"] for item in items if item["features"]["stock"]}
    first = best_first(booster, rows)
    with running(location) as client:
        made = client.put("/rankers/shop", json=body(booster))
        assert made.status_code == 201, made.text
        assert client.put("/rankers/shop", json=body(booster)).status_code == 200
        told = made.json()["spec"]["base"]
        assert told["booster"]["sha256"] == told["model"]
        assert sorted(rank(client, items=items)["ranking"]) == sorted(first)
        features = location.records()[-1].event.all_features
        np.testing.assert_array_equal(features[:, -1], booster.predict(rows, raw_score=True))
        assert predicted(client, features) == first
        for _ in range(40):
            shown = rank(client, items=items)
            clicks = [id for id in shown["ranking"] if id in in_stock]
            feed(client, shown["impression"], clicks=clicks, final=True)
        assert report(client)["counts"]["learned"] == 40
        after = predicted(client, features)
        assert len(in_stock.intersection(after[:5])) > len(in_stock.intersection(first[:5]))
        assert client.post("/rankers/shop/clone", json={"name": "twin"}).status_code == 201
        assert sorted(rank(client, "twin", items=items)["ranking"]) == sorted(first)
        table = pq.read_table(io.BytesIO(client.get("/log/shop.parquet").content)).to_pylist()
        state = digest(inside(client).directory.rankers["shop"].serving.state)
    assert {row["base_model"] for row in table} == {told["model"]}
    replay = next(each for each in replay_records(iter(location.records())) if each.entity == "ranker/shop")
    assert (replay.learned, replay.digest) == (40, state)
    with running(location) as client:
        assert predicted(client, features) == after
        assert sorted(rank(client, items=items)["ranking"]) == sorted(first)


def test_the_values_of_a_schema_are_scored_by_name(booster: Any, tmp_path: Path) -> None:
    """Numbers of any scale go to the booster as they are; a missing one is missing; the replay needs no trees."""
    items, rows = candidates(1)
    for item in items:
        item["features"]["brand"] = "acme" if item["id"] < "i5" else "bolt"
    schema = {"features": {**dict.fromkeys(["stock", *NAMES], "number"), "brand": "category"}, "bits": 12}
    asked = body(booster, learner="fair_pairs", problem={"schema": schema}, shadow=True)
    location = Location(tmp_path / "data")
    with running(location) as client:
        assert (made := client.put("/rankers/shop", json=asked)).status_code == 201, made.text
        assert client.put("/rankers/shop", json=asked).status_code == 200
        for _ in range(3):
            shown = rank(client, items=items)
            assert shown["ranking"] == best_first(booster, rows)
            feed(client, shown["impression"], clicks=[shown["ranking"][-1]], final=True)
        given = [{"id": "a", "features": {"price": 1, "base score": 3.0}}]
        assert client.post("/rankers/shop/rank", json={"items": given}).status_code == 422
        gone = client.patch("/rankers/shop/schema", json={"remove": ["base score"]})
        assert gone.status_code == 422
        state = digest(inside(client).directory.rankers["shop"].serving.state)
    (replay,) = replay_records(iter(location.records()))
    assert (replay.learned, replay.digest) == (3, state)


def test_two_boosters_are_compared_each_by_its_own_score(booster: Any, tmp_path: Path) -> None:
    items, rows = candidates(2)
    other = lightgbm.train(
        {"objective": "regression", "verbosity": -1, "min_data_in_leaf": 3, "num_threads": 1},
        lightgbm.Dataset(ROWS, ROWS[:, 2], feature_name=NAMES),
        20,
    )
    with running(Location(tmp_path / "data")) as client:
        for name, one in (("a", booster), ("b", other)):
            assert client.put(f"/rankers/{name}", json=body(one)).status_code == 201
        variants = {"a": {"ranker": "a"}, "b": {"ranker": "b"}}
        assert client.put("/experiments/ab", json=variants).status_code == 201
        firsts = {client.post("/experiments/ab/rank", json={"items": items}).json()["ranking"][0] for _ in range(20)}
    assert firsts == {best_first(booster, rows)[0], best_first(other, rows)[0]}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda text: {"base": {"booster": base64.b64encode(text[:-900]).decode()}}, "base.booster"),
        (lambda text: {"base": {"booster": base64.b64encode(b"\x80\x04nonsense").decode()}}, "base.booster"),
        (lambda text: {"base": {"booster": ""}}, "base.booster"),
        (lambda text: {"base": {"booster": "no base64!"}}, "base.booster"),
        (lambda text: {"problem": {"feature_names": NAMES[:2]}}, "base.booster"),
        (lambda text: {"problem": {"n_features": 3}}, "base.booster"),
        (lambda text: {"base": {"booster": base64.b64encode(text).decode(), "feature": "price"}}, "base"),
        (
            lambda text: {"learner": "3pr", "problem": {"schema": {"features": dict.fromkeys(NAMES, "category")}}},
            "base.booster",
        ),
    ],
)
def test_a_hostile_file_changes_nothing(booster: Any, client: httpx.Client, change: Any, field: str) -> None:
    text = booster.model_to_string().partition("\nfeature_importances")[0].encode()
    answer = client.put("/rankers/hostile", json=body(text) | change(text))
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"].startswith(field.partition(".")[0])
    assert field in answer.text
    assert client.get("/rankers/hostile").status_code == 404


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path, booster: Any) -> None:
    with running(Location(tmp_path / "data"), max_state=10_000, max_body=10_000) as client:
        assert client.put("/rankers/huge", json=body(b"tree\n" + b"x" * 40_000)).status_code == 413
        assert client.get("/rankers/huge").status_code == 404


def test_without_the_library_it_says_what_to_install(
    booster: Any, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)  # an import of it then fails
    answer = client.put("/rankers/bare", json=body(booster))
    assert answer.status_code == 501
    assert "pip install 'rankloop[trees]'" in answer.text


def test_the_client_sends_a_file(booster: Any, client: httpx.Client, tmp_path: Path) -> None:
    path = tmp_path / "booster.txt"
    booster.save_model(path)
    with Client(str(client.base_url)) as ours:
        made = ours.create("filed", learner="3pr", problem={"feature_names": NAMES}, base={"booster": path})
    assert made["weights"]["base score"] == 1.0


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running(Location(tmp_path_factory.mktemp("boosters"))) as client:
        yield client


def test_trees_on_texts_score_a_ranker_with_a_schema(tmp_path: Path) -> None:
    """What `train-clicks --trees` writes for a shop's log is a base that orders items by brand and title."""
    log = written_shop(tmp_path)
    trees = train_click_trees(log, n_folds=2, settings=TreeSettings(n_trees=20, options={"min_data_in_leaf": 5}))
    trees.save(tmp_path / "trees.json")
    content = (tmp_path / "trees.json").read_bytes()
    rows = [{"price": 3.0, "brand": brand, "title": f"{wood} chair"} for brand in BRANDS for wood in ("oak", "steel")]
    items = [{"id": f"i{i}", "features": row} for i, row in enumerate(rows)]
    schema = {"features": {"price": "number", "brand": "category", "title": "words"}, "bits": 12}
    order = [f"i{i}" for i in np.argsort(-trees.scores_of_values(rows), kind="stable")]
    with running(Location(tmp_path / "data")) as client:
        asked = body(content, learner="click_regression", problem={"schema": schema})
        assert (made := client.put("/rankers/shop", json=asked)).status_code == 201, made.text
        assert rank(client, items=items)["ranking"] == order
        refusal = client.put(
            "/rankers/plain", json=body(content, problem={"feature_names": ["price", "brand", "title"]})
        )
    assert refusal.status_code == 422
    assert "it was grown on texts (brand, title): declare them in problem.schema" in refusal.text

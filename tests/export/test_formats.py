"""Every export read back: ONNX by onnxruntime, the others by small readers of the published formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop import Problem, Ranker, Schema, Session, build
from rankloop.cli import main
from rankloop.core.kernels import ranking_of
from rankloop.core.saved_session import load, save
from rankloop.core.types import Query
from tests.feedback import clicks

NAMES = ("title match", "price", "age_days")


def run(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        main(["export", *map(str, arguments)])
    captured = capsys.readouterr()
    return int(leaving.value.code or 0), captured.out, captured.err


def trained(path: Path, spec: Any, n: int = 30) -> Path:
    """A ranker that has learned from features of very different sizes."""
    session, rng = Session(build(spec, "learner"), Problem(n_features=3, feature_names=NAMES)), np.random.default_rng(0)
    for _ in range(n):
        query = Query.of(rng.normal(size=(6, 3)) * [1.0, 500.0, 30.0] + [0.0, 1000.0, 60.0])
        decision = session.rank(query)
        feedback = clicks([int(decision.ranking[1])])
        if "Relevances" in str(session.learner.accepts[0]):
            from tests.feedback import relevances

            feedback = relevances(np.arange(6), rng.integers(0, 2, 6).astype(float))  # type: ignore[assignment]
        session.learn(query, decision, feedback)
    save(session, path)
    return path


def some_items() -> Any:
    return np.random.default_rng(1).normal(size=(40, 3)) * [1.0, 500.0, 30.0] + [0.0, 1000.0, 60.0]


def plugin_scores(upload: Any, rows: Any) -> Any:
    """As the plugin documents it: a sum over the definition, each feature scaled by its normaliser."""
    assert list(upload) == ["model"]
    assert set(upload["model"]) == {"name", "model"}
    inner = upload["model"]["model"]
    assert inner["type"] == "model/linear"
    definition, scores = json.loads(inner["definition"]), np.zeros(len(rows))
    for name, weight in definition.items():
        values = rows[:, NAMES.index(name)]
        for kind, numbers in inner.get("feature_normalizers", {}).get(name, {}).items():
            assert kind == "standard"
            assert set(numbers) == {"mean", "standard_deviation"}
            assert numbers["standard_deviation"] > 0
            values = (values - numbers["mean"]) / numbers["standard_deviation"]
        scores += weight * values
    return scores


def solr_scores(upload: Any, rows: Any) -> Any:
    assert upload["class"] == "org.apache.solr.ltr.model.LinearModel"
    weights, scores = upload["params"]["weights"], np.zeros(len(rows))
    assert {feature["name"] for feature in upload["features"]} == set(weights)
    for feature in upload["features"]:
        values = rows[:, NAMES.index(feature["name"])]
        if "norm" in feature:
            assert feature["norm"]["class"] == "org.apache.solr.ltr.norm.StandardNormalizer"
            params = feature["norm"]["params"]
            assert all(isinstance(value, str) for value in params.values())
            values = (values - float(params["avg"])) / float(params["std"])
        scores += weights[feature["name"]] * values
    return scores


def json_scores(file: Any, rows: Any) -> Any:
    assert (file["format"], file["kind"]) == (1, "linear")
    terms = file["features"]
    return sum(
        term["weight"] * (rows[:, NAMES.index(term["name"])] - term["mean"]) / term["deviation"] for term in terms
    )


READERS = {
    "elasticsearch-ltr": plugin_scores,
    "opensearch-ltr": plugin_scores,
    "solr": solr_scores,
    "json": json_scores,
}


@pytest.mark.parametrize("spec", ["fair_pairs", "standardised(inner='3pr')", "standardised(inner='online_gradient')"])
def test_every_format_orders_items_as_the_ranker_does(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, rows = trained(tmp_path / "shop.rankloop", spec), some_items()
    session = load(path)
    wanted = session.learner.predict(session.state, Query.of(rows)).tolist()
    for to, scores in READERS.items():
        code, out, _ = run(capsys, path, "--to", to, "--approximate", "--out", tmp_path / f"{to}.json")
        assert code == 0
        assert ranking_of(scores(json.loads((tmp_path / f"{to}.json").read_text()), rows)).tolist() == wanted
        assert to == "json" or "curl -X P" in out


def test_onnxruntime_computes_the_same_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runtime = pytest.importorskip("onnxruntime")
    path, rows = trained(tmp_path / "shop.rankloop", "standardised(inner='3pr')"), some_items()
    assert run(capsys, path, "--to", "onnx", "--approximate", "--name", "shop")[0] == 0
    run(capsys, path, "--to", "json", "--approximate")
    engine = runtime.InferenceSession(str(tmp_path / "shop.onnx"), providers=["CPUExecutionProvider"])
    (scores,) = engine.run(["scores"], {"features": rows})
    assert scores == pytest.approx(json_scores(json.loads((tmp_path / "shop.json").read_text()), rows), abs=1e-6)
    session = load(path)
    assert ranking_of(scores).tolist() == session.learner.predict(session.state, Query.of(rows)).tolist()
    told = engine.get_modelmeta().custom_metadata_map
    assert json.loads(told["feature_names"]) == list(NAMES)
    assert "exploration" in json.loads(told["lost"])[0]


def test_what_a_format_cannot_hold_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exploring = trained(tmp_path / "shop.rankloop", "fair_pairs")
    code, _, err = run(capsys, exploring, "--to", "solr")
    assert code == 2
    assert "solr cannot hold all of shop.rankloop: exploration" in err
    assert "--approximate" in err
    assert not list(tmp_path.glob("*.json"))
    fixed = tmp_path / "fixed.rankloop"
    learner = build({"kind": "fixed_weights", "weights": (1.0, -2.0, 0.0)}, "learner")
    save(Session(learner, Problem(n_features=3, feature_names=NAMES)), fixed)
    assert json.loads(run(capsys, fixed, "--to", "solr", "--json")[1])["lost"] == []
    assert "did you mean 'onnx'" in run(capsys, fixed, "--to", "onx")[2]
    kernel = tmp_path / "kernel.rankloop"
    save(Session(build("random_features(inner='online_gradient')", "learner"), Problem(n_features=3)), kernel)
    code, _, err = run(capsys, kernel, "--to", "onnx", "--approximate")
    assert code == 2
    assert "export" in err or "weighted sum" in err
    single = tmp_path / "single.rankloop"
    save(Session(build("top_rank", "learner"), Problem(n_features=0, n_items=4, shown=2)), single)
    assert "remembers single items" in run(capsys, single, "--to", "json")[2]


def test_a_schema_goes_into_json_whole_and_elsewhere_not_at_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    ranker = Ranker("click_regression", features=Schema({"price": "number", "brand": "category"}, bits=12))
    for page in range(60):
        prices, brands = rng.integers(1, 100, 4), rng.choice(["acme", "bolt"], 4)
        items = {f"p{page}-{i}": {"price": int(prices[i]), "brand": str(brands[i])} for i in range(4)}
        ranker.learn(ranker.rank(items), clicks=[min(items, key=lambda id: items[id]["price"])])
    model = tmp_path / "shop.rankloop"
    ranker.save(model)
    assert run(capsys, model, "--to", "json", "--approximate")[0] == 0
    file = json.loads((tmp_path / "shop.json").read_text())
    encoder = ranker.encoders[ranker.schema.version]  # type: ignore[union-attr]
    rows = [{"price": 5, "brand": "acme"}, {"price": 90, "brand": "bolt"}]
    shown = ranker.rank({"a": rows[0], "b": rows[1]})
    for id, row in zip("ab", rows):
        by_file = sum(
            column.value * file["weights"].get(str(column.column), 0.0) for column in encoder.columns(id, row, {})
        )
        assert by_file == pytest.approx(ranker.explain(shown, id).score)
    for to in ("solr", "onnx", "elasticsearch-ltr"):
        code, _, err = run(capsys, model, "--to", to, "--approximate")
        assert code == 2
        assert f"{to} has named numbers only, and shop.rankloop has a schema" in err
        assert "let the service rank" in err


@pytest.mark.parametrize(
    ("learner", "explores"), [("click_regression", True), ("click_regression(swap=0.0)", False), ("fair_pairs", True)]
)
def test_lost_exploration_of_a_ranker_with_a_schema_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], learner: str, explores: bool
) -> None:
    ranker = Ranker(learner, features=Schema({"price": "number", "brand": "category"}, bits=8))
    shown = ranker.rank({"a": {"price": 1, "brand": "acme"}, "b": {"price": 2, "brand": "bolt"}})
    ranker.learn(shown, clicks=["b"])
    ranker.save(tmp_path / "shop.rankloop")
    answer = json.loads(run(capsys, tmp_path / "shop.rankloop", "--to", "json", "--approximate", "--json")[1])
    assert any("exploration" in part for part in answer["lost"]) == explores

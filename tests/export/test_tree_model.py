"""Trees in the formats of engines, read back by small readers of the published formats, order items as we do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.data.dataset import Dataset
from rankloop.export.formats import export_model
from rankloop.export.tree_model import read_tree_model
from rankloop.training.trees import TreeRanker, TreeSettings, fit_trees
from rankloop.training.trees.tree_columns import TreeColumn

pytest.importorskip("lightgbm")
NAMES = ("price", "stars", "sales")
SETTINGS = TreeSettings(n_trees=12, n_leaves=6, options={"min_data_in_leaf": 5})


def grown(path: Path, gaps: bool = False, columns: Any = ()) -> tuple[TreeRanker, np.ndarray]:
    """Trees on numbers as engines have them, of 32 bits; and rows to score, some of them at a threshold or at 0."""
    rng = np.random.default_rng(3)
    rows = np.float64(np.float32(rng.normal(size=(600, 3)) * [20.0, 1.0, 1e-3] + [50.0, 0.0, 0.0]))
    rows[:, 2] = np.where(rng.random(600) < 0.3, 0.0, rows[:, 2])
    grades = ((rows[:, 0] > 50) == (rows[:, 1] > 0)).astype(float) + (rows[:, 2] > 0)
    if gaps:
        rows[rng.random(600) < 0.3, 0] = np.nan
        grades += 2.0 * np.isnan(rows[:, 0])  # LightGBM then splits gaps from values at the largest 64-bit number
    if columns:
        rows[:, 1] = rng.integers(0, len(columns[1].values), 600)
        grades = np.isin(rows[:, 1], (0, 3)) + (rows[:, 2] > 0.0)
    data = Dataset(rows, grades.astype(float), 10 * np.arange(61), tuple(f"q{i}" for i in range(60)))
    trees = fit_trees(data, n_folds=2, settings=SETTINGS, names=() if columns else NAMES, columns=columns)
    trees.save(path)
    return trees, rows


def assert_same_order(scores: Any, reference: Any) -> None:
    """Spearman's rank correlation is 1, up to items whose scores are equal in 32 bits."""
    assert np.ptp(reference) > 0.1
    order = np.argsort(-reference, kind="stable")
    assert np.diff(np.asarray(scores, dtype=float)[order]).max() <= 2e-6
    assert np.asarray(scores) - np.mean(scores) == pytest.approx(reference - np.mean(reference), abs=1e-5)


def plugin_score(node: Any, row: Any) -> float:
    """NaiveAdditiveDecisionTree of the plugin: below the condition goes to the first child, in 32 bits."""
    while "leaf" not in node:
        assert [child["nodeid"] for child in node["children"]] == [node["yes"], node["no"]]
        is_left = np.float32(node["split_condition"]) > np.float32(row[node["split"]])
        node = node["children"][0 if is_left else 1]
    return float(np.float32(node["leaf"]))


def solr_score(node: Any, row: Any, nulls: bool) -> float:
    """MultipleAdditiveTreesModel: 1e-6 is added to the threshold, in 32 bits."""
    while "feature" in node:
        value = np.float32(row[node["feature"]])
        if nulls and np.isnan(value):
            node = node[node["missing"]]
            continue
        threshold = np.float32(float(node["threshold"])) + np.float32(1e-6)
        node = node["left" if np.nan_to_num(value) <= threshold else "right"]
    return float(np.float32(float(node["value"])))


def by_plugin(content: bytes, rows: Any) -> list[float]:
    inner = json.loads(content)["model"]["model"]
    assert inner["type"] == "model/xgboost+json"
    trees = json.loads(inner["definition"])
    return [sum(plugin_score(tree, dict(zip(NAMES, row))) for tree in trees) for row in rows]


def by_solr(content: bytes, rows: Any) -> list[float]:
    upload = json.loads(content)
    assert upload["class"].endswith("MultipleAdditiveTreesModel")
    assert upload["features"] == [{"name": name} for name in NAMES]
    nulls = upload["params"].get("isNullSameAsZero") == "false"
    roots = [tree["root"] for tree in upload["params"]["trees"]]
    return [sum(solr_score(root, dict(zip(NAMES, row)), nulls) for root in roots) for row in rows]


def by_onnx(content: bytes, rows: Any) -> Any:
    runtime = pytest.importorskip("onnxruntime")
    return runtime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(["scores"], {"features": rows})[0]


def test_numbers_are_ordered_alike_in_every_engine(tmp_path: Path) -> None:
    trees, rows = grown(tmp_path / "trees.json")
    reference = trees.scores(rows)
    readers = {"elasticsearch-ltr": by_plugin, "opensearch-ltr": by_plugin, "solr": by_solr, "onnx": by_onnx}
    for to, scores in readers.items():
        exported = export_model(tmp_path / "trees.json", to, name="shop")
        assert_same_order(scores(exported.content, rows), reference)
        assert exported.lost == ()


def test_gaps_are_kept_or_refused(tmp_path: Path) -> None:
    trees, rows = grown(tmp_path / "trees.json", gaps=True)
    for to, scores in {"solr": by_solr, "onnx": by_onnx}.items():
        assert_same_order(
            scores(export_model(tmp_path / "trees.json", to, name="shop").content, rows), trees.scores(rows)
        )
    with pytest.raises(InvalidInput, match="missing values of price, which count as 0 there"):
        export_model(tmp_path / "trees.json", "elasticsearch-ltr", name="shop")
    complete = rows[~np.isnan(rows[:, 0])]
    exported = export_model(tmp_path / "trees.json", "elasticsearch-ltr", name="shop", approximate=True)
    assert len(exported.lost) == 1
    assert_same_order(by_plugin(exported.content, complete), trees.scores(complete))


def test_categories_go_to_onnx_and_json_only(tmp_path: Path) -> None:
    brand = TreeColumn("brand", "category", ("acme", "bolt", "coral", "dune", "elm"))
    trees, rows = grown(tmp_path / "trees.json", columns=(TreeColumn("price"), brand, TreeColumn("sales")))
    assert any("num_cat=1" in text for text in trees.texts)
    rows = rows.copy()
    rows[::7, 1] = np.nan
    exported = export_model(tmp_path / "trees.json", "onnx", name="shop")
    assert_same_order(by_onnx(exported.content, rows), trees.scores(rows))
    plain = json.loads(export_model(tmp_path / "trees.json", "json", name="shop").content)
    assert (plain["kind"], plain["columns"][1]["values"]) == ("trees", list(brand.values))
    for to in ("solr", "elasticsearch-ltr"):
        with pytest.raises(InvalidInput, match=r"learned from texts \(brand\), .* --without brand"):
            export_model(tmp_path / "trees.json", to, name="shop", approximate=True)


def test_a_node_that_reads_otherwise_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes are compared with the library before anything is written."""
    grown(tmp_path / "trees.json")
    honest = TreeRanker.scores
    monkeypatch.setattr(TreeRanker, "scores", lambda *given: honest(*given) * np.tile([1.0, -1.0], 200))
    with pytest.raises(InvalidInput, match="cannot be written node by node"):
        read_tree_model(tmp_path / "trees.json")

"""Boosted trees as plain nodes, and their files for plugins, ONNX and JSON."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.types import Floats
from rankloop.training.trees.booster_file import NamedBooster
from rankloop.training.trees.tree_columns import TreeColumn
from rankloop.training.trees.tree_ranker import TreeRanker

SOLR_SLACK = np.float32(1e-6)  # Solr adds it to every threshold
N_CHECKED_ROWS = 400  # random items by which the nodes are compared with the library of the trees
MAX_THRESHOLD = 1e38  # above it, splits tell gaps from values; engines keep 32 bits
MAX_RELATIVE_ERROR = 1e-5  # of a score, of which engines keep 32 bits
LOST_MISSING = (
    "missing values of {}, which count as 0 there: give every item these features, or fill the gaps before training"
)


class Split(NamedTuple):
    """A node: rows with value <= threshold, or with a code among `codes`, go to the left."""

    feature: int
    threshold: float
    codes: tuple[int, ...]  # of a category; empty: compare with the threshold
    missing_left: bool  # where rows go that lack the value
    left: Any  # another split, or the value of a leaf
    right: Any

    @property
    def tells_missing(self) -> bool:
        """True where a missing value goes another way than 0."""
        return self.missing_left != (self.threshold >= 0.0)


class TreeModel(NamedTuple):
    """The sum of trees that orders items, over named columns of numbers."""

    columns: tuple[TreeColumn, ...]
    trees: tuple[Any, ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns of numbers."""
        return [name for column in self.columns for name in column.names]

    def scores(self, rows: Floats) -> Floats:
        """Return the scores of rows of numbers, NaN where one is missing."""
        return np.array([sum(_leaf_of(tree, row) for tree in self.trees) for row in rows.tolist()])

    def splits(self) -> Iterator[Split]:
        """Yield all nodes but the leaves."""
        nodes = list(self.trees)
        while nodes:
            node = nodes.pop()
            if isinstance(node, Split):
                yield node
                nodes += [node.left, node.right]

    def lost_in(self, to: str) -> tuple[str, ...]:
        """Return the parts that a format loses; refuse trees on texts for the plugins of engines."""
        if to in ("onnx", "json"):
            return ()
        texts = [column.field for column in self.columns if column.is_text]
        if texts:
            options = " ".join(f"--without {field}" for field in texts)
            raise InvalidInput(
                f"the trees learned from texts ({', '.join(texts)}), which an engine's features are not: train them "
                f"with {options}, export them --to onnx, or let the service rank"
            )
        names = dict.fromkeys(self.names[split.feature] for split in self.splits() if split.tells_missing)
        return (LOST_MISSING.format(", ".join(names)),) if names and to != "solr" else ()

    def plugin_upload(self, name: str) -> dict[str, Any]:
        """Return the upload of the Elasticsearch and OpenSearch plugins, in their XGBoost format."""
        trees = [_plugin_node(tree, self.names, count(), 0) for tree in self.trees]
        return {"model": {"name": name, "model": {"type": "model/xgboost+json", "definition": json.dumps(trees)}}}

    def solr_upload(self, name: str) -> dict[str, Any]:
        """Return the upload of Solr, with missing branches (Solr 9.2) where needed."""
        trees = [{"weight": "1", "root": _solr_node(tree, self.names)} for tree in self.trees]
        gaps = {"isNullSameAsZero": "false"} if any(split.tells_missing for split in self.splits()) else {}
        return {
            "class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel",
            "name": name,
            "features": [{"name": feature} for feature in self.names],
            "params": {**gaps, "trees": trees},
        }

    def onnx_nodes(self) -> tuple[list[Any], list[Any]]:
        """Return the nodes and constants of a sum of trees."""
        helper, numpy_helper = import_extra("onnx.helper"), import_extra("onnx.numpy_helper")
        attributes: dict[str, Any] = defaultdict(list)
        for number, tree in enumerate(self.trees):
            _OnnxTree(attributes, number).add(tree)
        for part in ("nodes_values", "target_weights"):
            values = np.array(attributes.pop(part), dtype=np.float64)
            attributes[f"{part}_as_tensor"] = numpy_helper.from_array(values, part)
        ensemble = helper.make_node(
            "TreeEnsembleRegressor", ["features"], ["column"], domain="ai.onnx.ml", n_targets=1, **attributes
        )
        shape = numpy_helper.from_array(np.array([-1], dtype=np.int64), "shape")
        shaped = helper.make_node("Reshape", ["column", "shape"], ["flat"])
        double = import_extra("onnx").TensorProto.DOUBLE
        return [ensemble, shaped, helper.make_node("Cast", ["flat"], ["scores"], to=double)], [shape]

    def to_plain(self, name: str) -> dict[str, Any]:
        """Return the columns and the nodes as plain tables."""
        trees = [_plain_node(tree, self.names) for tree in self.trees]
        return {"kind": "trees", "name": name, "columns": [part._asdict() for part in self.columns], "trees": trees}


def read_tree_model(path: Path) -> TreeModel:
    """Read the trees of `rankloop train --trees` or LightGBM as nodes; an item gets the mean of all folds."""
    booster = NamedBooster(path.read_bytes(), ())
    ranker, n_features = booster.trees, booster.grown[0].n_features
    names = booster.grown[0].names or [f"feature_{i}" for i in range(n_features)]
    columns = ranker.columns or tuple(map(TreeColumn, names))
    model = TreeModel(columns, tuple(tree for text in ranker.boosters for tree in _nodes_of(text, ranker)))
    rows = _sample(model)
    if not np.allclose(model.scores(rows), ranker.scores(rows), rtol=MAX_RELATIVE_ERROR, atol=MAX_RELATIVE_ERROR):
        raise InvalidInput(f"{path.name}: its trees cannot be written node by node with the same scores")
    return model


class _OnnxTree:
    """Writes the nodes of one tree, numbered in the order in which they are begun."""

    def __init__(self, attributes: dict[str, list[Any]], number: int) -> None:
        self.attributes, self.number, self.n_nodes = attributes, number, 0

    def add(self, node: Any) -> int:
        """Add a node and those below it, and return its number."""
        if not isinstance(node, Split):
            leaf = self._begin("LEAF", 0, 0.0, False)
            for name, value in {"treeids": self.number, "nodeids": leaf, "ids": 0, "weights": node}.items():
                self.attributes[f"target_{name}"].append(value)
            return leaf
        tests = [("BRANCH_EQ", float(code)) for code in node.codes] or [("BRANCH_LEQ", node.threshold)]
        missing_left = node.missing_left and not node.codes
        chain = [self._begin(mode, node.feature, value, missing_left) for mode, value in tests]
        left, right = self.add(node.left), self.add(node.right)
        for place, following in zip(chain, [*chain[1:], right]):
            index = place - self.n_nodes  # the nodes of this tree stand at the end of the lists
            self.attributes["nodes_truenodeids"][index] = left
            self.attributes["nodes_falsenodeids"][index] = following
        return chain[0]

    def _begin(self, mode: str, feature: int, value: float, missing_left: bool) -> int:
        node = {"treeids": self.number, "nodeids": self.n_nodes, "featureids": feature, "modes": mode, "values": value}
        node |= {"truenodeids": 0, "falsenodeids": 0, "missing_value_tracks_true": int(missing_left)}
        for name, part in node.items():
            self.attributes[f"nodes_{name}"].append(part)
        self.n_nodes += 1
        return self.n_nodes - 1


def _nodes_of(booster: Any, ranker: TreeRanker) -> Iterator[Any]:
    """Yield the trees of a booster, their leaves scaled so that all sum to the score."""
    share = 1.0 / (ranker.scale * len(ranker.texts))
    dump = booster.dump_model()
    share /= len(dump["tree_info"]) if dump.get("average_output") else 1
    yield from (_node_of(tree["tree_structure"], share) for tree in dump["tree_info"])


def _node_of(node: Mapping[str, Any], share: float) -> Any:
    if "split_feature" not in node:
        return node["leaf_value"] * share
    is_category = node["decision_type"] == "=="
    codes = tuple(map(int, node["threshold"].split("||"))) if is_category else ()
    threshold = 0.0 if is_category else min(float(node["threshold"]), MAX_THRESHOLD)
    missing_left = {"None": not is_category and threshold >= 0.0, "NaN": node["default_left"]}.get(node["missing_type"])
    if missing_left is None:
        raise InvalidInput("the trees take 0 as missing (zero_as_missing), which other formats cannot tell apart")
    left, right = (_node_of(node[side], share) for side in ("left_child", "right_child"))
    return Split(node["split_feature"], threshold, codes, bool(missing_left) and not is_category, left, right)


def _leaf_of(node: Any, row: list[float]) -> float:
    while isinstance(node, Split):
        value = row[node.feature]
        is_left = int(value) in node.codes if node.codes and value == value else value <= node.threshold
        node = node.left if (node.missing_left if value != value else is_left) else node.right
    return float(node)


def _sample(model: TreeModel) -> Floats:
    """Return random rows of values beside the thresholds, codes and gaps."""
    rng, splits = np.random.default_rng(0), list(model.splits())
    rows = np.zeros((N_CHECKED_ROWS, len(model.names)))
    for column in range(rows.shape[1]):
        thresholds = [s.threshold for s in splits if s.feature == column and s.threshold < MAX_THRESHOLD] or [0.0]
        step = 0.1 * max(float(np.std(thresholds)), 1e-3)
        rows[:, column] = rng.choice(thresholds, len(rows)) + step * rng.normal(size=len(rows))
        if any(split.codes for split in splits if split.feature == column):
            n_codes = 1 + max(max(split.codes, default=0) for split in splits if split.feature == column)
            rows[:, column] = rng.integers(0, n_codes + 1, len(rows))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    return np.asarray(np.float64(np.float32(rows)))


def _plugin_node(node: Any, names: list[str], numbers: Iterator[int], depth: int) -> dict[str, Any]:
    """Return a node in XGBoost's dump format, in which a value below the condition goes to `yes`."""
    number = next(numbers)
    if not isinstance(node, Split):
        return {"nodeid": number, "leaf": node}
    yes, no = (_plugin_node(child, names, numbers, depth + 1) for child in (node.left, node.right))
    condition = float(np.nextafter(_float32_floor(node.threshold), np.float32(np.inf)))
    branches = {"yes": yes["nodeid"], "no": no["nodeid"], "missing": (yes if node.missing_left else no)["nodeid"]}
    split = {"nodeid": number, "depth": depth, "split": names[node.feature], "split_condition": condition}
    return split | branches | {"children": [yes, no]}


def _solr_node(node: Any, names: list[str]) -> dict[str, Any]:
    if not isinstance(node, Split):
        return {"value": repr(node)}
    threshold = _float32_floor(node.threshold)
    written = np.float32(np.float64(threshold) - np.float64(SOLR_SLACK))
    while np.float32(written + SOLR_SLACK) < threshold:
        written = np.nextafter(written, np.float32(np.inf))
    split = {"feature": names[node.feature], "threshold": repr(float(written))}
    sides = {"left": _solr_node(node.left, names), "right": _solr_node(node.right, names)}
    return split | {"missing": "left" if node.missing_left else "right"} | sides


def _plain_node(node: Any, names: list[str]) -> Any:
    if not isinstance(node, Split):
        return {"value": node}
    test = {"codes": list(node.codes)} if node.codes else {"threshold": node.threshold}
    sides = {"left": _plain_node(node.left, names), "right": _plain_node(node.right, names)}
    return {"feature": names[node.feature], **test, "missing": "left" if node.missing_left else "right", **sides}


def _float32_floor(number: float) -> Any:
    """Return the largest 32-bit number that is not above a number."""
    rounded = np.float32(number)
    return rounded if float(rounded) <= number else np.nextafter(rounded, np.float32(-np.inf))

"""The file of a booster: LightGBM's text, XGBoost's JSON, or a file of `rankloop train --trees`.

The libraries do not check it: a wrong index makes them read memory outside a list or loop forever, and a wrong count
ends the process. So a library gets only text that was read number by number, checked and written again here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.training.trees.tree_columns import encode_columns, plain_number
from rankloop.training.trees.tree_ranker import LIGHTGBM, XGBOOST, TreeRanker

SPLIT_COLUMNS = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
END_LINE = "end of trees"
IS_CATEGORY, MAX_DECISION = 1, 15  # of a decision_type
UNNAMED_PREFIX = "Column_"  # of features without a name in LightGBM
IDENTITY_OBJECTIVES = ("rank:", "reg:squarederror", "reg:linear")  # their base score is added to the sum of the trees
IsLeaf = Callable[[int], bool | None]


class Grown(NamedTuple):
    """A booster whose text is safe for a library, and its features; names where it has any."""

    text: str
    n_features: int
    names: tuple[str, ...]


def lightgbm_structure(text: str) -> Grown:
    """Check a model that LightGBM saved as text."""
    head, *blocks = text.split("\nTree=")
    if not blocks or f"\n{END_LINE}" not in blocks[-1]:
        raise InvalidInput("the file ends before the trees do, or has none: it was not written to the end")
    blocks[-1] = blocks[-1].partition(f"\n{END_LINE}")[0]
    header = _pairs(head)
    per_round, n_classes = header.get("num_tree_per_iteration", "1"), header.get("num_class", "1")
    if (per_round, n_classes) != ("1", "1"):
        raise InvalidInput(f"it gives {n_classes:.20} numbers per item; a base is one score")
    n_features = _count(header.get("max_feature_idx", ""), "max_feature_idx") + 1
    names = tuple(header.get("feature_names", "").split(" "))
    if len(names) != n_features or not all(names):
        raise InvalidInput(f"it names {len(names)} of {n_features} features")
    columns = [f"{UNNAMED_PREFIX}{i}" for i in range(n_features)]
    lines = ["tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0"]
    lines += [f"max_feature_idx={n_features - 1}", f"feature_names={' '.join(columns)}"]
    lines += [f"feature_infos={' '.join(['none'] * n_features)}"]
    lines += ["average_output"] if "\naverage_output\n" in f"{head}\n" else []
    for number, block in enumerate(blocks):
        tree = _pairs(block.partition("\n")[2])
        lines += ["", f"Tree={number}", *_lightgbm_tree(tree, n_features, f"tree {number}"), ""]
    return Grown("\n".join([*lines, "", END_LINE, ""]), n_features, () if list(names) == columns else names)


def _pairs(block: str) -> dict[str, str]:
    lines = [line.partition("=") for line in block.split("\n") if "=" in line]
    if len({key for key, _, _ in lines}) != len(lines):
        raise InvalidInput("a key occurs twice")
    return {key: value for key, _, value in lines}


def _lightgbm_tree(tree: Mapping[str, str], n_features: int, where: str) -> Iterator[str]:
    n_leaves, n_categorical = _count(tree.get("num_leaves", ""), where), _count(tree.get("num_cat", "0"), where)
    if tree.get("is_linear", "0") != "0":
        raise InvalidInput(f"{where} has linear leaves, which are not supported: grow it with linear_tree=false")
    leaves = _numbers(tree, "leaf_value", n_leaves, where)
    if n_leaves < 1 or not np.isfinite(leaves).all():
        raise InvalidInput(f"{where} has a leaf that is not a finite number")
    yield from (f"num_leaves={n_leaves}", f"num_cat={n_categorical}")
    if n_leaves > 1:
        features, thresholds, decisions, left, right = (
            _numbers(tree, name, n_leaves - 1, where) for name in SPLIT_COLUMNS
        )
        kinds, children = _whole(decisions, where), (_whole(left, where), _whole(right, where))
        if np.isnan(thresholds).any() or np.any((kinds < 0) | (kinds > MAX_DECISION)):
            raise InvalidInput(f"{where} has a split by no number")
        _check_features(features, n_features, where)
        _reachable_nodes(*children, lambda child: ~child < n_leaves if child < 0 else None, where)
        thresholds = np.clip(thresholds, np.finfo(float).min, np.finfo(float).max)
        columns = (_whole(features, where), thresholds, kinds, *children)
        yield from (f"{name}={_join_numbers(column)}" for name, column in zip(SPLIT_COLUMNS, columns))
        is_category = (kinds & IS_CATEGORY) == IS_CATEGORY
        if n_categorical or is_category.any():
            yield from _categories(tree, thresholds[is_category], n_categorical, where)
    yield from (f"leaf_value={_join_numbers(leaves)}", "is_linear=0", "shrinkage=1")


def _categories(tree: Mapping[str, str], chosen: Floats, n: int, where: str) -> Iterator[str]:
    borders = _whole(_numbers(tree, "cat_boundaries", n + 1, where), where)
    ordered = borders[0] == 0 and np.all(np.diff(borders) >= 0)
    if not ordered or not np.all((chosen >= 0) & (chosen < n) & (chosen == np.floor(chosen))):
        raise InvalidInput(f"{where} has a split by a category that it does not list")
    bits = _numbers(tree, "cat_threshold", int(borders[-1]), where)
    if not np.all((bits >= 0) & (bits < 2**32) & (bits == np.floor(bits))):
        raise InvalidInput(f"{where} has a wrong set of categories")
    yield from (f"cat_boundaries={_join_numbers(borders)}", f"cat_threshold={_join_numbers(bits.astype(np.int64))}")


def xgboost_structure(text: str) -> Grown:
    """Check a model that XGBoost saved as JSON."""
    try:
        learner = msgspec.json.decode(text)["learner"]
        model, booster = learner["learner_model_param"], learner["gradient_booster"]
        n_features = _count(model["num_feature"], "num_feature")
        if booster["name"] != "gbtree":
            raise InvalidInput(f"it is a {booster['name']!r:.40} of XGBoost; a base is a gbtree")
        outputs = max(_count(model.get(name, "1"), name) for name in ("num_class", "num_target"))
        if outputs > 1:
            raise InvalidInput(f"it gives {outputs} numbers per item; a base is one score")
        grown = booster["model"]["trees"]
        trees = [_xgboost_tree(tree, number, n_features, f"tree {number}") for number, tree in enumerate(grown)]
        names = tuple(map(str, learner.get("feature_names") or ()))
        shift = float(str(model["base_score"]).strip("[]"))  # added to the sum of the trees, unless it is transformed
        if not str(learner["objective"]["name"]).startswith(IDENTITY_OBJECTIVES) or not np.isfinite(shift):
            shift = 0.0
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"the file was not written to the end, or is not JSON: {error}") from None
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"it is not a model of XGBoost: {type(error).__name__}: {error}") from None
    if names and len(names) != n_features:
        raise InvalidInput(f"it names {len(names)} of {n_features} features")
    return Grown(msgspec.json.encode(_xgboost_model(trees, n_features, shift)).decode(), n_features, names)


def _xgboost_model(trees: list[Any], n_features: int, shift: float) -> dict[str, Any]:
    counts = {"num_parallel_tree": "1", "num_trees": str(len(trees))}
    grown = {"gbtree_model_param": counts, "tree_info": [0] * len(trees), "trees": trees}
    grown["iteration_indptr"] = list(range(len(trees) + 1))
    sizes = {"base_score": repr(shift), "boost_from_average": "1", "num_class": "0", "num_target": "1"}
    learner = {
        "attributes": {},
        "feature_names": [],
        "feature_types": [],
        "gradient_booster": {"model": grown, "name": "gbtree"},
        "learner_model_param": sizes | {"num_feature": str(n_features)},
        "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
    }
    return {"learner": learner, "version": [2, 1, 0]}


def _xgboost_tree(tree: Mapping[str, Any], number: int, n_features: int, where: str) -> dict[str, Any]:
    n_nodes = _count(tree["tree_param"]["num_nodes"], where)
    if _count(tree["tree_param"].get("size_leaf_vector", "0"), where) > 1:
        raise InvalidInput(f"{where} gives several numbers per item; a base is one score")
    if any(tree.get("split_type") or ()):
        raise InvalidInput(f"{where} splits by categories, which are not supported: features come as numbers")
    lists = ("left_children", "right_children", "split_indices", "split_conditions", "default_left")
    left, right, features, conditions, default = (_column(tree[name], n_nodes, f"{where}, {name}") for name in lists)
    children = _whole(left, where), _whole(right, where)
    if n_nodes < 1 or np.any((children[0] == -1) != (children[1] == -1)):
        raise InvalidInput(f"{where} has a node with one child, or none at all")
    reached = np.zeros(n_nodes, dtype=bool)  # pruned nodes stay in the lists
    reached[_reachable_nodes(*children, lambda child: child == -1 if child < 0 else None, where)] = True
    splits = reached & (children[0] >= 0)
    _check_features(features[splits], n_features, where)
    if not np.isfinite(conditions[reached]).all():
        raise InvalidInput(f"{where} has a leaf or a split that is not a finite number")
    parents = np.full(n_nodes, 2**31 - 1)
    for side in children:
        parents[side[splits]] = np.flatnonzero(splits)
    zeros = [0.0] * n_nodes
    return {
        "id": number,
        "left_children": np.where(splits, children[0], -1).tolist(),
        "right_children": np.where(splits, children[1], -1).tolist(),
        "split_indices": np.where(splits, features, 0.0).astype(np.int64).tolist(),
        "split_conditions": np.where(reached, conditions, 0.0).tolist(),
        "default_left": (splits & (default != 0)).astype(np.int64).tolist(),
        "split_type": [0] * n_nodes,
        "parents": parents.tolist(),
        **dict.fromkeys(("base_weights", "loss_changes", "sum_hessian"), zeros),
        **{name: [] for name in ("categories", "categories_nodes", "categories_segments", "categories_sizes")},
        "tree_param": {"num_deleted": "0", "num_feature": str(n_features), "num_nodes": str(n_nodes)}
        | {"size_leaf_vector": "1"},
    }


def _reachable_nodes(left: Ints, right: Ints, is_leaf: IsLeaf, where: str) -> list[int]:
    """Return every node that can be reached from the first one."""
    children, reached, waiting = np.column_stack([left, right]).tolist(), {0}, [0]
    while waiting:
        for child in children[waiting.pop()]:
            leaf = is_leaf(child)
            if leaf is False or (leaf is None and (child >= len(children) or child in reached)):
                raise InvalidInput(
                    f"{where} is not a tree: a node leads to {child}, which does not exist or was reached already"
                )
            if leaf is None:
                reached.add(child)
                waiting.append(child)
    return sorted(reached)


def _check_features(features: Floats, n_features: int, where: str) -> None:
    if not np.all((features >= 0) & (features < n_features)):
        raise InvalidInput(f"{where} uses a feature beyond the {n_features} of the model")


def _numbers(tree: Mapping[str, str], name: str, n: int, where: str) -> Floats:
    return _column(tree.get(name, "").split(), n, f"{where}, {name}")


def _column(values: Sequence[Any], n: int, where: str) -> Floats:
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{where}: a value is not a number") from None
    if numbers.shape != (n,):
        raise InvalidInput(f"{where}: {n} numbers are needed, and there are {numbers.size}")
    return numbers


def _join_numbers(numbers: Any) -> str:
    return " ".join(map(repr, numbers.tolist()))


def _whole(numbers: Floats, where: str) -> Ints:
    if not np.all((np.abs(numbers) < 2**31) & (numbers == np.floor(numbers))):
        raise InvalidInput(f"{where}: an index or a count is not a whole number")
    return numbers.astype(np.int64)


def _count(text: Any, where: str) -> int:
    number = str(text)
    if not number.isascii() or not number.isdecimal() or len(number) > 9:
        raise InvalidInput(f"{where}: {number!r:.40} is not a count")
    return int(number)


UBJ_START = b"{L"  # of the binary of XGBoost; JSON begins otherwise
EXPECTED_FILE = "a base is what LightGBM's save_model, XGBoost's save_model (JSON) or `rankloop train --trees` writes"


def check_booster(content: bytes) -> None:
    """Raise if a file is not a booster with a finite score."""
    booster = NamedBooster(content, ())
    n_features = booster.grown[0].n_features
    scores = booster.trees.scores(np.stack([np.zeros(n_features), np.full(n_features, np.nan)]))
    if not np.isfinite(scores).all():
        raise InvalidInput("its scores are not finite")


def _read_booster(content: bytes) -> TreeRanker:
    if content.startswith(UBJ_START):
        raise InvalidInput("this is XGBoost's binary format: save the model as JSON, booster.save_model('model.json')")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"this is not a booster file: {EXPECTED_FILE}") from None
    if text.startswith("tree\r\n"):
        raise InvalidInput("the file has the line ends of Windows: send the file that LightGBM saved")
    if text.startswith("tree\n"):
        return TreeRanker((text,), ())
    try:
        table = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"this is not a booster file, or not all of it ({error}): {EXPECTED_FILE}") from None
    if isinstance(table, Mapping) and "boosters" in table:
        return TreeRanker.from_plain(table)
    if isinstance(table, Mapping) and "learner" in table:
        return TreeRanker((text,), (), kind=XGBOOST)
    if isinstance(table, Mapping) and "tree_info" in table:
        raise InvalidInput("this is what LightGBM's dump_model writes, which it cannot read again: use save_model")
    raise InvalidInput(f"this is not a booster file: {EXPECTED_FILE}")


class NamedBooster:
    """The booster of a file, read when it is needed; its features are matched by name with those of a ranker."""

    def __init__(self, content: bytes, names: Sequence[str]) -> None:
        self.content = content
        self.names = tuple(names)  # of the ranker's features, without the score itself

    @cached_property
    def hash(self) -> str:
        """The SHA-256 of the file, in hex; that of `TreeRanker` where `rankloop train --trees` wrote it."""
        return sha256(self.content).hexdigest()

    @cached_property
    def grown(self) -> list[Grown]:
        """The boosters of the file, checked for a library; all on the same features."""
        check = lightgbm_structure if self._unchecked.kind == LIGHTGBM else xgboost_structure
        structures = [check(text) for text in self._unchecked.texts]
        if len({(structure.n_features, structure.names) for structure in structures}) != 1:
            raise InvalidInput("its boosters were grown on different features")
        return structures

    @cached_property
    def trees(self) -> TreeRanker:
        """The checked boosters as one score."""
        file = self._unchecked
        texts = [structure.text for structure in self.grown]
        trees = TreeRanker(texts, sorted(file.query_ids), file.scale, file.kind, file.columns)
        _ = trees.boosters  # raises now if the library is missing
        return trees

    @cached_property
    def _unchecked(self) -> TreeRanker:
        return _read_booster(self.content)

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """The ranker's names of the booster's features, in its order; all of them if the booster has no names."""
        n_features, names = self.grown[0].n_features, self._unchecked.names or self.grown[0].names
        if not names:
            if n_features != len(self.names):
                grown = f"it was grown on {n_features} features without names, and the ranker has"
                raise InvalidInput(f"{grown} {len(self.names)}: {', '.join(self.names):.200}")
            return self.names
        n_columns = sum(column.width for column in self._unchecked.columns) or len(names)
        if n_columns != n_features:
            raise InvalidInput(f"the file names {n_columns} features for trees of {n_features}")
        ranker_names = {name.replace(" ", "_"): name for name in self.names}  # as LightGBM stores them
        ranker_names |= {name: name for name in self.names}
        lacking = [name for name in names if name not in ranker_names]
        if lacking:
            listed = ", ".join(self.names)
            raise InvalidInput(f"it needs the feature {lacking[0]!r:.80}, which the ranker lacks ({listed:.200})")
        return tuple(ranker_names[name] for name in names)

    @cached_property
    def text_fields(self) -> tuple[str, ...]:
        """The names of the features that are categories or texts."""
        return tuple(column.field for column in self._unchecked.columns if column.is_text)

    @cached_property
    def _columns(self) -> list[int]:
        return [self.names.index(name) for name in self.feature_names]

    def scores(self, rows: Floats, query_id: str) -> Floats:
        """Return the scores of rows with a number for each of `names`, NaN where it is missing."""
        if self.text_fields:
            raise InvalidInput(f"it needs texts by name, which a schema declares: {', '.join(self.text_fields):.200}")
        return self._finite(self.trees.scores(rows[:, self._columns], query_id))

    def scores_of_values(self, rows: Sequence[Mapping[str, Any]], query_id: str) -> Floats:
        """Return the scores of values by name; absent values are missing."""
        columns = self._unchecked.columns
        if columns:
            values = {c.field: [row.get(name) for row in rows] for c, name in zip(columns, self.feature_names)}
            return self._finite(self.trees.scores(encode_columns(columns, values), query_id))
        table = [[plain_number(row.get(name)) for name in self.feature_names] for row in rows]
        return self._finite(self.trees.scores(np.array(table).reshape(len(rows), -1), query_id))

    def _finite(self, scores: Floats) -> Floats:
        if not np.isfinite(scores).all():
            raise InvalidInput("the booster gives a score that is not finite")
        return scores

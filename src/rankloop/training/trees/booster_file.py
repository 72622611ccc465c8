"""The file of a booster: LightGBM's text, or a file of `rankloop train --trees`.

LightGBM does not check it: a wrong index makes it read memory outside a list or loop forever, and a wrong count ends
the process. So it gets only text that was read number by number, checked and written again here.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.training.trees.tree_columns import encode_columns, plain_number
from rankloop.training.trees.tree_ranker import TreeRanker

SPLIT_COLUMNS = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
END_LINE = "end of trees"
IS_CATEGORY, MAX_DECISION = 1, 15  # of a decision_type
UNNAMED_PREFIX = "Column_"  # of features without a name in LightGBM


class Grown(NamedTuple):
    """A booster whose text is safe for LightGBM, and its features; names where it has any."""

    text: str
    n_features: int
    names: tuple[str, ...]


def _checked_booster(text: str) -> Grown:
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
        lines += ["", f"Tree={number}", *_checked_tree(tree, n_features, f"tree {number}"), ""]
    return Grown("\n".join([*lines, "", END_LINE, ""]), n_features, () if list(names) == columns else names)


def _pairs(block: str) -> dict[str, str]:
    lines = [line.partition("=") for line in block.split("\n") if "=" in line]
    if len({key for key, _, _ in lines}) != len(lines):
        raise InvalidInput("a key occurs twice")
    return {key: value for key, _, value in lines}


def _checked_tree(tree: Mapping[str, str], n_features: int, where: str) -> Iterator[str]:
    n_leaves, n_categorical = _count(tree.get("num_leaves", ""), where), _count(tree.get("num_cat", "0"), where)
    if tree.get("is_linear", "0") != "0":
        raise InvalidInput(f"{where} has linear leaves, which are not supported: grow it with linear_tree=false")
    leaves = _numbers(tree, "leaf_value", n_leaves, where)
    if n_leaves < 1 or not np.isfinite(leaves).all():
        raise InvalidInput(f"{where} has a leaf that is not a finite number")
    yield from (f"num_leaves={n_leaves}", f"num_cat={n_categorical}")
    if n_leaves > 1:
        features, thresholds, types, left, right = (_numbers(tree, name, n_leaves - 1, where) for name in SPLIT_COLUMNS)
        kinds, children = _whole(types, where), (_whole(left, where), _whole(right, where))
        if np.isnan(thresholds).any() or np.any((kinds < 0) | (kinds > MAX_DECISION)):
            raise InvalidInput(f"{where} has a split whose threshold or kind is not a number")
        if not np.all((features >= 0) & (features < n_features)):
            raise InvalidInput(f"{where} uses a feature beyond the {n_features} of the model")
        _check_tree(*children, n_leaves, where)
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
        raise InvalidInput(f"{where} has a set of categories that is not of 32-bit numbers")
    yield from (f"cat_boundaries={_join_numbers(borders)}", f"cat_threshold={_join_numbers(bits.astype(np.int64))}")


def _check_tree(left: Ints, right: Ints, n_leaves: int, where: str) -> None:
    """Raise unless all that the first node leads to are nodes, each once, and leaves."""
    children, reached, waiting = np.column_stack([left, right]).tolist(), {0}, [0]
    while waiting:
        for child in children[waiting.pop()]:
            is_leaf = child < 0
            if (~child >= n_leaves) if is_leaf else (child >= len(children) or child in reached):
                raise InvalidInput(f"{where} is not a tree: a node leads to {child}, which is missing or reached twice")
            if not is_leaf:
                reached.add(child)
                waiting.append(child)


def _numbers(tree: Mapping[str, str], name: str, n: int, where: str) -> Floats:
    try:
        numbers = np.array(tree.get(name, "").split(), dtype=np.float64)
    except ValueError:
        raise InvalidInput(f"{where}, {name}: a value is not a number") from None
    if numbers.shape != (n,):
        raise InvalidInput(f"{where}, {name}: {n} numbers are needed, and there are {numbers.size}")
    return numbers


def _join_numbers(numbers: Any) -> str:
    return " ".join(map(repr, numbers.tolist()))


def _whole(numbers: Floats, where: str) -> Ints:
    if not np.all((np.abs(numbers) < 2**31) & (numbers == np.floor(numbers))):
        raise InvalidInput(f"{where}: an index or a count is not a whole number")
    return numbers.astype(np.int64)


def _count(text: str, where: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise InvalidInput(f"{where}: {text!r:.40} is not a count")
    return int(text)


EXPECTED_FILE = "a base is what LightGBM's save_model or `rankloop train --trees` writes"


def check_booster(content: bytes) -> None:
    """Raise if a file is not a booster with a finite score."""
    booster = NamedBooster(content, ())
    n_features = booster.grown[0].n_features
    if not np.isfinite(booster.trees.scores(np.stack([np.zeros(n_features), np.full(n_features, np.nan)]))).all():
        raise InvalidInput("its scores are not finite")


def _read_booster(content: bytes) -> TreeRanker:
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
        """The boosters of the file, checked for LightGBM; all on the same features."""
        structures = [_checked_booster(text) for text in self._unchecked.texts]
        if len({(structure.n_features, structure.names) for structure in structures}) != 1:
            raise InvalidInput("its boosters were grown on different features")
        return structures

    @cached_property
    def trees(self) -> TreeRanker:
        """The checked boosters as one score."""
        file = self._unchecked
        texts = [structure.text for structure in self.grown]
        trees = TreeRanker(texts, sorted(file.query_ids), file.scale, file.columns)
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

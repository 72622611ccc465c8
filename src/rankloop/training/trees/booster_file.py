"""The file of a booster: LightGBM's text, XGBoost's JSON, or a file of `rankloop train --trees`."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any

import msgspec
import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats
from rankloop.training.trees.booster_structure import Grown, lightgbm_structure, xgboost_structure
from rankloop.training.trees.tree_columns import encode_columns, plain_number
from rankloop.training.trees.tree_ranker import LIGHTGBM, XGBOOST, TreeRanker

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
            raise InvalidInput(
                f"it needs the feature {lacking[0]!r:.80}, which the ranker does not have ({listed:.200})"
            )
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

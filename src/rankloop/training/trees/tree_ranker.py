"""Gradient-boosted trees as a base score: a LightGBM ranker, cross-fitted, identified by a hash.

A booster is better on the queries that it was trained on, and a learner that continues from its score would trust it
too much. So one booster is fitted without each fold of the queries, which scores them; other queries get the mean.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.checks import check_positive
from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.files import atomic_write
from rankloop.core.types import Floats, finite_floats, real_numbers, whole_number
from rankloop.data.dataset import Dataset
from rankloop.data.folder import given_path
from rankloop.data.letor.file import read_letor
from rankloop.measures.base import mean_of, parse_measure
from rankloop.training.trees.tree_columns import TreeColumn, encode_columns

MAX_GRADE = 31  # LightGBM's table of gains ends there
N_FOLDS, FILE_FORMAT = 5, 1
TREE_MEASURES = ("nDCG@5", "nDCG@10", "AP")
NO_OPTIONS: Mapping[str, Any] = {}
BOOSTER_KIND = "lightgbm"


class TreeSettings(NamedTuple):
    """The settings of the boosters."""

    n_trees: int = 200
    n_leaves: int = 15  # the largest number, of a tree
    learning_rate: float = 0.05  # of the boosting
    threads: int = 1  # that train
    options: Mapping[str, Any] = NO_OPTIONS  # further parameters of LightGBM

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of LightGBM; equal data give equal trees."""
        for name, least in (("n_trees", 1), ("threads", 1), ("n_leaves", 2)):
            whole_number(getattr(self, name), name, least)
        check_positive(learning_rate=self.learning_rate)
        grown = {"num_leaves": self.n_leaves, "learning_rate": self.learning_rate, "num_threads": self.threads}
        fixed = {"objective": "lambdarank", "deterministic": True, "force_row_wise": True, "verbosity": -1, "seed": 0}
        return {**fixed, **grown, **self.options}


class TreeRanker:
    """The boosters of all folds as one score: `boosters[k]` was fitted without the queries of fold k."""

    def __init__(
        self, texts: Sequence[str], query_ids: Sequence[str], scale: float = 1.0, columns: Sequence[TreeColumn] = ()
    ) -> None:
        self.texts = tuple(texts)  # of the boosters, as LightGBM writes them
        self.columns = tuple(columns)  # the features by name, where they have any
        self.query_ids = frozenset(query_ids)  # of the training data
        self.scale = scale  # by which the scores of the boosters are divided

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, where they have any."""
        return tuple(column.field for column in self.columns)

    @cached_property
    def hash(self) -> str:
        """The SHA-256 of everything that makes the score, in hex."""
        return hashlib.sha256(self._content()).hexdigest()

    @cached_property
    def boosters(self) -> list[Any]:
        """The boosters, loaded by LightGBM."""
        lightgbm = import_extra("lightgbm")
        try:
            return [lightgbm.Booster(model_str=text) for text in self.texts]
        except lightgbm.basic.LightGBMError as error:
            raise InvalidInput(f"these are not trees of LightGBM: {error}") from None

    def scores(self, features: ArrayLike, query_id: str = "") -> Floats:
        """Return the base score of each row, of a training query by the booster without it; NaN is a missing value."""
        rows = real_numbers(features, "features")
        if rows.ndim != 2 or np.isinf(rows).any():
            raise InvalidInput(f"features must be rows of numbers, NaN where one is missing, got {rows.shape}")
        width = self.boosters[0].num_feature()
        if rows.shape[1] != width:
            raise InvalidInput(f"the trees were grown on {width} features, got {rows.shape[1]}")
        boosters = self.boosters
        if query_id in self.query_ids:
            boosters = [self.boosters[fold_of(query_id, len(self.boosters))]]
        scores = [np.asarray(booster.predict(rows, raw_score=True, num_threads=1)) for booster in boosters]
        return np.asarray(np.mean(scores, axis=0) / self.scale)

    def scores_of_values(self, rows: Sequence[Mapping[str, Any]], query_id: str = "") -> Floats:
        """Return the base score of items with values by name; an absent value is missing."""
        if not self.columns:
            raise InvalidInput("the trees have no names of their features: give rows of numbers to scores()")
        values = {name: [row.get(name) for row in rows] for name in self.names}
        return self.scores(encode_columns(self.columns, values), query_id)

    def scores_of(self, dataset: Dataset) -> Floats:
        """Return the base score of every item of a data set."""
        borders = pairwise(dataset.offsets.tolist())
        parts = [self.scores(dataset.features[a:b], id) for (a, b), id in zip(borders, dataset.query_ids)]
        return np.concatenate(parts) if parts else np.empty(0)

    def save(self, path: str | Path) -> None:
        """Write one text file, completely or not at all; loading it executes nothing."""
        atomic_write(Path(path), self._content())

    @classmethod
    def load(cls, path: str | Path) -> "TreeRanker":
        """Load trees that were saved; the hash is equal."""
        try:
            table = json.loads(Path(path).read_bytes())
        except ValueError as error:
            raise InvalidInput(f"{path} holds no trees: {type(error).__name__}: {error}") from None
        return cls.from_plain(table, str(path))

    @classmethod
    def from_plain(cls, table: Any, path: str = "the file") -> "TreeRanker":
        """Return the trees of the table of a file; `path` names it in errors."""
        try:
            if table["format"] != FILE_FORMAT:
                raise InvalidInput(f"{path} has format {table['format']!r:.40}; this version reads {FILE_FORMAT}")
            texts, query_ids, scale = map(str, table["boosters"]), map(str, table["query_ids"]), float(table["scale"])
            if table.get("kind", BOOSTER_KIND) != BOOSTER_KIND:
                raise InvalidInput(f"{path} holds trees of {table['kind']!r:.40}; this version reads {BOOSTER_KIND}")
            columns = map(TreeColumn.from_plain, table.get("features", ()))
            loaded = cls(tuple(texts), tuple(query_ids), scale, tuple(columns))
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"{path} holds no trees: {type(error).__name__}: {error}") from None
        if not loaded.texts or not np.isfinite(scale) or scale <= 0.0:
            raise InvalidInput(f"{path} holds no trees: {len(loaded.texts)} boosters of the scale {scale}")
        return loaded

    def _content(self) -> bytes:
        table: dict[str, Any] = {"format": FILE_FORMAT, "scale": self.scale, "query_ids": sorted(self.query_ids)}
        table["boosters"] = self.texts
        if self.columns:
            table["features"] = [column.to_plain() for column in self.columns]
        return json.dumps(table, ensure_ascii=False).encode()


def fit_trees(
    dataset: Dataset,
    *,
    weights: ArrayLike | None = None,
    n_folds: int = N_FOLDS,
    settings: TreeSettings = TreeSettings(),  # noqa: B008 - a value
    names: Sequence[str] = (),
    columns: Sequence[TreeColumn] = (),
) -> TreeRanker:
    """Cross-fit a LambdaMART ranker of LightGBM to the grades of a data set.

    The fold of a query depends on its id only, so that a refit with more queries keeps the folds. The score is scaled
    to a standard deviation of 1 inside a query.

    Args:
      dataset: Queries with whole grades from 0 to 31.
      weights: One number per item; 1 unless given.
      n_folds: The number of folds, at least 2.
      settings: The settings of the boosters.
      names: Of the features, which the file keeps.
      columns: In place of names, the fields that the features were encoded from: LightGBM splits codes of categories
        by sets of values.
    """
    n_folds = whole_number(n_folds, "n_folds", 2)
    parameters = settings.parameters()
    columns = columns or [TreeColumn(name) for name in names]
    width = sum(column.width for column in columns)
    if width not in (0, dataset.n_features):
        raise InvalidInput(f"{width} names for {dataset.n_features} features")
    grades = dataset.relevance
    if len(grades) and not (np.all(grades == np.floor(grades)) and 0.0 <= grades.min() <= grades.max() <= MAX_GRADE):
        raise InvalidInput(f"trees learn from whole grades from 0 to {MAX_GRADE}")
    item_weights = np.ones(len(grades)) if weights is None else finite_floats(weights, 1, "weights")
    if len(item_weights) != len(grades):
        raise InvalidInput(f"{len(item_weights)} weights for {len(grades)} items")
    if np.any(item_weights < 0.0):
        raise InvalidInput("a weight is below 0")
    lightgbm = import_extra("lightgbm")
    per_feature = [column for column in columns for _ in range(column.width)]
    categories = [position for position, column in enumerate(per_feature) if column.values]
    folds = np.array([fold_of(id, n_folds) for id in dataset.query_ids])
    fold_of_row, texts = np.repeat(folds, dataset.sizes), []
    for fold in range(n_folds):
        if not np.any(folds == fold) or np.all(folds == fold):
            raise InvalidInput(f"{len(set(dataset.query_ids))} queries are too few for {n_folds} folds")
        rows, sizes = fold_of_row != fold, dataset.sizes[folds != fold]
        try:
            options: Any = {"weight": item_weights[rows], "group": sizes, "categorical_feature": categories}
            table = lightgbm.Dataset(dataset.features[rows], grades[rows], **options)
            texts.append(str(lightgbm.train(parameters, table, settings.n_trees).model_to_string()))
        except lightgbm.basic.LightGBMError as error:
            raise InvalidInput(f"LightGBM cannot fit this: {error}") from None
    scores = TreeRanker(texts, dataset.query_ids).scores_of(dataset)
    means = np.add.reduceat(scores, dataset.offsets[:-1]) / dataset.sizes
    spread = float(np.std(scores - np.repeat(means, dataset.sizes)))
    return TreeRanker(texts, dataset.query_ids, spread if spread > 0.0 else 1.0, columns)


def train_trees(path: str | os.PathLike[str]) -> tuple[TreeRanker, dict[str, float]]:
    """Cross-fit trees to a LETOR file, and return them with the mean of each measure, by boosters without the query."""
    file = given_path(os.fspath(path))
    if file.is_dir():
        raise InvalidInput(f"{path} is a folder: trees take one LETOR file, which is cut into folds by itself")
    dataset = read_letor(file)
    trees = fit_trees(dataset)
    scores = trees.scores_of(dataset)
    values = {name: parse_measure(name).of_scores(scores, dataset.relevance, dataset.offsets) for name in TREE_MEASURES}
    return trees, {name: mean_of(each) for name, each in values.items()}


def fold_of(query_id: str, n_folds: int) -> int:
    """Return the fold of a query, which depends on its id only.

    Args:
      query_id: The query.
      n_folds: The number of folds.
    """
    return zlib.crc32(query_id.encode()) % n_folds

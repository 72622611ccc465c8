"""Data sets in parts for training, choosing and judging."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import default_rng

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.data.dataset import Dataset, concatenate
from rankloop.data.letor.file import read_letor
from rankloop.data.public_sets import ENDINGS, PublishedFold, is_archive, published_folds, refuse_cut

FIFTH = 5


class Fold(NamedTuple):
    """Queries to learn from, to choose the regularisation on, and to judge the choice on."""

    name: str
    train: Dataset
    validation: Dataset
    test: Dataset


def read_folds(path: Path, n_folds: int = 5, seed: int = 0) -> list[Fold]:
    """The folds of a folder with `folds.json` and its parts, of a set as it is published, or of one LETOR file.

    Published sets are MSLR-WEB10K (`Fold1/train.txt …`), Yahoo and Istella, in a folder or an archive; where one has no
    part for validation, every fifth query to learn from is taken for it. One file is cut into n_folds parts of queries
    at random; each is the test part once, the next one for validation, the others for training.
    """
    if n_folds < 3:
        raise InvalidInput(f"at least 3 folds are needed to train, choose and judge, got {n_folds}")
    if path.is_file() and not is_archive(path):
        return _cut(read_letor(path), n_folds, seed)
    if (path / "folds.json").is_file():
        return _listed(path)[:n_folds]
    return [_read(fold) for fold in published_folds(path)[:n_folds]]


def everything(folds: list[Fold]) -> Dataset:
    """All queries of all folds, each once: the parts of the first fold, which has them all."""
    return concatenate([folds[0].train, folds[0].validation, folds[0].test])


def _cut(dataset: Dataset, n_folds: int, seed: int) -> list[Fold]:
    if dataset.n_queries < n_folds:
        raise InvalidInput(f"{dataset.n_queries} queries are too few for {n_folds} folds")
    parts = [dataset.subset(part) for part in np.array_split(default_rng(seed).permutation(dataset.n_queries), n_folds)]
    return [_rotated(f"Fold{first + 1}", parts, first) for first in range(n_folds)]


def _rotated(name: str, parts: list[Dataset], first: int) -> Fold:
    order = [parts[(first + step) % len(parts)] for step in range(len(parts))]
    return Fold(name, concatenate(order[:-2]), order[-2], order[-1])


def _read(fold: PublishedFold) -> Fold:
    """The queries of a fold, all as wide as the widest part."""
    parts = [_filled(file) for file in fold.files]
    width = max(part.n_features for part in parts)
    train, *validation, test = (_widened(part, width) for part in parts)
    if not validation:
        fifth = np.arange(train.n_queries) % FIFTH == FIFTH - 1
        validation, train = [train.subset(np.flatnonzero(fifth))], train.subset(np.flatnonzero(~fifth))
    if 0 in (train.n_queries, validation[0].n_queries):
        raise InvalidInput(f"{fold.train} has too few queries to learn from and to choose on")
    return Fold(fold.name, train, validation[0], test)


def _filled(file: Path) -> Dataset:
    refuse_cut(file)
    dataset = read_letor(file)
    if dataset.n_queries == 0:
        raise InvalidInput(f"{file} is empty: it holds no query")
    return dataset


def _listed(folder: Path) -> list[Fold]:
    try:
        table = json.loads((folder / "folds.json").read_text(encoding="utf-8"))
        names = {name: ([*fold["train"]], fold["vali"], fold["test"]) for name, fold in table.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        wanted = '{"Fold1": {"train": ["S1", "S2", "S3"], "vali": "S4", "test": "S5"}, …}'
        raise InvalidInput(f"{folder / 'folds.json'} should hold {wanted}: {error}") from None
    return _assembled(folder, names)


def _assembled(folder: Path, names: dict[str, tuple[list[str], str, str]]) -> list[Fold]:
    """Folds from the names of their parts, all as wide as the widest part."""
    files = dict.fromkeys(part for train, *others in names.values() for part in (*train, *others))
    parts = {part: _part(folder, part) for part in files}
    width = max(part.n_features for part in parts.values())
    wide = {name: _widened(part, width) for name, part in parts.items()}
    return [
        Fold(name, concatenate([wide[part] for part in train]), wide[validation], wide[test])
        for name, (train, validation, test) in names.items()
    ]


def _part(folder: Path, name: str) -> Dataset:
    for ending in ENDINGS:
        if (folder / (name + ending)).is_file():
            return read_letor(folder / (name + ending))
    raise NotFound(f"there is no {name}.txt (or packed .txt.gz …) in {folder}")


def _widened(dataset: Dataset, n_features: int) -> Dataset:
    """Features that no line of a part names are 0."""
    missing = n_features - dataset.n_features
    return dataset if missing == 0 else dataset._replace(features=np.pad(dataset.features, ((0, 0), (0, missing))))

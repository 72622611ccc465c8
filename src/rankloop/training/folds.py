"""Folds of data sets in memory: queries for training, choosing and judging."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from numpy.random import default_rng

from rankloop.core.errors import InvalidInput
from rankloop.data.dataset import Dataset, concatenate, normalise_queries
from rankloop.data.letor.file import read_letor
from rankloop.data.parts.catalogue import StoredDataset, joined
from rankloop.data.parts.source import PartSource
from rankloop.data.public_sets import FoldFiles, is_archive, published_folds, refuse_cut

VALIDATION_SHARE = 5  # one training query in so many is for validation, where a set has no part for it


class Fold(NamedTuple):
    """Queries to learn from, to choose the regularisation on, and to judge the choice on; in memory or on disks."""

    name: str
    train: Dataset | StoredDataset
    validation: Dataset | StoredDataset
    test: Dataset | StoredDataset


def read_folds(path: Path, n_folds: int = 5, seed: int = 0, normalise: bool = False) -> list[Fold]:
    """Read the folds of a data set into memory.

    Published sets are MSLR-WEB10K (`Fold1/train.txt …`), Yahoo and Istella, in a folder or an archive; where one has no
    part for validation, every fifth query to learn from is taken for it. One file is cut into n_folds parts of queries
    at random; each is the test part once, the next one for validation, the others for training.

    Args:
      path: A folder with `folds.json` and its parts, a set as it is published, or one LETOR file.
      n_folds: At most so many folds, at least 3.
      seed: Of the cut of one file.
      normalise: Scale every feature from 0 to 1 inside each query.

    Returns:
      The folds, all with as many features as the widest part.

    Raises:
      InvalidInput: If a file is damaged, or there are fewer queries than folds.
      NotFound: If there is no such set, or a part of it is missing.
    """
    check_folds(n_folds)
    if path.is_file() and not is_archive(path):
        return cut_folds(_read(path, normalise), n_folds, seed)
    folds = published_folds(path)[:n_folds]
    sources = dict.fromkeys(source for fold in folds for source in fold.files)
    parts = {source: _filled(Path(source.address), normalise) for source in sources}
    width = max(part.n_features for part in parts.values())
    wide = {source: _widened(part, width) for source, part in parts.items()}
    return [_fold(fold, wide) for fold in folds]


def check_folds(n_folds: int) -> None:
    """Raise if there are too few folds to train, choose and judge."""
    if n_folds < 3:
        raise InvalidInput(f"at least 3 folds are needed to train, choose and judge, got {n_folds}")


def everything(folds: Sequence[Fold]) -> Dataset | StoredDataset:
    """All queries of all folds, each once: the parts of the first fold, which has them all."""
    parts = folds[0][1:]
    if isinstance(parts[0], StoredDataset):
        return joined(cast(Sequence[StoredDataset], parts))
    return concatenate(cast(Sequence[Dataset], parts))


def cut_folds(dataset: Dataset, n_folds: int, seed: int = 0) -> list[Fold]:
    """Cut a data set into folds of queries at random; each part is the test part once, the next one validation."""
    check_folds(n_folds)
    if dataset.n_queries < n_folds:
        raise InvalidInput(f"{dataset.n_queries} queries are too few for {n_folds} folds")
    parts = [dataset.subset(part) for part in np.array_split(default_rng(seed).permutation(dataset.n_queries), n_folds)]
    folds = []
    for first in range(n_folds):
        *train, validation, test = [parts[(first + step) % n_folds] for step in range(n_folds)]
        folds.append(Fold(f"Fold{first + 1}", concatenate(train), validation, test))
    return folds


def _fold(fold: FoldFiles, parts: dict[PartSource, Dataset]) -> Fold:
    train, test = (
        parts[files[0]] if len(files) == 1 else concatenate([parts[source] for source in files])
        for files in (fold.train, fold.test)
    )
    if fold.validation:
        validation = parts[fold.validation[0]]
    else:
        chosen = np.arange(train.n_queries) % VALIDATION_SHARE == VALIDATION_SHARE - 1
        validation, train = train.subset(np.flatnonzero(chosen)), train.subset(np.flatnonzero(~chosen))
    if 0 in (train.n_queries, validation.n_queries):
        raise InvalidInput(f"{fold.train[0].address} has too few queries to learn from and to choose on")
    return Fold(fold.name, train, validation, test)


def _read(file: Path, normalise: bool) -> Dataset:
    dataset = read_letor(file)
    return normalise_queries(dataset) if normalise else dataset


def _filled(file: Path, normalise: bool) -> Dataset:
    refuse_cut(file)
    dataset = _read(file, normalise)
    if dataset.n_queries == 0:
        raise InvalidInput(f"{file} is empty: it holds no query")
    return dataset


def _widened(dataset: Dataset, n_features: int) -> Dataset:
    """Features that no line of a part names are 0."""
    missing = n_features - dataset.n_features
    return dataset if missing == 0 else dataset._replace(features=np.pad(dataset.features, ((0, 0), (0, missing))))

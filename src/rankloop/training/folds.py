"""Folds of data sets: queries for training, for choosing the regularisation and for testing, in memory or on disk."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.random import default_rng

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.data.dataset import Dataset, concatenate, normalise_queries
from rankloop.data.letor.file import read_letor
from rankloop.data.parts.catalogue import HASH_END, PartCatalogue, StoredDataset, joined, summary_of
from rankloop.data.parts.columns import PartOptions, graded_rows, letor_rows
from rankloop.data.parts.source import URL_SCHEME_MARK, PartSource, fit_memory, sources_in
from rankloop.data.public_sets import (
    FoldFiles,
    folds_in,
    is_archive,
    public_path,
    published_folds,
    refuse_truncated,
    unpacked,
)
from rankloop.engine import Cluster, SummingEngine

VALIDATION_PERIOD = 5  # every fifth training query is for validation, where a set has no part for it
Progress = Callable[[int, int], None]
T = TypeVar("T")


class Fold(NamedTuple):
    """Queries for training, for choosing the regularisation, and for testing; in memory or on disk."""

    name: str
    train: Dataset | StoredDataset
    validation: Dataset | StoredDataset
    test: Dataset | StoredDataset


class PartListing(NamedTuple):
    """The parts of a data set, and its published folds; without any, folds are by hash."""

    sources: tuple[PartSource, ...]
    folds: tuple[FoldFiles, ...]


def find_folds(
    data: str,
    n_folds: int,
    engine: SummingEngine,
    *,
    normalise: bool = False,
    stream: bool = False,
    seed: int = 0,
    progress: Progress = lambda finished, of: None,
) -> list[Fold]:
    """Find the folds of a data set: in memory, or on disk.

    Data stay on disk for an address, a folder of parts, a folder with a cluster, with `stream`, and where they need
    more memory than there is. A path that this machine does not have is left to the workers of a cluster.

    Args:
      data: A file, a folder, an archive or an address.
      n_folds: How many folds.
      engine: The engine whose workers read parts.
      normalise: Scale every feature from 0 to 1 inside each query.
      stream: Read the data from a cache on disk at every pass, even if they fit into memory.
      seed: Cuts one file into folds.
      progress: Called with the number of parts that were read, and of all.
    """
    address = _stored_address(data, isinstance(engine, Cluster), stream)
    if address is not None:
        return _stored_folds(address, n_folds, engine, normalise=normalise, progress=progress)
    return read_folds(public_path(data), n_folds, seed, normalise)


def _stored_address(data: str, on_cluster: bool, stream: bool) -> str | None:
    """Return the address of data that stay on disk, None for those that are read into memory."""
    if URL_SCHEME_MARK in data:
        return data
    try:
        path = public_path(data)
        path = unpacked(path) if is_archive(path) else path
        folds = folds_in(str(path))
    except NotFound:
        if on_cluster:
            return data
        raise
    if stream or (path.is_dir() and (on_cluster or not folds)):
        return str(path)
    # Each fold holds all queries, so that the first tells how much memory they need.
    files = folds[0].files if folds else sources_in(str(path))
    return None if fit_memory(files) else str(path)


def read_folds(path: Path, n_folds: int = 5, seed: int = 0, normalise: bool = False) -> list[Fold]:
    """Read the folds of a data set into memory.

    Published sets are MSLR-WEB10K (`Fold1/train.txt …`), Yahoo and Istella, in a folder or an archive; where one has no
    part for validation, every fifth training query is taken for it. One file is cut into n_folds parts of queries
    at random; each is the test part once, the next one for validation, the others for training.

    Args:
      path: A folder with `folds.json` and its parts, a set as it is published, or one LETOR file.
      n_folds: At most so many folds, at least 3.
      seed: Draws the parts of one file.
      normalise: Scale every feature from 0 to 1 inside each query.
    """
    _check_folds(n_folds)
    if path.is_file() and not is_archive(path):
        return cut_folds(_read(path, normalise), n_folds, seed)
    folds = published_folds(path)[:n_folds]
    sources = dict.fromkeys(source for fold in folds for source in fold.files)
    parts = {source: _read_part(Path(source.address), normalise) for source in sources}
    width = max(part.n_features for part in parts.values())
    wide = {source: _widen(part, width) for source, part in parts.items()}
    return [_fold(fold, wide) for fold in folds]


def _check_folds(n_folds: int) -> None:
    """Raise if there are too few folds for training, validation and test."""
    if n_folds < 3:
        raise InvalidInput(f"at least 3 folds are needed for training, validation and test, got {n_folds}")


def everything(folds: Sequence[Fold]) -> Dataset | StoredDataset:
    """Return all queries of all folds, each once: the parts of the first fold."""
    parts = folds[0][1:]
    if isinstance(parts[0], StoredDataset):
        return joined(cast(Sequence[StoredDataset], parts))
    return concatenate(cast(Sequence[Dataset], parts))


def cut_folds(dataset: Dataset, n_folds: int, seed: int = 0) -> list[Fold]:
    """Cut a data set into folds of queries at random; each part is the test part once, the next one validation.

    Args:
      dataset: The queries.
      n_folds: The number of folds, at least 3.
      seed: Draws the parts.
    """
    _check_folds(n_folds)
    if dataset.n_queries < n_folds:
        raise InvalidInput(f"{dataset.n_queries} queries are too few for {n_folds} folds")
    parts = [dataset.subset(part) for part in np.array_split(default_rng(seed).permutation(dataset.n_queries), n_folds)]
    return [
        Fold(f"Fold{number}", concatenate(train), validation, test)
        for number, (train, validation, test) in enumerate(_rotations(parts), start=1)
    ]


def _rotations(parts: Sequence[T]) -> list[tuple[list[T], T, T]]:
    """Return for every part, as the test part, the parts for training and the one for validation."""
    rotated = [[*parts[first:], *parts[:first]] for first in range(len(parts))]
    return [(train, validation, test) for *train, validation, test in rotated]


def _fold(fold: FoldFiles, parts: dict[PartSource, Dataset]) -> Fold:
    train, test = (
        parts[files[0]] if len(files) == 1 else concatenate([parts[source] for source in files])
        for files in (fold.train, fold.test)
    )
    if fold.validation:
        validation = parts[fold.validation[0]]
    else:
        is_validation = np.arange(train.n_queries) % VALIDATION_PERIOD == VALIDATION_PERIOD - 1
        validation, train = train.subset(np.flatnonzero(is_validation)), train.subset(np.flatnonzero(~is_validation))
    if 0 in (train.n_queries, validation.n_queries):
        raise InvalidInput(f"{fold.train[0].address} has too few queries for training and validation")
    return Fold(fold.name, train, validation, test)


def _read(file: Path, normalise: bool) -> Dataset:
    dataset = read_letor(file)
    return normalise_queries(dataset) if normalise else dataset


def _read_part(file: Path, normalise: bool) -> Dataset:
    refuse_truncated(file)
    dataset = _read(file, normalise)
    if dataset.n_queries == 0:
        raise InvalidInput(f"{file} is empty: it holds no query")
    return dataset


def _widen(dataset: Dataset, n_features: int) -> Dataset:
    """Return a part with more features, which are 0."""
    missing = n_features - dataset.n_features
    return dataset if missing == 0 else dataset._replace(features=np.pad(dataset.features, ((0, 0), (0, missing))))


def _stored_folds(
    address: str,
    n_folds: int,
    engine: SummingEngine,
    *,
    normalise: bool = False,
    progress: Progress = lambda finished, of: None,
) -> list[Fold]:
    """Return the folds of parts in a folder or under an address, which the workers of the engine read.

    A folder of parts is cut by the hash of the query's name, so that the fold of a query does not depend on its part.
    Each fold is the test part once, the next one for validation, the others for training.
    """
    _check_folds(n_folds)
    listing = list_parts(address, engine)
    read = graded_rows if listing.sources[0].is_table else letor_rows
    options = PartOptions(read, by_hash=not listing.folds, normalise=normalise)
    catalogue = catalogue_of(listing.sources, options, engine, progress)
    if not listing.folds:
        return _folds_by_hash(catalogue.checked(), n_folds)
    return [_published_fold(catalogue, fold) for fold in listing.folds[:n_folds]]


def list_parts(address: str, engine: SummingEngine) -> PartListing:
    """List the parts, in this process, or in a worker where only the workers have access to them.

    Args:
      address: A folder or a URL.
      engine: The engine of the workers.
    """
    try:
        return listing_of(address)
    except NotFound:
        if not isinstance(engine, Cluster):
            raise
        return engine.map([address], listing_of)[0]


def listing_of(address: str) -> PartListing:
    """Return the parts of a published set by fold, or else all parts in the folder or under the address."""
    folds = folds_in(address)
    lacking = next((fold for fold in folds if not fold.validation), None)
    if folds and lacking is None:
        return PartListing(tuple(dict.fromkeys(source for fold in folds for source in fold.files)), tuple(folds))
    try:
        return PartListing(tuple(sources_in(address)), ())
    except NotFound:
        if lacking is None:
            raise
        folder = Path(lacking.train[0].address).parent
        raise NotFound(f"the part vali.txt (or compressed .txt.gz …) is missing in {folder}") from None


def catalogue_of(
    sources: Sequence[PartSource],
    options: PartOptions,
    engine: SummingEngine,
    progress: Progress = lambda done, of: None,
) -> PartCatalogue:
    """Read the parts, each by a worker; where some count features from 0 and others from 1, all count from 0.

    Args:
      sources: The parts.
      options: How they are read.
      engine: The engine of the workers.
      progress: Called with the number of parts that were read, and of all.
    """
    finished = iter(range(1, 2 * len(sources) + 1))

    def done(index: int, result: Any) -> None:
        progress(min(next(finished), len(sources)), len(sources))

    parts = engine.map([(source, options) for source in sources], summary_of, done)
    if len({part.zero_based for part in parts}) > 1:
        options = options._replace(zero_based=True)
        parts = engine.map([(source, options) for source in sources], summary_of, done)
    return PartCatalogue(tuple(parts), options)


def _folds_by_hash(catalogue: PartCatalogue, n_folds: int) -> list[Fold]:
    cuts = [number * HASH_END // n_folds for number in range(n_folds + 1)]
    folds = []
    for number, (train, validation, test) in enumerate(_rotations(list(pairwise(cuts))), start=1):
        parts = catalogue.within(train), catalogue.within([validation]), catalogue.within([test])
        if min(part.n_queries for part in parts) == 0:
            n_queries = sum(len(part.sizes) for part in catalogue.parts)
            raise InvalidInput(f"{n_queries} queries are too few for {n_folds} folds: one of them is empty")
        folds.append(Fold(f"Fold{number}", *parts))
    return folds


def _published_fold(catalogue: PartCatalogue, fold: FoldFiles) -> Fold:
    PartCatalogue(tuple(part for part in catalogue.parts if part.source in fold.files), catalogue.options).checked()
    return Fold(fold.name, catalogue.of(fold.train), catalogue.of(fold.validation), catalogue.of(fold.test))

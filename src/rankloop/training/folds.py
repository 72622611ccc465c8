"""Folds of data sets: queries for training, for choosing the regularisation and for testing, in memory or on disk."""

from collections.abc import Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numpy.random import default_rng

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.data import public_sets
from rankloop.data.dataset import Dataset, concatenate, normalise_queries
from rankloop.data.letor.file import read_letor
from rankloop.data.parts.catalogue import HASH_END, PartOptions, StoredDataset, summary_of
from rankloop.data.parts.source import URL_SCHEME_MARK, PartSource, fit_memory, sources_in
from rankloop.engine import Cluster, SummingEngine
from rankloop.training.solution_path import Progress

VALIDATION_PERIOD = 5  # every fifth training query is for validation, where a set has no part for it
T = TypeVar("T")


class Fold(NamedTuple):
    """Queries for training, for choosing the regularisation, and for testing; in memory or on disk."""

    name: str
    train: Dataset | StoredDataset
    validation: Dataset | StoredDataset
    test: Dataset | StoredDataset


class PartListing(NamedTuple):
    """The parts of a data set, and its published folds; none: folds are by hash."""

    sources: tuple[PartSource, ...]
    folds: tuple[public_sets.FoldFiles, ...]


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
    """Find the folds of a data set, in memory or on disk.

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
    return read_folds(public_sets.public_path(data), n_folds, seed, normalise)


def _stored_address(data: str, on_cluster: bool, stream: bool) -> str | None:
    """Return the address of data that stay on disk, None for those that are read into memory."""
    if URL_SCHEME_MARK in data:
        return data
    try:
        path = public_sets.public_path(data)
        path = public_sets.unpacked(path) if public_sets.is_archive(path) else path
        folds = public_sets.folds_in(str(path))
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
    part for validation, every fifth training query is taken for it. One file is cut by `cut_folds`.

    Args:
      path: A folder with `folds.json` and its parts, a set as it is published, or one LETOR file.
      n_folds: At most so many folds, at least 3.
      seed: Draws the parts of one file.
      normalise: Scale every feature from 0 to 1 inside each query.
    """

    def read(file: Path) -> Dataset:
        return normalise_queries(read_letor(file)) if normalise else read_letor(file)

    _check_folds(n_folds)
    if path.is_file() and not public_sets.is_archive(path):
        return cut_folds(read(path), n_folds, seed)
    published, parts = public_sets.published_folds(path)[:n_folds], {}
    for source in dict.fromkeys(source for fold in published for source in fold.files):
        file = Path(source.address)
        public_sets.refuse_truncated(file)
        parts[source] = read(file)
        if parts[source].n_queries == 0:
            raise InvalidInput(f"{file} is empty: it holds no query")
    width, folds = max(part.n_features for part in parts.values()), []
    for source, part in parts.items():  # the last features of narrower parts are 0
        missing = width - part.n_features
        parts[source] = part._replace(features=np.pad(part.features, ((0, 0), (0, missing)))) if missing else part
    for fold in published:
        roles = fold.train, fold.validation or fold.train, fold.test
        train, validation, test = (concatenate([parts[source] for source in role]) for role in roles)
        if not fold.validation:
            is_validation = np.arange(train.n_queries) % VALIDATION_PERIOD == VALIDATION_PERIOD - 1
            train, validation = (train.subset(np.flatnonzero(part)) for part in (~is_validation, is_validation))
        if 0 in (train.n_queries, validation.n_queries):
            raise InvalidInput(f"{fold.train[0].address} has too few queries for training and validation")
        folds.append(Fold(fold.name, train, validation, test))
    return folds


def _check_folds(n_folds: int) -> None:
    if n_folds < 3:
        raise InvalidInput(f"at least 3 folds are needed for training, validation and test, got {n_folds}")


def everything(folds: Sequence[Fold]) -> Dataset | StoredDataset:
    """Return all queries of all folds, each once: the parts of the first fold."""
    parts = folds[0][1:]
    if isinstance(parts[0], StoredDataset):
        stored = cast(Sequence[StoredDataset], parts)
        return StoredDataset.of_parts([part for dataset in stored for part in dataset.parts], stored[0].options)
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


def _stored_folds(
    address: str,
    n_folds: int,
    engine: SummingEngine,
    *,
    normalise: bool = False,
    progress: Progress = lambda finished, of: None,
) -> list[Fold]:
    """Return the folds of parts in a folder or under an address, which the workers of the engine read."""
    # A folder of parts is cut by the hash of the query's name, so that the fold of a query does not depend on its part.
    _check_folds(n_folds)
    try:
        listing = listing_of(address)
    except NotFound:
        if not isinstance(engine, Cluster):
            raise
        listing = engine.map([address], listing_of)[0]  # perhaps only the workers see the parts
    options = PartOptions(by_hash=not listing.folds, normalise=normalise)
    catalogue, folds = catalogue_of(listing.sources, options, engine, progress), []
    for published in listing.folds[:n_folds]:
        catalogue.of(dict.fromkeys(published.files)).checked()
        files = published.train, published.validation, published.test
        folds.append(Fold(published.name, *map(catalogue.of, files)))
    if listing.folds:
        return folds
    cuts = pairwise(number * HASH_END // n_folds for number in range(n_folds + 1))
    catalogue.checked()
    for number, (train, validation, test) in enumerate(_rotations(list(cuts)), start=1):
        parts = [catalogue.within(ranges) for ranges in (train, [validation], [test])]
        if min(part.n_queries for part in parts) == 0:
            raise InvalidInput(f"{catalogue.n_queries} queries are too few for {n_folds} folds: one of them is empty")
        folds.append(Fold(f"Fold{number}", *parts))
    return folds


def listing_of(address: str) -> PartListing:
    """Return the parts of a published set by fold, or else all parts in the folder or under the address."""
    folds = public_sets.folds_in(address)
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
) -> StoredDataset:
    """Read the parts, each by a worker; where some count features from 0 and others from 1, all count from 0.

    Args:
      sources: The parts.
      options: How they are read.
      engine: The engine of the workers.
      progress: Called with the number of parts that were read, and of all.
    """
    finished, tasks = count(1), [(source, options) for source in sources]
    parts = engine.map(tasks, summary_of, lambda index, result: progress(next(finished), len(sources)))
    if len({part.zero_based for part in parts}) > 1:
        options = options._replace(zero_based=True)
        parts = engine.map([(source, options) for source in sources], summary_of)
    return StoredDataset.of_parts(parts, options)

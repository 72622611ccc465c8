"""Folds of data sets that stay on the disks: by the hash of the query, or as they were published."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.data.parts.catalogue import HASH_END, PartCatalogue, summary_of
from rankloop.data.parts.columns import PartOptions, graded_rows, letor_rows
from rankloop.data.parts.source import SCHEME, PartSource, fit_memory, sources_in
from rankloop.data.public_sets import FoldFiles, folds_in, is_archive, public_path, unpacked
from rankloop.engine import Cluster, SummingEngine
from rankloop.training.folds import Fold, check_folds

Progress = Callable[[int, int], None]


class PartListing(NamedTuple):
    """The parts, and the published folds; none: by hash."""

    sources: tuple[PartSource, ...]
    folds: tuple[FoldFiles, ...]


def stored_address(data: str, on_cluster: bool, stream: bool) -> str | None:
    """Decide where data are read: on the disks of the workers, or in the memory of this process.

    Args:
      data: An address, or a path of a file, a folder or an archive.
      on_cluster: Whether workers of a cluster compute; a path that this machine does not see is left to them.
      stream: Read from the disks even if the data fit into memory.

    Returns:
      The address of the parts for an address, a folder of parts, a folder with a cluster, and data that are streamed or
      need more memory than there is; None where the data are read into memory.

    Raises:
      NotFound: If there are no such data on this machine, and no cluster.
    """
    if SCHEME in data:
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
    # Of several folds only the first counts: one is in memory as often as another.
    files = folds[0].files if folds else sources_in(str(path))
    return None if fit_memory(files) else str(path)


def stored_folds(
    address: str,
    n_folds: int,
    engine: SummingEngine,
    *,
    normalise: bool = False,
    progress: Progress = lambda finished, of: None,
) -> list[Fold]:
    """List the folds of the parts in a folder or under an address, which the workers of the engine read.

    A folder of parts is cut by the hash of the query's name: a query is in the same fold whichever part it is in, and
    however many parts there are. Each fold is the test part once, the next one for validation, the others for training.

    Args:
      address: A folder or a URL.
      n_folds: How many folds, at least 3; of a published set at most so many.
      engine: Reads the parts.
      normalise: Scale every feature from 0 to 1 inside each query.
      progress: Called with the number of parts that were read, and of all.

    Returns:
      The folds; their rows stay on the disks.

    Raises:
      InvalidInput: If there are too few queries, or one of them is in two parts.
      NotFound: If there are no parts.
    """
    check_folds(n_folds)
    listing = listed(address, engine)
    read = graded_rows if listing.sources[0].is_table else letor_rows
    options = PartOptions(read, by_hash=not listing.folds, normalise=normalise)
    catalogue = catalogue_of(listing.sources, options, engine, progress)
    if not listing.folds:
        return _by_hash(catalogue.checked(), n_folds)
    return [_published(catalogue, fold) for fold in listing.folds[:n_folds]]


def listed(address: str, engine: SummingEngine) -> PartListing:
    """The parts, by this process, or by a worker where only the workers see them."""
    try:
        return listing_of(address)
    except NotFound:
        if not isinstance(engine, Cluster):
            raise
        return engine.map([address], listing_of)[0]


def listing_of(address: str) -> PartListing:
    """The parts of a published set by fold, or else all parts in the folder or under the address."""
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
        raise NotFound(f"the part vali.txt (or packed .txt.gz …) is missing in {folder}") from None


def catalogue_of(
    sources: Sequence[PartSource],
    options: PartOptions,
    engine: SummingEngine,
    progress: Progress = lambda done, of: None,
) -> PartCatalogue:
    """Read the parts, each by a worker; where some count features from 0 and others from 1, all count from 0."""
    finished = iter(range(1, 2 * len(sources) + 1))

    def done(index: int, result: Any) -> None:
        progress(min(next(finished), len(sources)), len(sources))

    parts = engine.map([(source, options) for source in sources], summary_of, done)
    if len({part.zero_based for part in parts}) > 1:
        options = options._replace(zero_based=True)
        parts = engine.map([(source, options) for source in sources], summary_of, done)
    return PartCatalogue(tuple(parts), options)


def _by_hash(catalogue: PartCatalogue, n_folds: int) -> list[Fold]:
    cuts = [number * HASH_END // n_folds for number in range(n_folds + 1)]
    folds = []
    for first in range(n_folds):
        order = [(first + step) % n_folds for step in range(n_folds)]
        *train, validation, test = [(cuts[number], cuts[number + 1]) for number in order]
        fold = Fold(
            f"Fold{first + 1}", catalogue.within(train), catalogue.within([validation]), catalogue.within([test])
        )
        if min(part.n_queries for part in fold[1:]) == 0:
            n_queries = sum(len(part.sizes) for part in catalogue.parts)
            raise InvalidInput(f"{n_queries} queries are too few for {n_folds} folds: one of them is empty")
        folds.append(fold)
    return folds


def _published(catalogue: PartCatalogue, fold: FoldFiles) -> Fold:
    PartCatalogue(tuple(part for part in catalogue.parts if part.source in fold.files), catalogue.options).checked()
    return Fold(fold.name, catalogue.of(fold.train), catalogue.of(fold.validation), catalogue.of(fold.test))

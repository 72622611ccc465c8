"""Folds of data sets that stay on the disks: by the hash of the query, or as they were published."""

import json
import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.data.parts.catalogue import END, PartCatalogue, StoredDataset, joined, summary_of
from rankloop.data.parts.columns import PartOptions
from rankloop.data.parts.rows import graded_rows, letor_rows
from rankloop.data.parts.source import PartSource, entries_in, read_text, sources_in
from rankloop.data.public_sets import ENDINGS, SET, VALIDATION
from rankloop.engine import Cluster, SummingEngine

Progress = Callable[[int, int], None]
SET_PATH = re.compile(r"(.+)/(set\d+)")


class StoredFold(NamedTuple):
    """Queries to learn from, to choose the regularisation on, and to judge the choice on; all of them on disks."""

    name: str
    train: StoredDataset
    validation: StoredDataset
    test: StoredDataset


class Roles(NamedTuple):
    """Which parts a published fold trains, chooses and is judged on."""

    train: list[PartSource]
    validation: list[PartSource]
    test: list[PartSource]


class Listing(NamedTuple):
    """The parts, and the published folds; none: by hash."""

    sources: tuple[PartSource, ...]
    folds: dict[str, Roles]


def stored_folds(
    address: str,
    n_folds: int,
    engine: SummingEngine,
    *,
    normalise: bool = False,
    progress: Progress = lambda finished, of: None,
) -> list[StoredFold]:
    """The folds of the parts in a folder or under an address, which the workers of the engine read.

    A folder of parts is cut by the hash of the query's name: a query is in the same fold whichever part it is in, and
    however many parts there are. Each fold is the test part once, the next one for validation, the others for training.
    """
    if n_folds < 3:
        raise InvalidInput(f"at least 3 folds are needed to train, choose and judge, got {n_folds}")
    listing = listed(address, engine)
    read = graded_rows if listing.sources[0].is_table else letor_rows
    options = PartOptions(read, by_hash=not listing.folds, normalise=normalise)
    catalogue = catalogue_of(listing.sources, options, engine, progress)
    if not listing.folds:
        return _by_hash(catalogue.checked(), n_folds)
    return [_published(catalogue, name, roles) for name, roles in list(listing.folds.items())[:n_folds]]


def everything_stored(folds: list[StoredFold]) -> StoredDataset:
    """All queries of all folds, each once."""
    return joined([folds[0].train, folds[0].validation, folds[0].test])


def listed(address: str, engine: SummingEngine) -> Listing:
    """The parts, by this process, or by a worker where only the workers see them."""
    try:
        return listing_of(address)
    except NotFound:
        if not isinstance(engine, Cluster):
            raise
        return engine.map([address], listing_of)[0]


def listing_of(address: str) -> Listing:
    """What lies in the folder or under the address: `folds.json` and its parts, a published set, or just parts."""
    one_set = SET_PATH.fullmatch(address.rstrip("/"))
    files, folders = entries_in(one_set[1] if one_set and not _is_there(address) else address)
    published = [name for name in folders if name.startswith("Fold")]
    sets = [one_set[2]] if one_set else sorted({found[1] for name in files if (found := SET.match(name))})
    if not files and len(folders) == 1 and not published:
        return listing_of(f"{address.rstrip('/')}/{folders[0]}")
    if "folds.json" in files:
        folds = {
            name: Roles(*(_found(files, address, role) for role in roles)) for name, roles in _table(files).items()
        }
    elif published:
        inside = {name: entries_in(f"{address.rstrip('/')}/{name}")[0] for name in published}
        roles = ["train"], ["vali"], ["test"]
        folds = {
            name: Roles(*(_found(inside[name], f"{address}/{name}", role) for role in roles)) for name in published
        }
    elif sets:
        roles = [f"{sets[0]}.train"], [f"{sets[0]}.valid"], [f"{sets[0]}.test"]
        folds = {sets[0]: Roles(*(_found(files, address, role) for role in roles))}
    elif (validation := next((name for name in VALIDATION if f"{name}.txt" in files), None)) and "train.txt" in files:
        roles = ["train"], [validation], ["test"]
        folds = {PurePosixPath(address).name: Roles(*(_found(files, address, role) for role in roles))}
    else:
        return Listing(tuple(sources_in(address)), {})
    named = dict.fromkeys(source for roles in folds.values() for role in roles for source in role)
    return Listing(tuple(named), folds)


def _is_there(address: str) -> bool:
    try:
        return bool(entries_in(address))
    except NotFound:
        return False


def catalogue_of(
    sources: tuple[PartSource, ...],
    options: PartOptions,
    engine: SummingEngine,
    progress: Progress = lambda done, of: None,
) -> PartCatalogue:
    """What is in the parts, each read by a worker; where some count features from 0 and others from 1, all from 0."""
    finished = iter(range(1, len(sources) + 1))

    def done(index: int, result: Any) -> None:
        progress(next(finished), len(sources))

    parts = engine.map([(source, options) for source in sources], summary_of, done)
    if len({part.zero_based for part in parts}) == 1:
        return PartCatalogue(tuple(parts), options)
    finished, options = iter(range(1, len(sources) + 1)), options._replace(zero_based=True)
    return PartCatalogue(tuple(engine.map([(source, options) for source in sources], summary_of, done)), options)


def _by_hash(catalogue: PartCatalogue, n_folds: int) -> list[StoredFold]:
    cuts = [number * END // n_folds for number in range(n_folds + 1)]
    folds = []
    for first in range(n_folds):
        order = [(first + step) % n_folds for step in range(n_folds)]
        *train, validation, test = [(cuts[number], cuts[number + 1]) for number in order]
        parts = (catalogue.within(*train), catalogue.within(validation), catalogue.within(test))
        if min(part.n_queries for part in parts) == 0:
            n_queries = sum(len(part.sizes) for part in catalogue.parts)
            raise InvalidInput(f"{n_queries} queries are too few for {n_folds} folds: one of them is empty")
        folds.append(StoredFold(f"Fold{first + 1}", *parts))
    return folds


def _published(catalogue: PartCatalogue, name: str, roles: Roles) -> StoredFold:
    used = {source for role in roles for source in role}
    PartCatalogue(tuple(part for part in catalogue.parts if part.source in used), catalogue.options).checked()
    return StoredFold(name, *(catalogue.of(role) for role in roles))


def _table(files: dict[str, PartSource]) -> dict[str, tuple[list[str], list[str], list[str]]]:
    """The names of the parts by fold and role."""
    source = files["folds.json"]
    try:
        table = json.loads(read_text(source))
        return {name: ([*fold["train"]], [fold["vali"]], [fold["test"]]) for name, fold in table.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        wanted = '{"Fold1": {"train": ["S1", "S2", "S3"], "vali": "S4", "test": "S5"}, …}'
        raise InvalidInput(f"{source.address} should hold {wanted}: {error}") from None


def _found(files: dict[str, PartSource], address: str, names: list[str]) -> list[PartSource]:
    found = []
    for name in names:
        part = next((files[name + ending] for ending in ENDINGS if name + ending in files), None)
        if part is None:
            raise NotFound(f"the part {name}.txt (or packed .txt.gz …) is missing in {address}")
        found.append(part)
    return found

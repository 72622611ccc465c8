"""A data set in parts: each parsed once into columns on disk, and the queries that are selected from all of them.

A copy is a folder: features and grades of all rows in files that are mapped into memory, and the queries in another.
Queries are sorted by hash, so that a fold, which is a range of hashes, is consecutive; or they stand as in the part.
"""

import errno
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
import xxhash
from numpy.typing import NDArray

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.types import Floats, Ints, finite_floats
from rankloop.data.compression import opened
from rankloop.data.dataset import Dataset, normalise_queries, offsets_of
from rankloop.data.letor.file import Layout, Namer, pieces
from rankloop.data.parts.source import PartSource, scratch_folder

COPY_VERSION = 2  # of what is written
COPY_ERRORS = (OSError, ValueError, TypeError, KeyError, EOFError, BadZipFile)
MAX_OPEN_COPIES = 256  # that a process keeps mapped
HASH_END = 1 << 64  # above every hash
QUERY_COLUMNS = ("query", "query_id", "qid")
GRADE_COLUMNS = ("relevance", "grade", "label", "rating")
Hashes = NDArray[np.uint64]


class PartRows(NamedTuple):
    """Consecutive rows; another query begins at each of `starts`. Valid until the next rows are read."""

    features: Floats  # columns as they are numbered in the file
    grades: Floats
    starts: Ints
    names: list[str]  # of the query that begins at each start
    lowest: int  # the lowest number of a column that occurs, 0 or 1
    width: int  # columns up to the highest number that occurs


def letor_rows(path: Path) -> Iterator[PartRows]:
    """Yield the rows of a LETOR file, compressed or not; queries without a name are numbered within the file."""
    namer = Namer(path, None)
    for rows in pieces(path, Layout()):
        owner = namer.number(rows)
        starts = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
        prefix = "" if namer.are_named else f"{path.name}:"
        names = [prefix + namer.names(number, number + 1)[0] for number in owner[starts].tolist()]
        yield PartRows(rows.features, rows.grades, starts, names, min(1, rows.lowest), rows.highest + 1)
    namer.finish()


def graded_rows(path: Path) -> Iterator[PartRows]:
    """Yield the rows of a CSV or Parquet table: one column is the query, one the grade, the others are features."""
    batches: Iterator[Any]
    try:
        with opened(path) as file:
            if path.suffix in (".parquet", ".pq"):
                table = import_extra("pyarrow.parquet").ParquetFile(path)
                names, batches = table.schema_arrow.names, table.iter_batches(batch_size=1 << 14)
            else:
                reader = import_extra("pyarrow.csv").open_csv(file)
                names, batches = reader.schema.names, iter(reader)
            roles = []
            for usual in (QUERY_COLUMNS, GRADE_COLUMNS):
                column = next((name for name in usual if name in names), None)
                if column is None:
                    needed = f"{path.name} needs a column {' or '.join(usual)}; it has {', '.join(names)}"
                    raise InvalidInput(f"{needed} (for a log of clicks use `rankloop train-clicks`)")
                roles.append(column)
            features = [name for name in names if name not in roles]
            for batch in batches:
                if batch.num_rows:
                    owner = [str(name) for name in batch.column(roles[0]).to_pylist()]
                    starts = np.array([row for row in range(len(owner)) if row == 0 or owner[row] != owner[row - 1]])
                    values = np.column_stack([_numbers(path.name, batch, name) for name in features])
                    grades = _numbers(path.name, batch, roles[1])
                    yield PartRows(values, grades, starts, [owner[start] for start in starts], 0, len(features))
    except import_extra("pyarrow").ArrowInvalid as error:
        raise InvalidInput(f"{path.name} is cut short or damaged: {' '.join(str(error).split())}") from None


def _numbers(where: str, batch: Any, name: str) -> Floats:
    column = batch.column(name)
    try:
        return finite_floats(column.to_numpy(zero_copy_only=False), 1, f"{where}, column {name!r}")
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{where}, column {name!r}: features and grades are finite numbers: {error}") from None


class PartOptions(NamedTuple):
    """The way in which parts are read; workers get it with each part, and a copy is found by its text."""

    by_hash: bool = True
    zero_based: bool | None = None  # None: by whether an index 0 occurs in the part
    normalise: bool = False


class PartSummary(NamedTuple):
    """Consecutive queries of a part, as far as the driver knows them."""

    source: PartSource
    n_features: int
    zero_based: bool
    hashes: Hashes  # of the queries' names, in the order of the copy
    sizes: Ints
    first_row: int = 0

    def between(self, first: int, end: int) -> "PartSummary":
        """Return the queries from number `first` to `end`."""
        first_row = self.first_row + int(self.sizes[:first].sum())
        return self._replace(hashes=self.hashes[first:end], sizes=self.sizes[first:end], first_row=first_row)


def hash_of(name: str) -> int:
    """Return the hash of a query's name, equal on every machine."""
    return xxhash.xxh3_64_intdigest(name.encode("utf-8", "surrogatepass"))


class ColumnCopy:
    """The columns of one part on this machine; written when they are first needed."""

    def __init__(self, source: PartSource, options: PartOptions) -> None:
        self.source = source
        source.check()
        key = repr((COPY_VERSION, tuple(source), tuple(options)))
        self.folder = scratch_folder() / xxhash.xxh3_128_hexdigest(key.encode())
        try:
            self._open()
        except COPY_ERRORS:
            shutil.rmtree(self.folder, ignore_errors=True)
            _make(source, options, self.folder)
            self._open()

    def summary(self) -> PartSummary:
        """Return hashes and sizes of the queries."""
        with np.load(self.folder / "queries.npz") as queries:
            zero_based = bool(queries["zero_based"])
            return PartSummary(self.source, self.n_features, zero_based, queries["hashes"], queries["sizes"])

    def name_of(self, query: int) -> str:
        """Return the name of a query, by its number in the copy."""
        with np.load(self.folder / "queries.npz") as queries:
            return str(queries["names"][query])

    def rows(self, first: int, end: int, n_features: int) -> tuple[Floats, Floats]:
        """Return features and grades of some rows, and have the system read them ahead.

        They are views of the mapped files, or a copy where `n_features` is more than the part has: those are 0.
        """
        if os.stat(self.folder / "features.npy").st_size < self._offset + self._features.nbytes:
            raise InvalidInput(f"the copy of {self.source.name} in {str(self.folder)!r} is cut short: delete it")
        features, grades = self._features[first:end], self._grades[first:end]
        if hasattr(mmap, "MADV_WILLNEED") and end > first:
            start = self._offset + first * self._features.strides[0]
            page = start // mmap.PAGESIZE * mmap.PAGESIZE
            self._map.madvise(mmap.MADV_WILLNEED, page, start + features.nbytes - page)
        if n_features > self.n_features:
            features = np.pad(features, ((0, 0), (0, n_features - self.n_features)))
        return features, grades

    def _open(self) -> None:
        """Map the files copy-on-write: read-only arrays would have every kernel compiled once more."""
        mapped = np.load(self.folder / "features.npy", mmap_mode="c")
        self._map, self._offset, self._features = mapped._mmap, mapped.offset, np.asarray(mapped)
        self.n_rows, self.n_features = mapped.shape
        self._grades = np.asarray(np.load(self.folder / "grades.npy", mmap_mode="c"))
        if self.summary().sizes.sum() != self.n_rows or len(self._grades) != self.n_rows:
            raise ValueError("the copy is not complete")


def _make(source: PartSource, options: PartOptions, folder: Path) -> None:
    """Parse the part and rename the finished columns into place; another process may be first."""
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-"))
    try:
        with source.local() as path:
            _write(path, source, options, unfinished)
        if not folder.exists():
            os.rename(unfinished, folder)
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            return  # another worker of this machine was faster
        reason = "no space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else str(error)
        advice = "set RANKLOOP_CACHE to a folder on a disk with 8 bytes for every number of all parts"
        fault = f"{source.name} cannot be copied to {str(folder.parent)!r}: {reason}"
        raise InvalidInput(f"{fault}; {advice}") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write(path: Path, source: PartSource, options: PartOptions, folder: Path) -> None:
    """Write every row to the place of its query; rows of one query keep the order of the part."""
    # The part is read twice, first for the queries and the width, so that it need not fit into memory.
    read = graded_rows if source.is_table else letor_rows
    numbers: dict[str, int] = {}
    owners, grades, lowest, width = [], [], 1, 1
    for rows in read(path):
        queries = [numbers.setdefault(query, len(numbers)) for query in rows.names]
        owners.append(np.repeat(np.array(queries, np.int64), np.diff(rows.starts, append=len(rows.grades))))
        grades.append(rows.grades.copy())
        lowest, width = min(lowest, rows.lowest), max(width, rows.width)
    if not numbers:
        raise InvalidInput(f"{source.name} has no rows")
    names, owner = np.array(list(numbers)), np.concatenate(owners)
    hashes, sizes = np.array([hash_of(query) for query in numbers], np.uint64), np.bincount(owner)
    order = np.argsort(hashes, kind="stable") if options.by_hash else np.arange(len(hashes))
    row_order = np.argsort(np.argsort(order)[owner], kind="stable")
    zero_based = lowest == 0 if options.zero_based is None else options.zero_based
    queries_file = folder / "queries.npz"
    np.savez(queries_file, names=names[order], hashes=hashes[order], sizes=sizes[order], zero_based=zero_based)
    np.save(folder / "grades.npy", np.concatenate(grades)[row_order])
    first, file = 0 if zero_based else 1, folder / "features.npy"
    features = np.lib.format.open_memmap(file, mode="w+", dtype=np.float64, shape=(len(owner), max(1, width - first)))
    if hasattr(os, "posix_fallocate"):  # a full disk is an error here; later it would end the process
        with file.open("r+b") as content:
            os.posix_fallocate(content.fileno(), 0, features.offset + features.nbytes)
    place, row = np.argsort(row_order), 0
    for rows in read(path):
        used = rows.features[:, first:width]
        features[place[row : row + len(used)], : used.shape[1]] = used
        row += len(used)
    if options.normalise:
        for start, end in pairwise(offsets_of(sizes[order]).tolist()):
            query = Dataset(np.array(features[start:end]), np.empty(end - start), np.array([0, end - start]), ("",))
            features[start:end] = normalise_queries(query).features
    features.flush()


copy_of = lru_cache(MAX_OPEN_COPIES)(ColumnCopy)  # the columns of a part on this machine, written where missing


def summary_of(task: tuple[PartSource, PartOptions]) -> PartSummary:
    """Read a part, keep its columns, and return its summary: a task for a worker."""
    return copy_of(*task).summary()


@dataclass(frozen=True, eq=False)
class StoredDataset:
    """A data set whose rows stay on disk, with the queries of its parts in the order in which their sums are added."""

    parts: tuple[PartSummary, ...]
    options: PartOptions
    n_features: int

    @classmethod
    def of_parts(cls, parts: Sequence[PartSummary], options: PartOptions) -> "StoredDataset":
        """Return all queries of some parts; the last features of narrower parts are 0."""
        return cls(tuple(parts), options, max(part.n_features for part in parts))

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return sum(len(part.sizes) for part in self.parts)

    @cached_property
    def offsets(self) -> Ints:
        """The first row of each query, and the end of the last."""
        return offsets_of(np.concatenate([*(part.sizes for part in self.parts), np.empty(0, np.int64)]))

    def load(self) -> Dataset:
        """Return the queries without their names; where the rows are consecutive, as views of the mapped file."""
        rows = []
        for part in self.parts:
            if part.source.is_local:
                part.source.check()
            end = part.first_row + int(part.sizes.sum())
            rows.append(copy_of(part.source, self.options).rows(part.first_row, end, self.n_features))
        features, grades = rows[0] if len(rows) == 1 else (np.concatenate(arrays) for arrays in zip(*rows))
        return Dataset(features, grades, self.offsets, ())

    def __str__(self) -> str:
        return ", ".join(dict.fromkeys(part.source.name for part in self.parts))

    def checked(self) -> "StoredDataset":
        """Return itself; raise `InvalidInput` if a query is in two parts, because its loss needs all its rows."""
        hashes = np.concatenate([part.hashes for part in self.parts])
        order = np.argsort(hashes, kind="stable")
        twice = np.flatnonzero(np.diff(hashes[order]) == 0)
        if len(twice):
            borders = offsets_of([len(part.sizes) for part in self.parts])
            queries = np.sort(order[twice[0] : twice[0] + 2])
            numbers = np.searchsorted(borders, queries, "right") - 1
            first, second = (self.parts[number] for number in numbers.tolist())
            try:
                name = copy_of(first.source, self.options).name_of(int(queries[0] - borders[numbers[0]]))
            except (InvalidInput, LookupError):  # this machine does not see the part
                name = f"with hash {int(hashes[queries[0]]):x}"
            both = f"{first.source.name} and {second.source.name}"
            raise InvalidInput(f"query {name!r} is in two parts, {both}: put all rows of a query into one")
        return self

    def within(self, ranges: Sequence[tuple[int, int]]) -> "StoredDataset":
        """Return the queries whose hash is in one of the ranges; of every part, those of the first range come first."""
        parts = []
        for part in self.parts:
            for low, high in ranges:
                first = int(np.searchsorted(part.hashes, np.uint64(low)))
                is_last = high == HASH_END  # which is no hash
                end = len(part.sizes) if is_last else int(np.searchsorted(part.hashes, np.uint64(high)))
                parts += [part.between(first, end)] if first < end else []
        return replace(self, parts=tuple(parts))

    def of(self, sources: Iterable[PartSource]) -> "StoredDataset":
        """Return the queries of these parts, in this order."""
        by_source = {part.source: part for part in self.parts}
        return replace(self, parts=tuple(by_source[source] for source in sources))

    def between(self, first: int, end: int) -> "StoredDataset":
        """Return the queries from number `first` to `end`, without hashes, for a worker that loads them."""
        parts, n_passed = [], 0
        for part in self.parts:
            low, high = max(first - n_passed, 0), min(end - n_passed, len(part.sizes))
            if low < high:
                parts.append(part.between(low, high)._replace(hashes=np.empty(0, np.uint64)))
            n_passed += len(part.sizes)
        return replace(self, parts=tuple(parts))

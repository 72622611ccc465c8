"""A data set in parts: each parsed once into columns on disk, and the queries that are selected from all of them.

A copy is a folder of `.npy` files: features and grades of all rows, and hash, size and name of each query.
Queries are sorted by hash, so that a fold, which is a range of hashes, is consecutive; or they stand as in the part.
"""

import errno
import json
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

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

COPY_VERSION = 1  # of what is written
END_OF_NAME = "\0"  # separates the name of a query from the number of one of its lists
COPY_ERRORS = (OSError, ValueError, TypeError, KeyError, EOFError)
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


Read = Callable[[Path], Iterator["PartRows"]]  # importable, since it travels to the workers


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
    """The way in which parts are read; workers get it with each part."""

    read: Read
    by_hash: bool = True
    zero_based: bool | None = None  # None: by whether an index 0 occurs in the part
    normalise: bool = False

    @property
    def key(self) -> str:
        """The text by which copies that were read in the same way are recognised."""
        is_function = hasattr(self.read, "__qualname__")  # a callable with settings shows them in its text
        read = f"{self.read.__module__}.{self.read.__qualname__}" if is_function else repr(self.read)
        return repr((COPY_VERSION, read, *self[1:]))


class PartSummary(NamedTuple):
    """The facts of a part that the driver needs: hash and size of its queries, and the width of its rows."""

    source: PartSource
    n_features: int
    zero_based: bool
    hashes: Hashes  # of the queries' names, in the order of the copy
    sizes: Ints
    first_row: int = 0  # of some of its queries

    def between(self, first: int, end: int) -> "PartSummary":
        """Return the queries from number `first` to `end`."""
        first_row = self.first_row + int(self.sizes[:first].sum())
        return self._replace(hashes=self.hashes[first:end], sizes=self.sizes[first:end], first_row=first_row)


def hash_of(name: str) -> int:
    """Return the hash of a query's name, equal on every machine and for all lists of the query."""
    return xxhash.xxh3_64_intdigest(name.partition(END_OF_NAME)[0].encode("utf-8", "surrogatepass"))


class ColumnCopy:
    """The columns of one part on this machine; written when they are first needed."""

    def __init__(self, source: PartSource, options: PartOptions) -> None:
        self.source, self.options = source, options
        key = xxhash.xxh3_128_hexdigest(f"{options.key} {source.fingerprint()}".encode())
        self.folder = scratch_folder() / key
        try:
            self._open()
        except COPY_ERRORS:
            shutil.rmtree(self.folder, ignore_errors=True)
            _make(source, options, self.folder)
            self._open()

    def summary(self) -> PartSummary:
        """Return hashes and sizes of the queries."""
        hashes, sizes = np.load(self.folder / "hashes.npy"), np.load(self.folder / "sizes.npy")
        return PartSummary(self.source, self.n_features, self.zero_based, hashes, sizes)

    def name_of(self, query: int) -> str:
        """Return the name of a query, by its number in the copy."""
        return str(json.loads((self.folder / "names.json").read_text(encoding="utf-8"))[query])

    def rows(self, first: int, end: int, n_features: int) -> tuple[Floats, Floats]:
        """Return features and grades of some rows, and have the system read them ahead.

        They are views of the mapped files, or a copy where `n_features` is more than the part has: those are 0.
        """
        if os.stat(self._file).st_size < self._n_bytes:
            raise InvalidInput(f"the copy of {self.source.name} in {str(self.folder)!r} is cut short: delete it")
        start = (self._offset + first * self.n_features * 8) // mmap.PAGESIZE * mmap.PAGESIZE
        if hasattr(mmap, "MADV_WILLNEED") and end > first:
            self._map.madvise(mmap.MADV_WILLNEED, start, self._offset + end * self.n_features * 8 - start)
        features, grades = self._features[first:end], self._grades[first:end]
        if n_features > self.n_features:
            features = np.pad(features, ((0, 0), (0, n_features - self.n_features)))
        return features, grades

    def _open(self) -> None:
        """Map the files copy-on-write: read-only arrays would have every kernel compiled once more."""
        self._file = self.folder / "features.npy"
        mapped = np.load(self._file, mmap_mode="c")
        self._map, self._offset, self._features = mapped._mmap, mapped.offset, np.asarray(mapped)
        self.n_rows, self.n_features = mapped.shape
        self._n_bytes = self._offset + mapped.nbytes
        self._grades = np.asarray(np.load(self.folder / "grades.npy", mmap_mode="c"))
        self.zero_based = bool(json.loads((self.folder / "layout.json").read_text())["zero_based"])
        if len(self._grades) != self.n_rows or not (self.folder / "names.json").exists():
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
        raise InvalidInput(
            f"{source.name} cannot be copied to {str(folder.parent)!r}: {reason}; set RANKLOOP_CACHE to a folder "
            "on a disk with 8 bytes for every number of all parts"
        ) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write(path: Path, source: PartSource, options: PartOptions, folder: Path) -> None:
    """Write every row to the place of its query; rows of one query keep the order of the part."""
    numbers: dict[str, int] = {}
    owners, grades, shapes = [], [], []
    lowest, widest = 1, 0
    with tempfile.TemporaryFile(dir=folder) as unsorted:
        for rows in options.read(path):
            n_rows, width = len(rows.features), max(1, min(rows.width, rows.features.shape[1]))
            queries = [numbers.setdefault(name, len(numbers)) for name in rows.names]
            owners.append(np.repeat(np.array(queries, np.int64), np.diff(rows.starts, append=n_rows)))
            grades.append(rows.grades.copy())
            shapes.append((n_rows, width))
            lowest, widest = min(lowest, rows.lowest), max(widest, width)
            unsorted.write(np.ascontiguousarray(rows.features[:, :width]).data)
        if not numbers:
            raise InvalidInput(f"{source.name} has no rows")
        names, owner = list(numbers), np.concatenate(owners)
        hashes, sizes = np.array([hash_of(name) for name in names], np.uint64), np.bincount(owner, minlength=len(names))
        order = np.argsort(hashes, kind="stable") if options.by_hash else np.arange(len(hashes))
        row_order = np.argsort(np.argsort(order)[owner], kind="stable")
        zero_based = lowest == 0 if options.zero_based is None else options.zero_based
        _save(folder / "hashes.npy", hashes[order])
        _save(folder / "sizes.npy", sizes[order])
        _save(folder / "grades.npy", np.concatenate(grades)[row_order])
        (folder / "names.json").write_text(json.dumps([names[query] for query in order.tolist()]), encoding="utf-8")
        (folder / "layout.json").write_text(json.dumps({"zero_based": zero_based}), encoding="utf-8")
        first, target, row = 0 if zero_based else 1, np.argsort(row_order), 0
        shape, file = (len(owner), max(1, widest - first)), folder / "features.npy"
        features = np.lib.format.open_memmap(file, mode="w+", dtype=np.float64, shape=shape)
        if hasattr(os, "posix_fallocate"):  # a full disk is an error here; later it would end the process
            with file.open("r+b") as content:
                os.posix_fallocate(content.fileno(), 0, features.offset + features.nbytes)
        unsorted.seek(0)
        for n_rows, n_columns in shapes:
            block = np.frombuffer(unsorted.read(n_rows * n_columns * 8)).reshape(n_rows, n_columns)
            used = block[:, first : first + shape[1]]
            features[target[row : row + n_rows], : used.shape[1]] = used
            row += n_rows
    if options.normalise:
        for first, end in pairwise(offsets_of(sizes[order]).tolist()):
            query = Dataset(np.array(features[first:end]), np.empty(end - first), np.array([0, end - first]), ("",))
            features[first:end] = normalise_queries(query).features
    features.flush()


def _save(path: Path, array: Any) -> None:
    with path.open("wb") as file:
        np.save(file, array)
        file.flush()
        os.fsync(file.fileno())


MAX_OPEN_COPIES = 256  # that a process keeps mapped
HASH_END = 1 << 64  # above every hash
copy_of = lru_cache(MAX_OPEN_COPIES)(ColumnCopy)  # the columns of a part on this machine, written where missing


class StoredQueries(NamedTuple):
    """A few thousand rows that a worker loads when it needs them."""

    parts: tuple[PartSummary, ...]  # without hashes
    n_features: int
    options: PartOptions

    def load(self) -> Dataset:
        """Return the queries without their names; where the rows are consecutive, as views of the mapped file."""
        rows = []
        for part in self.parts:
            if part.source.is_local:
                part.source.check()
            end = part.first_row + int(part.sizes.sum())
            rows.append(copy_of(part.source, self.options).rows(part.first_row, end, self.n_features))
        features, grades = rows[0] if len(rows) == 1 else (np.concatenate(arrays) for arrays in zip(*rows))
        return Dataset(features, grades, offsets_of(np.concatenate([part.sizes for part in self.parts])), ())

    def __str__(self) -> str:
        return ", ".join(dict.fromkeys(part.source.name for part in self.parts))


class StoredDataset:
    """A data set whose rows stay on disk, with the queries of its parts in the order in which their sums are added."""

    def __init__(self, parts: Sequence[PartSummary], options: PartOptions, n_features: int | None = None) -> None:
        self.parts, self.options = tuple(parts), options
        self.n_features = n_features or max(part.n_features for part in parts)

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return sum(len(part.sizes) for part in self.parts)

    @cached_property
    def offsets(self) -> Ints:
        """The first row of each query, and the end of the last."""
        return offsets_of(np.concatenate([*(part.sizes for part in self.parts), np.empty(0, np.int64)]))

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
            raise InvalidInput(
                f"query {name!r} is in two parts, {first.source.name} and {second.source.name}: put all rows of a "
                "query into one"
            )
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
        return StoredDataset(parts, self.options, self.n_features)

    def of(self, sources: Iterable[PartSource]) -> "StoredDataset":
        """Return the queries of these parts, in this order."""
        by_source = {part.source: part for part in self.parts}
        return StoredDataset([by_source[source] for source in sources], self.options, self.n_features)

    def between(self, first: int, end: int) -> StoredQueries:
        """Return the queries from number `first` to `end`, to be loaded by a worker."""
        parts, n_passed = [], 0
        for part in self.parts:
            low, high = max(first - n_passed, 0), min(end - n_passed, len(part.sizes))
            if low < high:
                parts.append(part.between(low, high)._replace(hashes=np.empty(0, np.uint64)))
            n_passed += len(part.sizes)
        return StoredQueries(tuple(parts), self.n_features, self.options)


def read_all_queries(dataset: StoredDataset) -> Dataset:
    """Read a stored data set into memory; its queries are named "0", "1" and so on."""
    queries = dataset.between(0, dataset.n_queries).load()
    return queries._replace(query_ids=tuple(map(str, range(dataset.n_queries))))


def summary_of(task: tuple[PartSource, PartOptions]) -> PartSummary:
    """Read a part, keep its columns, and return its summary: a task for a worker."""
    return copy_of(*task).summary()

"""A part as columns on disk: parsed once, then mapped into memory at every pass.

A copy is a folder of `.npy` files: features and grades of all rows, and hash, size and name of each query.
Queries are sorted by hash, so that a fold, which is a range of hashes, is consecutive; or they stand as in the part.
"""

import errno
import json
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.types import Floats, Ints, finite_floats
from rankloop.data.compression import opened
from rankloop.data.dataset import Dataset, normalise_queries
from rankloop.data.letor.file import Layout, Namer, pieces
from rankloop.data.parts.source import PartSource, scratch_folder

COPY_VERSION = 1  # of what is written
END_OF_NAME = "\0"  # separates the name of a query from the number of one of its lists
COPY_ERRORS = (OSError, ValueError, TypeError, KeyError, EOFError)
QUERY_COLUMNS = ("query", "query_id", "qid")
GRADE_COLUMNS = ("relevance", "grade", "label", "rating")
Hashes = NDArray[np.uint64]


class PartRows(NamedTuple):
    """Consecutive rows; another query begins at each of `starts`. Valid until the next rows are read.

    Columns are features as they are numbered in the file; `lowest` is the lowest number that occurs, 0 or 1.
    """

    features: Floats
    grades: Floats
    starts: Ints
    names: list[str]  # of the query that begins at each start
    lowest: int
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
    pa = import_extra("pyarrow")

    try:
        with opened(path) as file:
            yield from _table_rows(path, file)
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"{path.name} is cut short or damaged: {' '.join(str(error).split())}") from None


def _table_rows(path: Path, file: Any) -> Iterator[PartRows]:
    parquet = import_extra("pyarrow.parquet")
    csv = import_extra("pyarrow.csv")

    batches: Iterator[Any]
    if path.suffix in (".parquet", ".pq"):
        table = parquet.ParquetFile(path)
        names, batches = table.schema_arrow.names, table.iter_batches(batch_size=1 << 14)
    else:
        reader = csv.open_csv(file)
        names, batches = reader.schema.names, iter(reader)
    query, grade = (_column(path.name, names, usual) for usual in (QUERY_COLUMNS, GRADE_COLUMNS))
    features = [name for name in names if name not in (query, grade)]
    for batch in batches:
        if batch.num_rows:
            owner = [str(name) for name in batch.column(query).to_pylist()]
            starts = np.array([row for row in range(len(owner)) if row == 0 or owner[row] != owner[row - 1]])
            values = np.column_stack([_numbers(path.name, batch, name) for name in features])
            grades = _numbers(path.name, batch, grade)
            yield PartRows(values, grades, starts, [owner[start] for start in starts], 0, len(features))


def _column(where: str, names: Sequence[str], usual: Sequence[str]) -> str:
    column = next((name for name in usual if name in names), None)
    if column is None:
        needed = f"{where} needs a column {' or '.join(usual)}; it has {', '.join(names)}"
        raise InvalidInput(f"{needed} (for a log of clicks use `rankloop train-clicks`)")
    return column


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

        Args:
          first: The first row.
          end: The row after the last.
          n_features: The width of the result; columns that the part does not have are 0.

        Returns:
          Views of the mapped files, or a wider copy.
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
    with tempfile.TemporaryFile(dir=folder) as unsorted:
        gathered = _GatheredRows()
        for rows in options.read(path):
            gathered.add(rows, unsorted)
        if not gathered.numbers:
            raise InvalidInput(f"{source.name} has no rows")
        zero_based = gathered.lowest == 0 if options.zero_based is None else options.zero_based
        hashes = np.array([hash_of(name) for name in gathered.numbers], np.uint64)
        order = np.argsort(hashes, kind="stable") if options.by_hash else np.arange(len(hashes))
        _save(folder / "hashes.npy", hashes[order])
        _write_queries(gathered, order, zero_based, folder)
        _write_rows(gathered, order, unsorted, zero_based, folder)
    if options.normalise:
        _normalise(folder)


class _GatheredRows:
    """The rows so far: their features in blocks of a file, their queries by name."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.blocks: list[tuple[int, int]] = []  # rows and columns
        self.grades: list[Floats] = []
        self.owners: list[Ints] = []
        self.lowest, self.width = 1, 0

    def add(self, rows: PartRows, file: IO[bytes]) -> None:
        n_rows, width = len(rows.features), max(1, min(rows.width, rows.features.shape[1]))
        numbers = [self.numbers.setdefault(name, len(self.numbers)) for name in rows.names]
        self.owners.append(np.repeat(np.array(numbers, np.int64), np.diff(rows.starts, append=n_rows)))
        self.grades.append(rows.grades.copy())
        self.blocks.append((n_rows, width))
        self.lowest, self.width = min(self.lowest, rows.lowest), max(self.width, width)
        file.write(np.ascontiguousarray(rows.features[:, :width]).data)


def _write_queries(gathered: _GatheredRows, order: Ints, zero_based: bool, folder: Path) -> None:
    names = list(gathered.numbers)
    sizes = np.bincount(np.concatenate(gathered.owners), minlength=len(names))
    _save(folder / "sizes.npy", sizes[order])
    (folder / "names.json").write_text(json.dumps([names[query] for query in order.tolist()]), encoding="utf-8")
    (folder / "layout.json").write_text(json.dumps({"zero_based": zero_based}), encoding="utf-8")


def _write_rows(gathered: _GatheredRows, order: Ints, unsorted: IO[bytes], zero_based: bool, folder: Path) -> None:
    """Write every row to the place of its query; rows of one query keep the order of the part."""
    owners, first = np.concatenate(gathered.owners), 0 if zero_based else 1
    position_of_query = np.empty(len(order), np.int64)
    position_of_query[order] = np.arange(len(order))
    target = np.empty(len(owners), np.int64)
    target[np.argsort(position_of_query[owners], kind="stable")] = np.arange(len(owners))
    grades = np.empty(len(owners))
    grades[target] = np.concatenate(gathered.grades)
    _save(folder / "grades.npy", grades)
    width = max(1, gathered.width - first)
    features = np.lib.format.open_memmap(
        folder / "features.npy", mode="w+", dtype=np.float64, shape=(len(owners), width)
    )
    if hasattr(os, "posix_fallocate"):  # a full disk is an error here; later it would end the process
        with (folder / "features.npy").open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, features.offset + features.nbytes)
    unsorted.seek(0)
    row = 0
    for n_rows, n_columns in gathered.blocks:
        block = np.frombuffer(unsorted.read(n_rows * n_columns * 8)).reshape(n_rows, n_columns)
        used = block[:, first : first + width]
        features[target[row : row + n_rows], : used.shape[1]] = used
        row += n_rows
    features.flush()


def _normalise(folder: Path) -> None:
    sizes = np.load(folder / "sizes.npy")
    ends = np.cumsum(sizes)
    features = np.load(folder / "features.npy", mmap_mode="r+")
    for first, end in zip((ends - sizes).tolist(), ends.tolist()):
        query = Dataset(np.array(features[first:end]), np.empty(end - first), np.array([0, end - first]), ("",))
        features[first:end] = normalise_queries(query).features
    features.flush()


def _save(path: Path, array: Any) -> None:
    with path.open("wb") as file:
        np.save(file, array)
        file.flush()
        os.fsync(file.fileno())

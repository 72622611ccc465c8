"""A part as columns on disk: parsed once, then read at the speed of the disk at every pass.

A folder of `.npy` files: the features of all rows, their grades, and of each query its hash, its size and its name.
Queries stand by hash, so that a fold, which is a range of hashes, is one stretch of each file; or as in the part.
"""

import errno
import json
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
from rankloop.core.types import Floats, Ints, finite_floats
from rankloop.data.compression import opened
from rankloop.data.dataset import Dataset, normalise_queries
from rankloop.data.letor.file import Layout, Namer, pieces
from rankloop.data.parts.column_file import ColumnFile
from rankloop.data.parts.source import PartSource, scratch_folder

VERSION = 1  # of what is written
END_OF_NAME = "\0"  # behind it stands which list of the query it is
UNREADABLE = (OSError, ValueError, TypeError, KeyError, EOFError)
QUERY_COLUMNS = ("query", "query_id", "qid")
GRADE_COLUMNS = ("relevance", "grade", "label", "rating")
Hashes = NDArray[np.uint64]
Room = Callable[[int], Floats]  # memory for so many numbers, used again for the next ones


class PartRows(NamedTuple):
    """Consecutive rows; another query begins at each of `starts`. Valid until the next ones are asked for.

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
    """Of a LETOR file, packed or not; queries without a name are numbered, under the name of the file."""
    namer = Namer(path, None)
    for rows in pieces(path, Layout()):
        owner = namer.number(rows)
        starts = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
        prefix = "" if namer.are_named else f"{path.name}:"
        names = [prefix + namer.names(number, number + 1)[0] for number in owner[starts].tolist()]
        yield PartRows(rows.features, rows.grades, starts, names, min(1, rows.lowest), rows.highest + 1)
    namer.finish()


def graded_rows(path: Path) -> Iterator[PartRows]:
    """Of a CSV or Parquet table with a column for the query, one for the grade, and features in the others."""
    import pyarrow as pa

    try:
        with opened(path) as file:
            yield from _table_rows(path, file)
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"{path.name} is cut short or damaged: {' '.join(str(error).split())}") from None


def _table_rows(path: Path, file: Any) -> Iterator[PartRows]:
    import pyarrow.parquet
    from pyarrow import csv

    batches: Iterator[Any]
    if path.suffix in (".parquet", ".pq"):
        table = pyarrow.parquet.ParquetFile(path)
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
    found = next((name for name in usual if name in names), None)
    if found is None:
        needed = f"{where} needs a column {' or '.join(usual)}; it has {', '.join(names)}"
        raise InvalidInput(f"{needed} (a log of clicks is given with --log)")
    return found


def _numbers(where: str, batch: Any, name: str) -> Floats:
    column = batch.column(name)
    try:
        return finite_floats(column.to_numpy(zero_copy_only=False), 1, f"{where}, column {name!r}")
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{where}, column {name!r}: features and grades are finite numbers: {error}") from None


class PartOptions(NamedTuple):
    """How a part is read."""

    read: Read
    by_hash: bool = True
    zero_based: bool | None = None  # None: by whether an index 0 occurs in the part
    normalise: bool = False

    @property
    def key(self) -> str:
        is_function = hasattr(self.read, "__qualname__")  # else something with settings, which its text shows
        read = f"{self.read.__module__}.{self.read.__qualname__}" if is_function else repr(self.read)
        return repr((VERSION, read, *self[1:]))


class Summary(NamedTuple):
    """What the driver knows of a part: its queries by hash and size, and how wide its rows are."""

    source: PartSource
    n_features: int
    zero_based: bool
    hashes: Hashes  # of the queries' names, in the order of the copy
    sizes: Ints


def hash_of(name: str) -> int:
    """The same on every machine, in every process; lists of one query, told apart behind END_OF_NAME, have the same."""
    return xxhash.xxh3_64_intdigest(name.partition(END_OF_NAME)[0].encode("utf-8", "surrogatepass"))


class ColumnCopy:
    """The columns of one part on this machine; made when they are first needed."""

    def __init__(self, source: PartSource, options: PartOptions) -> None:
        self.source, self.options = source, options
        key = xxhash.xxh3_128_hexdigest(f"{options.key} {source.fingerprint()}".encode())
        self.folder = scratch_folder() / key
        try:
            self._open()
        except UNREADABLE:
            shutil.rmtree(self.folder, ignore_errors=True)
            _make(source, options, self.folder)
            self._open()

    def summary(self) -> Summary:
        hashes, sizes = np.load(self.folder / "hashes.npy"), np.load(self.folder / "sizes.npy")
        return Summary(self.source, self.n_features, self.zero_based, hashes, sizes)

    def name_of(self, query: int) -> str:
        """The name of a query, by its number in the copy."""
        names: str = json.loads((self.folder / "names.json").read_text(encoding="utf-8"))[query]
        return names

    def read_rows(self, first: int, end: int, features: Floats, grades: Floats) -> None:
        """Rows from `first` to `end` into arrays that are there; narrower rows leave the last columns as they are."""
        grades[:] = self._grades[first:end]
        if features.shape[1] == self.n_features:
            self._read(features, self.position_of(first))
            return
        narrow = np.empty((end - first, self.n_features))
        self._read(narrow, self.position_of(first))
        features[:, : self.n_features] = narrow
        features[:, self.n_features :] = 0.0

    def position_of(self, row: int) -> int:
        """Where a row begins in the file of the features."""
        return int(self._features_at + row * self.n_features * 8)

    def _open(self) -> None:
        features = np.load(self.folder / "features.npy", mmap_mode="r")
        self._features_at, (self.n_rows, self.n_features) = features.offset, features.shape
        self._grades = np.load(self.folder / "grades.npy", mmap_mode="r")
        self.zero_based = bool(json.loads((self.folder / "layout.json").read_text())["zero_based"])
        if len(self._grades) != self.n_rows or not (self.folder / "names.json").exists():
            raise ValueError("the copy is not whole")
        self._file = ColumnFile(self.folder / "features.npy")

    def _read(self, rows: Floats, position: int) -> None:
        if not self._file.read(rows, position):
            raise InvalidInput(f"the copy of {self.source.name} in {str(self.folder)!r} is cut short: delete it")


def _make(source: PartSource, options: PartOptions, folder: Path) -> None:
    """Parse the part and rename the finished columns into place; whoever is first wins."""
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-"))
    try:
        with source.local() as path:
            _write(path, source, options, unfinished)
        if not folder.exists():
            os.rename(unfinished, folder)
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            return  # another worker of this machine was first
        what = "no room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else str(error)
        raise InvalidInput(
            f"{source.name} cannot be kept in {str(folder.parent)!r}: {what}; set RANKLOOP_CACHE to a folder on a disk "
            "with as much room as the numbers of all parts take"
        ) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write(path: Path, source: PartSource, options: PartOptions, folder: Path) -> None:
    with tempfile.TemporaryFile(dir=folder) as unsorted:
        seen = _Seen()
        for rows in options.read(path):
            seen.add(rows, unsorted)
        if not seen.numbers:
            raise InvalidInput(f"{source.name} has no rows")
        zero_based = seen.lowest == 0 if options.zero_based is None else options.zero_based
        hashes = np.array([hash_of(name) for name in seen.numbers], np.uint64)
        order = np.argsort(hashes, kind="stable") if options.by_hash else np.arange(len(hashes))
        _save(folder / "hashes.npy", hashes[order])
        _write_queries(seen, order, zero_based, folder)
        _write_rows(seen, order, unsorted, zero_based, folder)
    if options.normalise:
        _normalise(folder)


class _Seen:
    """The rows so far: those in the file by blocks, the queries by name."""

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


def _write_queries(seen: _Seen, order: Ints, zero_based: bool, folder: Path) -> None:
    names = list(seen.numbers)
    sizes = np.bincount(np.concatenate(seen.owners), minlength=len(names))
    _save(folder / "sizes.npy", sizes[order])
    (folder / "names.json").write_text(json.dumps([names[query] for query in order.tolist()]), encoding="utf-8")
    (folder / "layout.json").write_text(json.dumps({"zero_based": zero_based}), encoding="utf-8")


def _write_rows(seen: _Seen, order: Ints, unsorted: IO[bytes], zero_based: bool, folder: Path) -> None:
    """Every row to where its query is kept, rows of one query in the order of the part."""
    owners, first = np.concatenate(seen.owners), 0 if zero_based else 1
    position_of_query = np.empty(len(order), np.int64)
    position_of_query[order] = np.arange(len(order))
    target = np.empty(len(owners), np.int64)
    target[np.argsort(position_of_query[owners], kind="stable")] = np.arange(len(owners))
    grades = np.empty(len(owners))
    grades[target] = np.concatenate(seen.grades)
    _save(folder / "grades.npy", grades)
    width = max(1, seen.width - first)
    header = np.lib.format.open_memmap(folder / "features.npy", mode="w+", dtype=np.float64, shape=(len(owners), width))
    offset = header.offset
    del header
    unsorted.seek(0)
    with (folder / "features.npy").open("r+b", buffering=0) as file:
        row = 0
        for n_rows, n_columns in seen.blocks:
            block = np.frombuffer(unsorted.read(n_rows * n_columns * 8)).reshape(n_rows, n_columns)
            rows = np.zeros((n_rows, width))
            used = block[:, first : first + width]
            rows[:, : used.shape[1]] = used
            _scatter(file, offset, rows, target[row : row + len(rows)])
            row += n_rows
        os.fsync(file.fileno())


def _scatter(file: IO[bytes], offset: int, rows: Floats, target: Ints) -> None:
    """Each run of rows that stay together in one piece."""
    starts = np.flatnonzero(np.append(True, np.diff(target) != 1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)]):
        position, room = offset + int(target[start]) * rows.shape[1] * 8, rows[start:end].data.cast("B")
        while len(room):
            written = os.pwrite(file.fileno(), room, position)
            position, room = position + written, room[written:]


def _normalise(folder: Path) -> None:
    sizes = np.load(folder / "sizes.npy")
    ends = np.cumsum(sizes)
    features = np.load(folder / "features.npy", mmap_mode="r+")
    for first, end in zip((ends - sizes).tolist(), ends.tolist()):
        one = Dataset(np.array(features[first:end]), np.empty(end - first), np.array([0, end - first]), ("",))
        features[first:end] = normalise_queries(one).features
    features.flush()


def _save(path: Path, array: Any) -> None:
    with path.open("wb") as file:
        np.save(file, array)
        file.flush()
        os.fsync(file.fileno())

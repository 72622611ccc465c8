"""A backup: one file with the log of a service as it was at one moment, whatever it is kept in.

It is a zip of Parquet tables, the files of the archive and a table of contents with the hash of each, which comes last.
"""

import hashlib
import json
import os
import sqlite3
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from rankloop import __version__
from rankloop.core.errors import Conflict, InvalidInput, NotFound
from rankloop.service.errors import DamagedArchive, Unavailable
from rankloop.service.log.archive import FOLDER, check_file
from rankloop.service.records import ArchiveFile
from rankloop.service.stores.open import POSTGRES, sqlite_file
from rankloop.service.stores.sqlite import FILE

FORMAT, VERSION = "rankloop-backup", 1
CONTENTS = "contents.json"
PIECE = 1_000_000  # bytes
TRIES = 3  # while files of the archive are being replaced
ROWS, ROW_BYTES = 2_000, 16_000_000  # that are read, and written, at a time
COLUMNS = {  # by table: names of columns and their types, w: whole number, r: real number, t: text, b: bytes
    "events": "seq w, stream t, at r, impression t, body b, kind t",
    "snapshots": "stream t, number w, at r, state_seq w, session b, view b, unfit w, oldest_open w",
    "archive": "stream t, name t, first_seq w, last_seq w, events w, digest t",
}
_TYPES = {"w": pa.int64(), "r": pa.float64(), "t": pa.string(), "b": pa.binary()}
TABLES: Mapping[str, pa.Schema] = {
    table: pa.schema([(name, _TYPES[kind]) for name, kind in map(str.split, columns.split(", "))])
    for table, columns in COLUMNS.items()
}
ORDER = {"events": "seq", "snapshots": "stream, number", "archive": "stream, name"}
TableRows = list[Sequence[Any]]


class Contents(NamedTuple):
    """What a backup holds, as its last part says."""

    version: int
    rankloop: str
    made: float
    store: str
    log_version: int
    last: int  # event
    rows: dict[str, int]  # by table
    parts: dict[str, str]  # SHA-256 by the name of the part

    @property
    def n_files(self) -> int:
        return sum(name.startswith(f"{FOLDER}/") for name in self.parts)


class Moment(NamedTuple):
    """A log as it was when somebody looked."""

    kind: str  # sqlite or postgresql
    version: int  # of its tables
    tables: Mapping[str, Iterator[TableRows]]  # in pieces
    files: list[tuple[str, ArchiveFile]]  # of the archive, with their entities
    last: int  # event
    folder: Path  # where the archive is looked for, unless somebody says otherwise


def back_up(where: str, file: Path, data: Path | None = None) -> Contents:
    """Write the log at `where` as it is now, with its archive, to a file that is not there yet."""
    if file.exists():
        raise Conflict(f"{file} is there already; give the backup a name of its own")
    file.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(TRIES):
        try:
            with moment_of(where, file.parent) as moment, _new_file(file) as written:
                return _write(moment, data or moment.folder, written)
        except DamagedArchive:
            if attempt == TRIES - 1:
                raise
    raise AssertionError("unreachable")


@contextmanager
def _new_file(file: Path) -> Iterator[Path]:
    """A neighbour that takes the name once it is whole and durable; nobody else can read it."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as whole:
            os.fsync(whole.fileno())
        os.link(temporary, file)  # unlike a renaming, this fails where somebody was quicker
    except FileExistsError:
        raise Conflict(f"{file} is there already; give the backup a name of its own") from None
    finally:
        temporary.unlink(missing_ok=True)


def _write(moment: Moment, data: Path, file: Path) -> Contents:
    rows: dict[str, int] = {}
    parts: dict[str, str] = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, pieces in moment.tables.items():
            part = f"{name}.parquet"
            with _BackupPart(archive, part) as sink:
                rows[name] = _write_table(sink, name, pieces)
            parts[part] = sink.digest
        for entity, kept in moment.files:
            check_file(data, kept, entity)
            part = f"{FOLDER}/{kept.name}"
            with _BackupPart(archive, part) as sink, (data / FOLDER / kept.name).open("rb") as source:
                while piece := source.read(PIECE):
                    sink.write(piece)
            parts[part] = sink.digest
        contents = Contents(
            version=VERSION,
            rankloop=__version__,
            made=time.time(),
            store=moment.kind,
            log_version=moment.version,
            last=moment.last,
            rows=rows,
            parts=parts,
        )
        archive.writestr(CONTENTS, json.dumps({"format": FORMAT} | contents._asdict(), indent=1))
    return contents


def _write_table(sink: "_BackupPart", name: str, pieces: Iterator[TableRows]) -> int:
    count, schema = 0, TABLES[name]
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for piece in pieces:
            columns = [pa.array(column, field.type) for column, field in zip(zip(*piece), schema)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            count += len(piece)
    return count


class _BackupPart:
    """One part of the zip, written from beginning to end; its hash is known afterwards."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._file = archive.open(name, "w", force_zip64=True)
        self._hash = hashlib.sha256()
        self._size = 0
        self.closed = False

    def __enter__(self) -> "_BackupPart":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def write(self, piece: Any) -> int:
        content = bytes(piece)
        self._hash.update(content)
        self._size += len(content)
        self._file.write(content)
        return len(content)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """There is nothing to be flushed before the end."""

    def close(self) -> None:
        """By the part itself."""


class Backup:
    """A backup that is read: everything in it is checked before anything is used."""

    def __init__(self, archive: zipfile.ZipFile, contents: Contents) -> None:
        self._archive = archive
        self.contents = contents

    def pieces(self, name: str) -> Iterator[TableRows]:
        """The rows of a table, in pieces."""
        with self._archive.open(f"{name}.parquet") as part, pq.ParquetFile(part) as table:
            for batch in table.iter_batches(1000):
                yield list(zip(*(column.to_pylist() for column in batch.columns)))

    @contextmanager
    def put_files(self, data: Path) -> Iterator[None]:
        """Write the files of the archive, durably; they go again where what is done with them fails."""
        names = [part for part in self.contents.parts if part.startswith(f"{FOLDER}/")]
        targets = [data / FOLDER / Path(name).name for name in names]
        try:
            for name, target in zip(names, targets):
                target.parent.mkdir(parents=True, exist_ok=True)
                with self._archive.open(name) as part, target.open("xb") as file:
                    while piece := part.read(PIECE):
                        file.write(piece)
                    file.flush()
                    os.fsync(file.fileno())
            yield
        except BaseException:
            for target in targets:
                target.unlink(missing_ok=True)
            raise


@contextmanager
def opened_backup(file: Path) -> Iterator[Backup]:
    """A backup, once its version is known and every part has the hash that its contents say."""
    if not file.is_file():
        raise NotFound(f"there is no backup {str(file)!r}")
    try:
        with zipfile.ZipFile(file) as archive:
            contents = _contents(archive, file)
            _check_parts(archive, contents, file)
            yield Backup(archive, contents)
    except zipfile.BadZipFile as error:
        raise InvalidInput(f"{file} is not a whole backup of rankloop: {error}") from None


def _contents(archive: zipfile.ZipFile, file: Path) -> Contents:
    try:
        found = json.loads(archive.read(CONTENTS))
        is_backup = found.pop("format") == FORMAT
        version = int(found["version"])
    except (KeyError, TypeError, ValueError, AttributeError):
        is_backup, version, found = False, 0, {}
    if not is_backup:
        raise InvalidInput(f"{file} is not a backup of rankloop")
    if version > VERSION:
        by = f"made by rankloop {found.get('rankloop')}"
        raise InvalidInput(f"{file} is of format {version}, {by}; this rankloop reads formats up to {VERSION}")
    try:
        return Contents(**found)
    except TypeError as error:
        raise InvalidInput(f"{file} is not a whole backup of rankloop: {error}") from None


def _check_parts(archive: zipfile.ZipFile, contents: Contents, file: Path) -> None:
    if sorted(archive.namelist()) != sorted([CONTENTS, *contents.parts]):
        raise InvalidInput(f"{file} does not hold the parts that it names")
    for name, expected in contents.parts.items():
        if _digest_in(archive, name) != expected:
            raise InvalidInput(f"{file} is damaged: {name} is not what was written; use another backup")


def _digest_in(archive: zipfile.ZipFile, name: str) -> str:
    found = hashlib.sha256()
    with archive.open(name) as part:
        while piece := part.read(PIECE):
            found.update(piece)
    return found.hexdigest()


@contextmanager
def moment_of(where: str, room: Path) -> Iterator[Moment]:
    """The log at an address of PostgreSQL, in a file, or in the folder of a service, as it is now.

    In the folder `room` there is room for a copy.
    """
    if where.startswith(POSTGRES):
        with _of_postgres(where) as moment:
            yield moment
        return
    file = sqlite_file(where)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=".rankloop-backup-", dir=room))
        yield _of_sqlite(file, stack.enter_context(closing(sqlite3.connect(Path(folder) / FILE))))


def _of_sqlite(file: Path, copy: sqlite3.Connection) -> Moment:
    """A copy by SQLite's own backup: one reading of all pages, beside whoever writes."""
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as source:
            source.backup(copy)
        (version,) = copy.execute("PRAGMA user_version").fetchone()
        (last,) = copy.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
        files = copy.execute(_select("archive")).fetchall()
        tables = {name: _pieces(copy.execute(_select(name))) for name in TABLES}
    except sqlite3.Error as error:
        raise InvalidInput(f"{file} cannot be read as the log of a rankloop service: {error}") from None
    return Moment("sqlite", version, tables, _files(files), last, file.parent)


def _files(rows: Iterable[Sequence[Any]]) -> list[tuple[str, ArchiveFile]]:
    return [(row[0], ArchiveFile._make(row[1:])) for row in rows]


@contextmanager
def _of_postgres(address: str) -> Iterator[Moment]:
    """All tables in one transaction that sees them as they were at its beginning."""
    import psycopg  # only here: its driver is not needed otherwise
    from psycopg import IsolationLevel

    try:
        with psycopg.connect(address, connect_timeout=5) as connection:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            version = _only(connection, "SELECT max(version) FROM rankloop_version")
            last = _only(connection, "SELECT coalesce(max(seq), 0) FROM rankloop_events")
            files = connection.execute(_select("archive", "rankloop_")).fetchall()
            tables = {name: _later(connection, name) for name in TABLES}
            yield Moment("postgresql", version, tables, _files(files), last, Path("rankloop-data"))
    except psycopg.errors.UndefinedTable:
        raise InvalidInput("this PostgreSQL database is not the log of a rankloop service") from None
    except psycopg.Error as error:
        raise Unavailable(f"this PostgreSQL cannot be read: {error}") from None


def _later(connection: Any, name: str) -> Iterator[TableRows]:
    """A table, asked for when it is its turn."""
    with closing(connection.cursor(f"backup_{name}")) as cursor:
        cursor.execute(_select(name, "rankloop_"))
        yield from _pieces(cursor)


def _only(connection: Any, query: str) -> Any:
    return connection.execute(query).fetchone()[0]


def _select(name: str, prefix: str = "") -> str:
    return f"SELECT {', '.join(TABLES[name].names)} FROM {prefix}{name} ORDER BY {ORDER[name]}"


def _pieces(cursor: Any) -> Iterator[TableRows]:
    """Rows, so many at a time that neither their number nor their size is large."""
    piece, size = TableRows(), 0
    while rows := cursor.fetchmany(100):
        piece += rows
        size += sum(len(value) for row in rows for value in row if isinstance(value, bytes))
        if len(piece) >= ROWS or size >= ROW_BYTES:
            yield piece
            piece, size = TableRows(), 0
    if piece:
        yield piece

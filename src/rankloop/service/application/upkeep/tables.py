"""The tables of a log, as they stood at one moment: from SQLite or PostgreSQL, though a service may be running."""

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rankloop.core.errors import InvalidInput
from rankloop.service.errors import Unavailable
from rankloop.service.records import ArchiveFile
from rankloop.service.stores.open import POSTGRES, sqlite_file
from rankloop.service.stores.sqlite import FILE

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


class Moment(NamedTuple):
    """A log as it was when somebody looked."""

    kind: str  # sqlite or postgresql
    version: int  # of its tables
    tables: Mapping[str, Iterator[TableRows]]  # in pieces
    files: list[tuple[str, ArchiveFile]]  # of the archive, with their entities
    last: int  # event
    folder: Path  # where the archive is looked for, unless somebody says otherwise


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
    return [(row[0], ArchiveFile(*row[1:])) for row in rows]


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

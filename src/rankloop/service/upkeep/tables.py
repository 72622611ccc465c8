"""The tables of a log, as they stood at one moment: from SQLite or PostgreSQL, though a service may be running."""

import sqlite3
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rankloop.core.errors import InvalidInput
from rankloop.service.errors import Unavailable
from rankloop.service.log.events import ArchiveFile
from rankloop.service.log.stores.open import POSTGRES, sqlite_file
from rankloop.service.log.stores.sqlite import FILE

ROWS, ROW_BYTES = 2_000, 16_000_000  # that are read, and written, at a time
TABLES: Mapping[str, pa.Schema] = {
    "events": pa.schema(
        [
            ("seq", pa.int64()),
            ("stream", pa.string()),
            ("at", pa.float64()),
            ("impression", pa.string()),
            ("body", pa.binary()),
            ("kind", pa.string()),
        ]
    ),
    "snapshots": pa.schema(
        [
            ("stream", pa.string()),
            ("number", pa.int64()),
            ("at", pa.float64()),
            ("state_seq", pa.int64()),
            ("session", pa.binary()),
            ("view", pa.binary()),
            ("unfit", pa.int64()),
            ("oldest_open", pa.int64()),
        ]
    ),
    "archive": pa.schema(
        [
            ("stream", pa.string()),
            ("name", pa.string()),
            ("first_seq", pa.int64()),
            ("last_seq", pa.int64()),
            ("events", pa.int64()),
            ("digest", pa.string()),
        ]
    ),
}
ORDER = {"events": "seq", "snapshots": "stream, number", "archive": "stream, name"}
Rows = list[Sequence[Any]]


class Moment(NamedTuple):
    """A log as it was when somebody looked."""

    kind: str  # sqlite or postgresql
    version: int  # of its tables
    tables: Mapping[str, Iterator[Rows]]  # those that this version has, in pieces
    files: list[tuple[str, ArchiveFile]]  # of the archive, with their entities
    last: int  # event
    settled_after: int  # events up to here were written by 0.1
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
        known = {name for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error as error:
        raise InvalidInput(f"{file} cannot be read as the log of a rankloop service: {error}") from None
    if not version or "events" not in known:
        raise InvalidInput(f"{file} is not the log of a rankloop service")
    (last,) = copy.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
    settled = copy.execute("SELECT after FROM settled").fetchone() if "settled" in known else (last,)
    found = copy.execute(_select("archive")).fetchall() if "archive" in known else []
    columns = {name: {row[1] for row in copy.execute(f"PRAGMA table_info({name})")} for name in TABLES}
    tables = {name: _pieces(copy.execute(_select(name, "", columns[name]))) for name in TABLES if name in known}
    return Moment("sqlite", version, tables, _files(found), last, settled[0], file.parent)


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
            there = "SELECT to_regclass(%s) IS NOT NULL"
            known = [name for name in TABLES if _only(connection, there, [f"rankloop_{name}"])]
            found = connection.execute(_select("archive", "rankloop_")).fetchall() if "archive" in known else []
            settled = last
            if _only(connection, there, ["rankloop_order"]):
                settled = _only(connection, "SELECT settled_after FROM rankloop_order")
            tables = {name: _later(connection, name) for name in known}
            yield Moment("postgresql", version, tables, _files(found), last, settled, Path("rankloop-data"))
    except psycopg.errors.UndefinedTable:
        raise InvalidInput("this PostgreSQL database is not the log of a rankloop service") from None
    except psycopg.Error as error:
        raise Unavailable(f"this PostgreSQL cannot be read: {error}") from None


def _later(connection: Any, name: str) -> Iterator[Rows]:
    """A table, asked for when it is its turn."""
    described = connection.execute(f"SELECT * FROM rankloop_{name} LIMIT 0").description
    with closing(connection.cursor(f"backup_{name}")) as cursor:
        cursor.execute(_select(name, "rankloop_", {column.name for column in described}))
        yield from _pieces(cursor)


def _only(connection: Any, query: str, values: Sequence[Any] = ()) -> Any:
    row = connection.execute(query, values).fetchone()
    return row[0]


def _select(name: str, prefix: str = "", known: Collection[str] | None = None) -> str:
    """All columns, NULL for those that an earlier version has not."""
    columns = [column if known is None or column in known else f"NULL AS {column}" for column in TABLES[name].names]
    return f"SELECT {', '.join(columns)} FROM {prefix}{name} ORDER BY {ORDER[name]}"


def _pieces(cursor: Any) -> Iterator[Rows]:
    """Rows, so many at a time that neither their number nor their size is large."""
    piece, size = Rows(), 0
    while rows := cursor.fetchmany(100):
        piece += rows
        size += sum(len(value) for row in rows for value in row if isinstance(value, bytes))
        if len(piece) >= ROWS or size >= ROW_BYTES:
            yield piece
            piece, size = Rows(), 0
    if piece:
        yield piece

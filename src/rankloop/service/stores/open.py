"""Opening a log, in SQLite or PostgreSQL: to write, by the settings; to read only, though a service may be running."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.service.errors import Unavailable
from rankloop.service.settings import Settings
from rankloop.service.stores.base import ReadableLog, Store
from rankloop.service.stores.sqlite import FILE, SqliteStore


def open_store(settings: Settings) -> Store:
    """SQLite in the data folder, unless the settings name a PostgreSQL server."""
    if not settings.store:
        return SqliteStore(settings.data / FILE)
    if not settings.store.startswith(POSTGRES):
        raise InvalidInput("RANKLOOP_STORE must be of the form postgresql://user:password@host/database")
    from rankloop.service.stores.postgres import PostgresStore  # only here: its driver is not needed otherwise

    return PostgresStore(settings.store, partitions=settings.partitions)


POSTGRES = ("postgresql://", "postgres://")


def sqlite_file(where: str) -> Path:
    """The file of a log that is in it, or in the folder of a service."""
    path = Path(where)
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise NotFound(f"there is no log {str(file)!r}")
    return file


class Log(ReadableLog):
    """A log, and the folder in which its archive is looked for."""

    folder = Path("rankloop-data")  # where `rankloop serve` keeps it


@contextmanager
def log_at(where: str) -> Iterator[Log]:
    """The log at an address of PostgreSQL, in a file, or in the folder of a service."""
    if where.startswith(POSTGRES):
        with _postgres(where) as log:
            yield log
        return
    file = sqlite_file(where)
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        yield _SqliteLog(file, connection)


class _SqliteLog(Log):
    def __init__(self, file: Path, connection: sqlite3.Connection) -> None:
        self._file, self._connection = file, connection
        self.folder = file.parent

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            return self._connection.execute(query, tuple(values)).fetchall()
        except sqlite3.DatabaseError as error:
            raise InvalidInput(f"{self._file} is not the log of a rankloop service: {error}") from None


@contextmanager
def _postgres(address: str) -> Iterator[Log]:
    import psycopg  # only here: its driver is not needed otherwise

    from rankloop.service.stores.postgres import LOOK
    from rankloop.service.stores.postgres_tables import PREFIX

    class PostgresLog(Log):
        prefix, mark = PREFIX, "%s"

        def last(self) -> int:
            ((horizon, _, newest),) = self.rows(LOOK)
            return int(min(horizon, newest))

        def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
            return connection.execute(query, values).fetchall()

    try:
        with psycopg.connect(address, autocommit=True, connect_timeout=5) as connection:
            yield PostgresLog()
    except psycopg.errors.UndefinedTable:
        raise InvalidInput("this PostgreSQL database is not the log of a rankloop service") from None
    except psycopg.Error as error:
        raise Unavailable(f"this PostgreSQL cannot be read: {error}") from None

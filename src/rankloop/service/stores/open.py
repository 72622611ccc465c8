"""Open a log in SQLite or PostgreSQL: to write, by the settings, or to read only, though a service may be running."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.service.errors import Unavailable
from rankloop.service.settings import Settings
from rankloop.service.stores.base import ReadableLog, Store
from rankloop.service.stores.sqlite import FILE_NAME, SqliteStore

POSTGRES_SCHEMES = ("postgresql://", "postgres://")


def open_store(settings: Settings) -> Store:
    """Open the store of a service: SQLite in the data folder, unless the settings name a PostgreSQL server."""
    if not settings.store:
        return SqliteStore(settings.data / FILE_NAME)
    if not settings.store.startswith(POSTGRES_SCHEMES):
        raise InvalidInput("RANKLOOP_STORE must be of the form postgresql://user:password@host/database")
    from rankloop.service.stores.postgres import PostgresStore  # only here: its driver is not needed otherwise

    return PostgresStore(settings.store)


class ReadOnlyLog(ReadableLog):
    """A log that is only read; `mark` is the placeholder for a value in a query of its database."""

    def __init__(self, connection: Any, mark: str = "?", version_query: str = "PRAGMA user_version") -> None:
        self.connection, self._mark, self._version_query = connection, mark, version_query

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query; `log_at` translates errors."""
        return list(self.connection.execute(query.replace("?", self._mark), tuple(values)).fetchall())

    def version(self) -> int:
        """Return the number of migrations that the log has been through."""
        self.rows("SELECT 1 FROM rankloop_events LIMIT 1")
        return int(self.rows(self._version_query)[0][0])


@contextmanager
def log_at(where: str) -> Iterator[ReadOnlyLog]:
    """Open a log to read it: at an address of PostgreSQL, in a file, or in the folder of a service."""
    if where.startswith(POSTGRES_SCHEMES):
        with _postgres_log(where) as log:
            yield log
        return
    path = Path(where)
    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        raise NotFound(f"there is no log {str(file)!r}")
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            yield ReadOnlyLog(connection)
    except sqlite3.DatabaseError as error:
        raise InvalidInput(f"{file} is not the log of a rankloop service: {error}") from None


@contextmanager
def _postgres_log(address: str) -> Iterator[ReadOnlyLog]:
    import psycopg  # only here: its driver is not needed otherwise

    from rankloop.service.stores.postgres import SELECT_LAST

    try:
        with psycopg.connect(address, autocommit=True, connect_timeout=5) as connection:
            log = ReadOnlyLog(connection, "%s", "SELECT max(version) FROM rankloop_version")
            log.last_query = SELECT_LAST
            yield log
    except psycopg.errors.UndefinedTable:
        raise InvalidInput("this PostgreSQL database is not the log of a rankloop service") from None
    except psycopg.Error as error:
        raise Unavailable(f"this PostgreSQL cannot be read: {error}") from None

"""Migration: which version a log is of, and how it becomes that of this rankloop."""

import sqlite3
from contextlib import closing
from typing import NamedTuple

from rankloop.core.errors import Conflict, InvalidInput
from rankloop.service.errors import Unavailable
from rankloop.service.settings import Settings
from rankloop.service.stores.open import POSTGRES, open_store, sqlite_file
from rankloop.service.stores.sqlite import FILE, MIGRATIONS


class LogVersion(NamedTuple):
    """The version of a log, and the one that this rankloop writes."""

    found: int
    current: int

    def __str__(self) -> str:
        return f"version {self.found}; this rankloop writes version {self.current}"


def version_of(where: str) -> LogVersion:
    """The version of a log, which is not changed; one that is newer than this rankloop is refused."""
    version = _of_postgres(where) if where.startswith(POSTGRES) else _of_sqlite(where)
    if version.found > version.current:
        raise Conflict(f"the log is of {version}: use the rankloop that wrote it, or a newer one")
    return version


def bring_up_to_date(where: str) -> LogVersion:
    """Take the steps that are missing; return the version that it was of before."""
    before = version_of(where)
    if where.startswith(POSTGRES):
        settings = Settings(store=where)
    else:
        file = sqlite_file(where)
        settings = Settings(data=file.parent)
        if file.name != FILE:
            raise InvalidInput(f"a service reads {file.parent / FILE}; {where} is another file")
    open_store(settings).close()
    return before


def _of_sqlite(where: str) -> LogVersion:
    file = sqlite_file(where)
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            connection.execute("SELECT 1 FROM events LIMIT 1")
    except sqlite3.DatabaseError as error:
        raise InvalidInput(f"{file} is not the log of a rankloop service: {error}") from None
    return LogVersion(version, len(MIGRATIONS))


def _of_postgres(address: str) -> LogVersion:
    import psycopg  # only here: its driver is not needed otherwise

    from rankloop.service.stores.postgres_tables import MIGRATIONS as POSTGRES_MIGRATIONS

    try:
        with psycopg.connect(address, autocommit=True, connect_timeout=5) as connection:
            row = connection.execute("SELECT max(version) FROM rankloop_version").fetchone()
    except psycopg.errors.UndefinedTable:
        raise InvalidInput("this PostgreSQL database is not the log of a rankloop service") from None
    except psycopg.Error as error:
        raise Unavailable(f"this PostgreSQL cannot be read: {error}") from None
    return LogVersion(row[0] if row else 0, len(POSTGRES_MIGRATIONS))

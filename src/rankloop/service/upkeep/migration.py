"""Migration: which version a log is of, and how it becomes that of this rankloop."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from rankloop.core.errors import Conflict, InvalidInput, NotFound
from rankloop.service.errors import Unavailable
from rankloop.service.log.archive import tidy
from rankloop.service.log.stores.open import POSTGRES, open_store
from rankloop.service.log.stores.sqlite import FILE, MIGRATIONS
from rankloop.service.settings import Settings

FIRST_RELEASE = 2  # the version of the tables of 0.1


class LogVersion(NamedTuple):
    """The version of a log, and the one that this rankloop writes."""

    found: int
    current: int

    def __str__(self) -> str:
        by = " (that of rankloop 0.1)" if self.found == FIRST_RELEASE else ""
        return f"version {self.found}{by}; this rankloop writes version {self.current}"


def version_of(where: str) -> LogVersion:
    """The version of a log, which is not changed; one that is newer than this rankloop is refused."""
    version = _of_postgres(where) if where.startswith(POSTGRES) else _of_sqlite(where)
    if version.found > version.current:
        raise Conflict(f"the log is of {version}: use the rankloop that wrote it, or a newer one")
    return version


def bring_up_to_date(where: str, data: Path | None = None) -> LogVersion:
    """Take the steps that are missing, and list the files of the archive; the version that it was of before."""
    before = version_of(where)
    if where.startswith(POSTGRES):
        settings = Settings(store=where, data=data or Path("rankloop-data"))
    else:
        folder = _file(where).parent
        settings = Settings(data=data or folder)
        if _file(where) != folder / FILE:
            raise InvalidInput(f"a service reads {folder / FILE}; {where} is another file")
    with closing(open_store(settings)) as store:
        for entity in store.entities():
            tidy(store, entity, settings.data)
    return before


def _file(where: str) -> Path:
    path = Path(where)
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise NotFound(f"there is no log {str(file)!r}")
    return file


def _of_sqlite(where: str) -> LogVersion:
    file = _file(where)
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            connection.execute("SELECT 1 FROM events LIMIT 1")
    except sqlite3.DatabaseError as error:
        raise InvalidInput(f"{file} is not the log of a rankloop service: {error}") from None
    return LogVersion(version, len(MIGRATIONS))


def _of_postgres(address: str) -> LogVersion:
    import psycopg  # only here: its driver is not needed otherwise

    from rankloop.service.log.stores.postgres_tables import MIGRATIONS as POSTGRES_MIGRATIONS

    try:
        with psycopg.connect(address, autocommit=True, connect_timeout=5) as connection:
            row = connection.execute("SELECT max(version) FROM rankloop_version").fetchone()
    except psycopg.errors.UndefinedTable:
        raise InvalidInput("this PostgreSQL database is not the log of a rankloop service") from None
    except psycopg.Error as error:
        raise Unavailable(f"this PostgreSQL cannot be read: {error}") from None
    return LogVersion(row[0] if row else 0, len(POSTGRES_MIGRATIONS))

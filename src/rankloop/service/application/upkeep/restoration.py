"""A backup becomes the log of a service again: in an empty folder or an empty database, of either kind."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from rankloop.core.errors import Conflict
from rankloop.service.application.rebuild import ReplayResult, replay_log
from rankloop.service.application.upkeep.backup import TABLES, Backup, Contents, opened_backup
from rankloop.service.errors import DamagedArchive, Unavailable
from rankloop.service.log.archive import FOLDER
from rankloop.service.records import partition_of
from rankloop.service.stores.open import POSTGRES
from rankloop.service.stores.sqlite import FILE, connected, locked, migrate


def restore(file: Path, to: str, data: Path | None = None) -> Contents:
    """Put a backup into a place where there is nothing; either all of it is there afterwards, or nothing."""
    with opened_backup(file) as backup:
        if to.startswith(POSTGRES):
            folder = data or Path("rankloop-data")
            _check_empty(folder, FOLDER)
            _to_postgres(backup, to, folder)
        else:
            _check_empty(Path(to), FILE, FOLDER)
            _to_sqlite(backup, Path(to))
        return backup.contents


def check(to: str, data: Path | None = None) -> list[ReplayResult]:
    """Learn everything again, and compare with the snapshots that came with it."""
    results, damaged = replay_log(to, data)
    for reason in damaged.values():
        raise DamagedArchive(reason)
    return results


def _check_empty(folder: Path, *names: str) -> None:
    for path in (folder / name for name in names):
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise Conflict(f"{path} is there already: a backup is restored into an empty place")


def _to_sqlite(backup: Backup, folder: Path) -> None:
    """In a file that gets its name when it is whole."""
    building = folder / f".restoring-{FILE}"
    handle = locked(folder / FILE)
    try:
        _check_empty(folder, FILE)
        building.unlink(missing_ok=True)
        with closing(connected(building)) as connection:
            migrate(connection)
            connection.execute("BEGIN IMMEDIATE")
            for name in TABLES:
                for piece in backup.pieces(name):
                    columns = TABLES[name].names
                    values = ", ".join("?" * len(columns))
                    connection.executemany(f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({values})", piece)
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("PRAGMA journal_mode = DELETE")
        with backup.put_files(folder):
            os.replace(building, folder / FILE)
    except sqlite3.Error as error:
        raise Unavailable(f"{folder} cannot be written: {error}") from None
    finally:
        building.unlink(missing_ok=True)
        os.close(handle)


def _to_postgres(backup: Backup, address: str, folder: Path) -> None:
    """In one transaction, with the files of the archive around it."""
    import psycopg  # only here: its driver is not needed otherwise

    from rankloop.service.stores.postgres_tables import migrate as migrate_postgres

    try:
        with psycopg.connect(address, autocommit=True, connect_timeout=5) as connection:
            partitions = migrate_postgres(connection, None)
            with backup.put_files(folder), connection.transaction():
                connection.execute("LOCK TABLE rankloop_events IN ACCESS EXCLUSIVE MODE")
                if connection.execute("SELECT 1 FROM rankloop_events LIMIT 1").fetchone():
                    raise Conflict("this database has a log already: a backup is restored into an empty place")
                for name in TABLES:
                    _copy(connection, name, backup, partitions)
            migrate_postgres(connection, None)  # what comes next is counted on from what is there now
    except psycopg.Error as error:
        raise Unavailable(f"this PostgreSQL cannot be written: {error}") from None


def _copy(connection: Any, name: str, backup: Backup, partitions: int) -> None:
    columns = [*TABLES[name].names, *(["part"] if name == "events" else [])]
    with connection.cursor() as cursor, cursor.copy(f"COPY rankloop_{name} ({', '.join(columns)}) FROM STDIN") as copy:
        for piece in backup.pieces(name):
            for row in piece:
                part = [partition_of(row[1], partitions)] if name == "events" else []
                copy.write_row([*row, *part])

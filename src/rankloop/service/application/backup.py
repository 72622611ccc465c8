"""Backups: the log of a service as one SQLite file, which can be restored into SQLite or PostgreSQL.

A backup has the tables of a log, and a table `rankloop_backup` with a digest. So every command that reads a log reads a
backup too.
"""

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

import msgspec

from rankloop import __version__
from rankloop.core.errors import Conflict, InvalidInput, NotFound
from rankloop.service.errors import Unavailable
from rankloop.service.records import partition_of
from rankloop.service.settings import Settings
from rankloop.service.stores.base import COLUMNS, LOG_VERSION, MAX_SEQ, check_version
from rankloop.service.stores.open import POSTGRES_SCHEMES, ReadOnlyLog, log_at, open_store
from rankloop.service.stores.sqlite import FILE_NAME, acquire_file_lock, connect, migrate

PIECE_ROWS = 1_000  # rows that are read at a time
CREATE_SUMMARY = """CREATE TABLE rankloop_backup (rankloop TEXT, made REAL, last INTEGER, events INTEGER,
                                                  snapshots INTEGER, digest TEXT)"""


class BackupSummary(NamedTuple):
    """The contents of a backup, as it says itself."""

    rankloop: str  # the version that made it
    made: float  # in seconds since 1970
    last: int  # the number of the last event
    events: int
    snapshots: int
    digest: str  # SHA-256 of all rows


def back_up(where: str, file: Path) -> BackupSummary:
    """Write the log as it is now to a new file; the service may be running.

    Args:
      where: The folder or the file of a service, or its PostgreSQL address.
      file: The backup, which must not exist.
    """
    if file.exists():
        raise Conflict(f"{file} exists already; give the backup another name")
    file.parent.mkdir(parents=True, exist_ok=True)
    with log_at(where) as log, _new_file(file) as temporary:
        log.hold_view()
        return _write(log, temporary)


@contextmanager
def _new_file(file: Path) -> Iterator[Path]:
    """Give a temporary file the name of `file` once it is complete and durable; only its owner can read it."""
    with NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}.", suffix=".tmp") as temporary:
        yield Path(temporary.name)
        os.fsync(temporary.fileno())
        try:
            os.link(temporary.name, file)  # unlike a renaming, this fails where the file exists by now
        except FileExistsError:
            raise Conflict(f"{file} exists already; give the backup another name") from None


def _write(log: ReadOnlyLog, file: Path) -> BackupSummary:
    check_version(log.version())
    with _writable(file) as connection:
        migrate(connection)
        connection.execute("BEGIN")
        columns = ", ".join(COLUMNS["rankloop_events"])
        for page in log.pages(None, 0, MAX_SEQ, columns):
            _insert(connection, "rankloop_events", page)
        for entity in log.entities():
            for number, _, _ in log.snapshots(entity):
                where, names = "entity = ? AND number = ?", ", ".join(COLUMNS["rankloop_snapshots"])
                rows = log.rows(f"SELECT {names} FROM rankloop_snapshots WHERE {where}", [entity, number])
                _insert(connection, "rankloop_snapshots", rows)
        summary = _summary_of(connection, __version__, time.time())
        connection.execute(CREATE_SUMMARY)
        connection.execute("INSERT INTO rankloop_backup VALUES (?, ?, ?, ?, ?, ?)", summary)
        connection.execute("COMMIT")
    return summary


@contextmanager
def _writable(file: Path) -> Iterator[sqlite3.Connection]:
    """Open a SQLite file that nobody else uses; it is one file without a write-ahead file afterwards."""
    try:
        with closing(connect(file)) as connection:
            yield connection
            connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise Unavailable(f"{file} cannot be written: {error}") from None


def _insert(connection: sqlite3.Connection, table: str, rows: list[Any]) -> None:
    names, marks = ", ".join(COLUMNS[table]), ", ".join("?" * len(COLUMNS[table]))
    connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)


def _rows_of(connection: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    order = "seq" if table == "rankloop_events" else "entity, number"
    cursor = connection.execute(f"SELECT {', '.join(COLUMNS[table])} FROM {table} ORDER BY {order}")
    while rows := cursor.fetchmany(PIECE_ROWS):
        yield from rows


def _summary_of(connection: sqlite3.Connection, version: str, made: float) -> BackupSummary:
    """Count and hash the rows of a file."""
    digest, counts = sha256(), dict.fromkeys(COLUMNS, 0)
    for table in COLUMNS:
        for row in _rows_of(connection, table):
            digest.update(msgspec.msgpack.encode(row))
            counts[table] += 1
    (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM rankloop_events").fetchone()
    n_events, n_snapshots = counts["rankloop_events"], counts["rankloop_snapshots"]
    return BackupSummary(version, made, last, n_events, n_snapshots, digest.hexdigest())


def restore(file: Path, to: str) -> BackupSummary:
    """Put a backup into an empty place; either all of it is there afterwards, or nothing.

    Args:
      file: The backup; it is checked before anything is written.
      to: A folder, or a PostgreSQL address, without a log.
    """
    summary = _checked(file)
    if to.startswith(POSTGRES_SCHEMES):
        _restore_to_postgres(file, to)
    else:
        _restore_to_folder(file, Path(to))
    return summary


def _checked(file: Path) -> BackupSummary:
    if not file.is_file():
        raise NotFound(f"there is no backup {str(file)!r}")
    try:
        with closing(_read_only(file)) as connection:
            summary = BackupSummary._make(connection.execute("SELECT * FROM rankloop_backup").fetchone())
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > LOG_VERSION:
                by = f"made by rankloop {summary.rankloop}"
                raise InvalidInput(f"{file} has version {version}, {by}; this one reads versions up to {LOG_VERSION}")
            is_complete = _summary_of(connection, summary.rankloop, summary.made) == summary
    except (sqlite3.DatabaseError, TypeError) as error:
        raise InvalidInput(f"{file} is not a complete backup of rankloop: {error}") from None
    if not is_complete:
        raise InvalidInput(f"{file} is damaged: its rows are not those that were written; use another backup")
    return summary


def _read_only(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)


def _restore_to_folder(file: Path, folder: Path) -> None:
    """Copy the backup; the copy gets its name when it is complete."""
    lock = acquire_file_lock(folder / FILE_NAME)
    copy = folder / f".restoring-{FILE_NAME}"
    try:
        if (folder / FILE_NAME).exists():
            raise Conflict(f"{folder / FILE_NAME} exists already: a backup is restored into an empty place")
        shutil.copyfile(file, copy)
        with _writable(copy) as connection:
            migrate(connection)
            connection.execute("DROP TABLE rankloop_backup")
        os.replace(copy, folder / FILE_NAME)
    finally:
        copy.unlink(missing_ok=True)
        os.close(lock)


def _restore_to_postgres(file: Path, address: str) -> None:
    """Copy the rows of the backup in one transaction."""
    import psycopg  # only here: its driver is not needed otherwise

    from rankloop.service.stores.postgres import migrate as migrate_postgres

    try:
        with psycopg.connect(address, autocommit=True, connect_timeout=5) as connection:
            partitions = migrate_postgres(connection)
            with closing(_read_only(file)) as backup, connection.transaction():
                connection.execute("LOCK TABLE rankloop_events IN ACCESS EXCLUSIVE MODE")
                if connection.execute("SELECT 1 FROM rankloop_events LIMIT 1").fetchone():
                    raise Conflict("this database has a log already: a backup is restored into an empty place")
                for table, columns in COLUMNS.items():
                    names = [*columns, "partition"] if table == "rankloop_events" else columns
                    statement: Any = f"COPY {table} ({', '.join(names)}) FROM STDIN"
                    with connection.cursor().copy(statement) as copy:
                        for row in _rows_of(backup, table):
                            partition = [partition_of(row[1], partitions)] if table == "rankloop_events" else []
                            copy.write_row([*row, *partition])
            migrate_postgres(connection)  # events are numbered after those of the backup from now on
    except psycopg.Error as error:
        raise Unavailable(f"this PostgreSQL cannot be written: {error}") from None


def migrate_log(where: str, dry_run: bool = False) -> int:
    """Upgrade a log as `rankloop serve` does when it starts; return the version that it had.

    Args:
      where: The folder, the file or the address of the log.
      dry_run: Only read its version.

    Raises:
      Conflict: If a newer rankloop wrote the log.
      InvalidInput: If it is not the log of a service.
    """
    with log_at(where) as log:
        version = log.version()
    check_version(version)
    if not dry_run:
        is_database = where.startswith(POSTGRES_SCHEMES)
        folder = Path(where) if Path(where).is_dir() else Path(where).parent
        if not is_database and not Path(where).is_dir() and Path(where).name != FILE_NAME:
            raise InvalidInput(f"a service reads {folder / FILE_NAME}; {where} is another file")
        open_store(Settings(store=where) if is_database else Settings(data=folder)).close()
    return version

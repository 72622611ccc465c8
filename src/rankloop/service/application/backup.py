"""Backups: a copy of the SQLite log of a service as one compressed file. PostgreSQL has tools of its own."""

import gzip
import os
import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import NamedTuple

from rankloop.core.errors import Conflict, InvalidInput, NotFound
from rankloop.service.settings import Settings
from rankloop.service.stores.base import check_version
from rankloop.service.stores.open import POSTGRES_SCHEMES, log_at, open_store
from rankloop.service.stores.sqlite import FILE_NAME, acquire_file_lock, connect, migrate

COMPRESSION_LEVEL = 1  # of gzip: the quickest
POSTGRES_ADVICE = "this is for logs in SQLite: back up PostgreSQL with pg_dump, and restore it with pg_restore"
SELECT_CONTENTS = """SELECT (SELECT coalesce(max(seq), 0) FROM rankloop_events),
    (SELECT count(*) FROM rankloop_events), (SELECT count(*) FROM rankloop_snapshots)"""


class LogContents(NamedTuple):
    """The contents of a backup."""

    last: int  # the number of the last event
    events: int
    snapshots: int


def back_up(where: str, file: Path) -> LogContents:
    """Write the log as it is now to a new file, a gzip of the SQLite file; the service may be running.

    Args:
      where: The folder or the file of a service.
      file: The backup, which must not exist.
    """
    if where.startswith(POSTGRES_SCHEMES):
        raise InvalidInput(POSTGRES_ADVICE)
    if file.exists():
        raise Conflict(f"{file} exists already; give the backup another name")
    with log_at(where) as log:
        check_version(log.version())
        file.parent.mkdir(parents=True, exist_ok=True)
        with _new_file(file) as temporary, TemporaryDirectory(prefix=".rankloop-", dir=file.parent) as folder:
            copy = Path(folder) / FILE_NAME
            with closing(sqlite3.connect(copy)) as connection:
                log.connection.backup(connection)
                connection.execute("PRAGMA journal_mode = DELETE")  # it is one file without a write-ahead file
                contents = LogContents._make(connection.execute(SELECT_CONTENTS).fetchone())
            with copy.open("rb") as plain, gzip.open(temporary, "wb", COMPRESSION_LEVEL) as packed:
                shutil.copyfileobj(plain, packed)
    return contents


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


def restore(file: Path, folder: Path) -> LogContents:
    """Put a backup into an empty folder; either all of it is there afterwards, or nothing.

    Args:
      file: The backup; a damaged or incomplete one is refused, by the check sum of gzip.
      folder: Of a service; it may not have a log.
    """
    if not file.is_file():
        raise NotFound(f"there is no backup {str(file)!r}")
    lock = acquire_file_lock(folder / FILE_NAME)
    copy = folder / f".restoring-{FILE_NAME}"
    try:
        if any(folder.glob(f"{FILE_NAME}*")):
            raise Conflict(f"{folder / FILE_NAME} exists already: a backup is restored into an empty place")
        with gzip.open(file) as packed, copy.open("wb") as plain:
            shutil.copyfileobj(packed, plain)
        with closing(connect(copy)) as connection:
            contents = LogContents._make(connection.execute(SELECT_CONTENTS).fetchone())
            migrate(connection)
            connection.execute("PRAGMA journal_mode = DELETE")
        with copy.open("rb") as complete:
            os.fsync(complete.fileno())
        os.replace(copy, folder / FILE_NAME)
    except (EOFError, gzip.BadGzipFile, sqlite3.DatabaseError, zlib.error) as error:
        raise InvalidInput(f"{file} is not a complete backup of rankloop: {error}") from None
    finally:
        copy.unlink(missing_ok=True)
        os.close(lock)
    return contents


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

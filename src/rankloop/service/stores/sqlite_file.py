"""The file of a SQLite log: its settings, its lock, its versions."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path

from rankloop.core.errors import Conflict

FILE = "rankloop.db"
WAITING = 10  # seconds, for whoever else holds a lock of the file
SETTINGS = ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 0")
MIGRATIONS = (
    """
    CREATE TABLE events (seq INTEGER PRIMARY KEY, stream TEXT NOT NULL, at REAL NOT NULL, impression TEXT,
                         body BLOB NOT NULL);
    CREATE TABLE snapshots (stream TEXT NOT NULL, number INTEGER NOT NULL, at REAL NOT NULL, state_seq INTEGER NOT NULL,
                            session BLOB NOT NULL, view BLOB NOT NULL, unfit INTEGER NOT NULL,
                            oldest_open INTEGER NOT NULL, PRIMARY KEY (stream, number));
    CREATE INDEX events_of_stream ON events (stream, seq);
    """,
    "CREATE INDEX events_of_impression ON events (impression) WHERE impression IS NOT NULL;",
)


def connected(path: Path) -> sqlite3.Connection:
    """A connection that writes ahead and waits for the disk."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=WAITING)
    try:
        for setting in SETTINGS:
            connection.execute(f"PRAGMA {setting}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def locked(path: Path) -> int:
    """The handle of a lock beside the file, held until it is closed; `Conflict` when another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise Conflict(
            f"{path.parent} is in use by another process: one process per SQLite file, several with PostgreSQL"
        ) from None
    return handle


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a file of an earlier version up to date, one numbered step after the other."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise Conflict(f"the file is of version {version}, this rankloop knows versions up to {len(MIGRATIONS)}")
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        connection.executescript(f"BEGIN; {script} PRAGMA user_version = {number}; COMMIT;")

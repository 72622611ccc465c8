"""The log in one SQLite file: write-ahead, synchronous, one writer, checkpoints on a thread of their own."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from threading import Event as Flag
from threading import Lock, Thread

from rankloop.core.errors import Conflict
from rankloop.service.errors import Full, Unavailable
from rankloop.service.events import Entry, Record, Snapshot, decode, encode
from rankloop.service.stores.port import Written

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
CHECKPOINT_EVERY = 0.5  # seconds
PAGE = 2000  # records read at a time
INSERT = "INSERT INTO events VALUES (?, ?, ?, ?, ?)"


class SqliteStore:
    """One file, one process: a lock file keeps others away. Tests are told, by `passing`, of every point of a write."""

    shared = False

    def __init__(self, path: Path, passing: Callable[[str], None] = lambda point: None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._passing = passing
        self._lock = _locked(path.with_suffix(".lock"))
        self._writer = self._connected()
        self._reader = self._connected()
        self._reading = Lock()
        _migrate(self._writer)
        self._last = self._newest()
        self._certain = True
        self._stopping = Flag()
        self._checkpoints = Thread(target=self._checkpoint, name="checkpoints", daemon=True)
        self._checkpoints.start()

    def append(self, entries: Sequence[Entry], after: int) -> Written:
        try:
            missed = [] if self._certain else list(self._records("seq > ?", (after,), self._writer))
            self._last = max([self._last, *(record.seq for record in missed)])
            written = self._insert(entries)
        except sqlite3.Error as error:
            self._certain = False
            self._undo()
            raise _unavailable(error) from error
        self._certain = True
        self._last += len(entries)
        return Written([*missed, *written], [record.seq for record in written])

    def read(self, stream: str | None = None, after: int = 0, until: int | None = None) -> Iterator[Record]:
        last = after
        while True:
            where, values = "seq > ?", [last]
            if stream is not None:
                where, values = "stream = ? AND seq > ?", [stream, last]  # type: ignore[list-item]
            if until is not None:
                where, values = f"{where} AND seq <= ?", [*values, until]
            with self._reading:
                page = list(self._records(where, tuple(values), self._reader, PAGE))
            yield from page
            if len(page) < PAGE:
                return
            last = page[-1].seq

    def of_impression(self, stream: str, impression: str) -> list[Record]:
        with self._reading:
            return list(self._records("impression = ? AND stream = ?", (impression, stream), self._reader))

    def last(self) -> int:
        return self._last

    def streams(self) -> list[str]:
        with self._reading:
            return [row[0] for row in self._reader.execute("SELECT DISTINCT stream FROM events ORDER BY stream")]

    def snapshots(self, stream: str) -> list[tuple[int, int, float]]:
        query = "SELECT number, state_seq, at FROM snapshots WHERE stream = ? ORDER BY number"
        with self._reading:
            return [tuple(row) for row in self._reader.execute(query, (stream,))]

    def snapshot(self, stream: str, number: int | None = None) -> Snapshot | None:
        columns = "stream, number, state_seq, session, view, unfit, oldest_open"
        where, values = ("", (stream,)) if number is None else ("AND number = ?", (stream, number))
        query = f"SELECT {columns} FROM snapshots WHERE stream = ? {where} ORDER BY state_seq DESC, number DESC LIMIT 1"
        with self._reading:
            row = self._reader.execute(query, values).fetchone()
        return Snapshot(*row) if row else None

    def forget(self, stream: str, after: int, until: int) -> None:
        with closing(self._connected()) as connection:
            values = (stream, after, until)
            connection.execute("DELETE FROM events WHERE stream = ? AND seq > ? AND seq <= ?", values)

    def close(self) -> None:
        self._stopping.set()
        self._checkpoints.join()
        self._writer.close()
        self._reader.close()
        os.close(self._lock)

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
        for setting in ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 0"):
            connection.execute(f"PRAGMA {setting}")
        return connection

    def _insert(self, entries: Sequence[Entry]) -> list[Record]:
        if not entries:
            return []
        now = time.time()
        written = [Record(self._last + i, entry.stream, now, entry.event) for i, entry in enumerate(entries, 1)]
        rows = [(r.seq, r.stream, now, e.impression, encode(e.event)) for r, e in zip(written, entries)]
        self._passing("begin")
        self._writer.execute("BEGIN IMMEDIATE")
        self._writer.executemany(INSERT, rows)
        self._passing("inserted")
        for entry in entries:
            if entry.snapshot is not None:
                stream, number, *rest = entry.snapshot
                values = (stream, number, now, *rest)
                self._writer.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
                self._passing("snapshot")
        self._passing("commit")
        self._writer.execute("COMMIT")
        self._passing("committed")
        return written

    def _undo(self) -> None:
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except sqlite3.Error:
            return  # the next BEGIN will say what is wrong

    def _records(
        self, where: str, values: tuple[object, ...], connection: sqlite3.Connection, limit: int = -1
    ) -> Iterator[Record]:
        query = f"SELECT seq, stream, at, body FROM events WHERE {where} ORDER BY seq LIMIT {limit}"
        for seq, stream, at, body in connection.execute(query, values):
            yield Record(seq, stream, at, decode(body))

    def _newest(self) -> int:
        return int(self._writer.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0])

    def _checkpoint(self) -> None:
        with closing(self._connected()) as connection:
            while not self._stopping.wait(CHECKPOINT_EVERY):
                try:
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                except sqlite3.Error:
                    continue  # a full disk is met by the writer, who tells the caller


def _locked(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise Conflict(
            f"{path.parent} is in use by another process: one process per SQLite file, several with PostgreSQL"
        ) from None
    return handle


def _migrate(connection: sqlite3.Connection) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise Conflict(f"the file is of version {version}, this rankloop knows versions up to {len(MIGRATIONS)}")
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        connection.executescript(f"BEGIN; {script} PRAGMA user_version = {number}; COMMIT;")


def _unavailable(error: sqlite3.Error) -> Unavailable:
    if "full" in str(error):
        return Full("the disk of the log is full; free some space, nothing of this request was kept")
    return Unavailable(f"the log cannot be written now ({error}); nothing of this request was kept")

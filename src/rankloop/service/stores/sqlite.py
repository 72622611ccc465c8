"""The log in one SQLite file: write-ahead, synchronous, one writer, checkpoints on a thread of their own."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any

from rankloop.service.errors import Full, Unavailable
from rankloop.service.events import Entry, Record, encode
from rankloop.service.stores.port import Written
from rankloop.service.stores.queries import Queries, records_of
from rankloop.service.stores.sqlite_file import connected, locked, migrate

CHECKPOINT_EVERY = 0.5  # seconds
INSERT = "INSERT INTO events VALUES (?, ?, ?, ?, ?)"
KEEP = "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
MISSED = "SELECT seq, stream, at, body FROM events WHERE seq > ? ORDER BY seq"


class SqliteStore(Queries):
    """One file, one process: a lock file keeps others away. Tests are told, by `passing`, of every point of a write."""

    shared = False

    def __init__(self, path: Path, passing: Callable[[str], None] = lambda point: None) -> None:
        self.path = path
        self._passing = passing
        self._reading = Lock()
        self._stopping = Flag()
        with _told(), ExitStack() as undo:
            self._lock = locked(path)
            undo.callback(os.close, self._lock)
            self._writer = undo.enter_context(closing(connected(path)))
            self._reader = undo.enter_context(closing(connected(path)))
            migrate(self._writer)
            self._last = super().last()
            undo.pop_all()
        self._certain = True
        self._checkpoints = Thread(target=self._checkpoint, name="checkpoints", daemon=True)
        self._checkpoints.start()

    def append(self, entries: Sequence[Entry], after: int) -> Written:
        try:
            missed = [] if self._certain else records_of(self._writer.execute(MISSED, (after,)).fetchall())
            self._last = max([self._last, *(record.seq for record in missed)])
            written = self._insert(entries)
        except sqlite3.Error as error:
            self._certain = False
            self._undo()
            raise _unavailable(error) from error
        self._certain = True
        self._last += len(entries)
        return Written([*missed, *written], [record.seq for record in written])

    def last(self) -> int:
        return self._last

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._reading:
            try:
                return self._reader.execute(query, tuple(values)).fetchall()
            except sqlite3.Error as error:
                raise Unavailable(f"the log cannot be read now ({error}); try again") from error

    def forget(self, stream: str, after: int, until: int) -> None:
        query = "DELETE FROM events WHERE stream = ? AND seq > ? AND seq <= ?"
        with _told(), closing(connected(self.path)) as connection:
            connection.execute(query, (stream, after, until))

    def close(self) -> None:
        self._stopping.set()
        self._checkpoints.join()
        self._writer.close()
        self._reader.close()
        os.close(self._lock)

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
        for kept in (entry.snapshot for entry in entries if entry.snapshot is not None):
            self._writer.execute(KEEP, (kept.stream, kept.number, now, *kept[2:]))
            self._passing("snapshot")
        self._passing("commit")
        self._writer.execute("COMMIT")
        self._passing("committed")
        return written

    def _undo(self) -> None:
        with suppress(sqlite3.Error):  # the next BEGIN will say what is wrong
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")

    def _checkpoint(self) -> None:
        with closing(connected(self.path)) as connection:
            while not self._stopping.wait(CHECKPOINT_EVERY):
                with suppress(sqlite3.Error):  # a full disk is met by the writer, who tells the caller
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _unavailable(error) from error


def _unavailable(error: sqlite3.Error) -> Unavailable:
    if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
        return Full("the disk of the log is full; free some space, nothing of this request was kept")
    return Unavailable(f"the log cannot be written now ({error}); nothing of this request was kept")

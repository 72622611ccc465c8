"""The log in one SQLite file: write-ahead, synchronous, one writer, checkpoints on a thread of their own."""

import fcntl
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any

from rankloop.core.errors import Conflict
from rankloop.service.errors import StorageFull, Unavailable
from rankloop.service.records import ArchiveFile, LogRow, Record, Snapshot, decode
from rankloop.service.stores.base import NO_SPACE, PAGE, Store, Tail, Transaction, is_full, records_of

FILE = "rankloop.db"
WAITING = 10  # seconds, for whoever else holds a lock of the file
SETTINGS = ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 0")
MIGRATIONS = (
    """
    CREATE TABLE events (seq INTEGER PRIMARY KEY, stream TEXT NOT NULL, at REAL NOT NULL, impression TEXT,
                         body BLOB NOT NULL, kind TEXT NOT NULL);
    CREATE INDEX events_of_stream ON events (stream, seq);
    CREATE INDEX events_of_impression ON events (impression) WHERE impression IS NOT NULL;
    CREATE INDEX changes ON events (stream, seq) WHERE impression IS NULL;
    CREATE TABLE snapshots (stream TEXT NOT NULL, number INTEGER NOT NULL, at REAL NOT NULL, state_seq INTEGER NOT NULL,
                            session BLOB NOT NULL, view BLOB NOT NULL, unfit INTEGER NOT NULL,
                            oldest_open INTEGER NOT NULL, PRIMARY KEY (stream, number));
    CREATE TABLE archive (stream TEXT NOT NULL, name TEXT NOT NULL, first_seq INTEGER NOT NULL,
                          last_seq INTEGER NOT NULL, events INTEGER NOT NULL, digest TEXT NOT NULL,
                          PRIMARY KEY (stream, name));
    """,
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


ONE_PROCESS = "one process per SQLite file, several with PostgreSQL"


def locked(path: Path, rule: str = ONE_PROCESS) -> int:
    """The handle of a lock beside the file, held until it is closed; `Conflict` when another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise Conflict(f"{path.parent} is in use by another process: {rule}") from None
    return handle


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a file of an earlier version up to date, one numbered step after the other."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise Conflict(f"the file is of version {version}, this rankloop knows versions up to {len(MIGRATIONS)}")
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        connection.executescript(f"BEGIN; {script} PRAGMA user_version = {number}; COMMIT;")


CHECKPOINT_EVERY = 0.5  # seconds
MAX_WAL_PAGES = 4_000  # pages of 4 KiB in the write-ahead file, before it is emptied
FRESH_BYTES = 8_000_000  # of rows that are kept in memory until they have been learned; beyond, they are read again
ATTEMPTS = 200  # to empty the write-ahead file at once
PATIENCE = 100  # milliseconds for which those who read may hold that up
INSERT, ROW = "INSERT INTO events VALUES", "(?, ?, ?, ?, ?, ?)"
ROWS = 64  # in one statement: each gives the processor away to other threads, and asks for it again
KNOWN = "SELECT seq, stream, at, body FROM events WHERE impression = ? AND stream = ? ORDER BY seq"
CHANGED = "SELECT max(seq) FROM events WHERE stream = ? AND impression IS NULL AND kind <> 'snapshotted'"
CHANGE = "UPDATE events SET body = ?, impression = ?, kind = ? WHERE stream = ? AND seq = ?"
LIST = "INSERT OR REPLACE INTO archive VALUES (?, ?, ?, ?, ?, ?)"
UNLIST = "DELETE FROM archive WHERE stream = ? AND name = ?"
KEEP = "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class SqliteStore(Store):
    """One file, one process: a lock file keeps others away. Tests are told, by `passing`, of every point of a write."""

    shared = False
    partitions = 1

    def __init__(self, path: Path, passing: Callable[[str], None] = lambda point: None) -> None:
        self.path = path
        self._passing = passing
        self._reading, self._freshness = Lock(), Lock()
        self._stopping = Flag()
        with _told(), ExitStack() as undo:
            self._lock = locked(path)
            undo.callback(os.close, self._lock)
            self._writer = undo.enter_context(closing(connected(path)))
            self._reader = undo.enter_context(closing(connected(path)))
            migrate(self._writer)
            self._last = super().last()
            undo.pop_all()
        self._fresh: deque[tuple[int, str, float, bytes]] = deque()  # the newest rows, until they have been learned
        self._fresh_bytes = 0
        self._certain = True
        self._ahead = 0  # pages, as the last checkpoint has found them
        self._checkpoints = Thread(target=self._checkpoint, name="checkpoints", daemon=True)
        self._checkpoints.start()

    def append(self, batch: Transaction) -> None:
        try:
            if self._ahead > MAX_WAL_PAGES:
                self._begin_anew()
            if not self._certain:
                self._last = self._writer.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0]
            rows = batch.settle(self._known(batch), self._changed(batch), {})
            now = time.time()
            if rows:
                self._insert(rows, now)
        except sqlite3.Error as error:
            self._certain = False
            self._forget_newest()
            self._undo()
            raise _unavailable(error) from error
        self._certain = True
        batch.number(self._last + 1, now)
        with self._freshness:
            for number, row in enumerate(rows, self._last + 1):
                self._fresh.append((number, row.entity, now, row.body))
                self._fresh_bytes += len(row.body)
            while self._fresh_bytes > FRESH_BYTES:
                self._fresh_bytes -= len(self._fresh.popleft()[3])
            self._last += len(rows)

    def tail(self, after: int, partitions: Sequence[int]) -> Tail:
        now, last = time.time(), self._last
        newest = self._newest(after)
        if newest:
            records = [Record(seq, entity, at, decode(body)) for seq, entity, at, body in newest]
            return Tail(records, newest[-1][0], now, newest[-1][0] < last)
        rows = self.page(None, after, last) if last > after else []
        more = is_full(rows)
        return Tail(records_of(rows), rows[-1][0] if more else last, now, more)

    def _newest(self, after: int) -> list[tuple[int, str, float, bytes]]:
        """The rows after an event, where they are still in memory; empty where they have to be read."""
        with self._freshness:
            while self._fresh and self._fresh[0][0] <= after:
                self._fresh_bytes -= len(self._fresh.popleft()[3])
            return list(islice(self._fresh, PAGE)) if self._fresh and self._fresh[0][0] == after + 1 else []

    def _forget_newest(self) -> None:
        """The past has changed: it is read from the file."""
        with self._freshness:
            self._fresh.clear()
            self._fresh_bytes = 0

    def last(self) -> int:
        return self._last

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._reading:
            try:
                return self._reader.execute(query, tuple(values)).fetchall()
            except sqlite3.Error as error:
                raise Unavailable(f"the log cannot be read now ({error}); try again") from error

    def forget(self, entity: str, after: int, until: int, kept: ArchiveFile) -> None:
        query = "DELETE FROM events WHERE stream = ? AND seq > ? AND seq <= ?"
        with _told(), closing(connected(self.path)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(LIST, (entity, *kept))
            connection.execute(query, (entity, after, until))
            connection.execute("COMMIT")

    def amend(
        self,
        entity: str,
        events: Mapping[int, LogRow | None],
        since: int,
        snapshots: Sequence[Snapshot],
        files: Mapping[str, ArchiveFile | None],
    ) -> None:
        now = time.time()
        gone = [(entity, seq) for seq, event in events.items() if event is None]
        changed = [(row.body, row.impression, row.kind, entity, seq) for seq, row in events.items() if row is not None]
        with _told(), closing(connected(self.path)) as connection:
            connection.execute("PRAGMA secure_delete = ON")  # zeros instead of what stood there
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("DELETE FROM events WHERE stream = ? AND seq = ?", gone)
            connection.executemany(CHANGE, changed)
            connection.execute("DELETE FROM snapshots WHERE stream = ? AND state_seq >= ?", (entity, since))
            connection.executemany(KEEP, [(kept.entity, kept.number, now, *kept[2:]) for kept in snapshots])
            connection.executemany(UNLIST, [(entity, name) for name in files])
            connection.executemany(LIST, [(entity, *file) for file in files.values() if file is not None])
            self._passing("amend")
            connection.execute("COMMIT")
            self._passing("amended")
            self._forget_newest()
            self._empty(connection)

    def erase(self, entity: str, before: int) -> None:
        with _told(), closing(connected(self.path)) as connection:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM events WHERE stream = ? AND seq < ?", (entity, before))
            connection.execute("DELETE FROM snapshots WHERE stream = ? AND state_seq < ?", (entity, before))
            connection.execute("DELETE FROM archive WHERE stream = ? AND last_seq < ?", (entity, before))
            connection.execute("COMMIT")
            self._forget_newest()
            self._empty(connection)

    def _empty(self, connection: sqlite3.Connection) -> None:
        """Empty the write-ahead file, in which what was deleted still stands; the checkpoints may be at it just now."""
        for _ in range(ATTEMPTS):
            is_busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not is_busy:
                return
            time.sleep(CHECKPOINT_EVERY / 10)
        raise Unavailable("this is deleted, but the disk is too busy to overwrite it at once: ask again in a while")

    def close(self) -> None:
        self._stopping.set()
        self._checkpoints.join()
        self._writer.close()
        self._reader.close()
        os.close(self._lock)

    def _known(self, batch: Transaction) -> list[Record]:
        """What the log has of the impressions that the batch asks for, and does not know: nobody else writes here."""
        keys = [key for key, seq in batch.keys.items() if not seq]
        rows = [row for entity, name in keys for row in self._writer.execute(KNOWN, (name, entity)).fetchall()]
        return records_of(rows) if rows else []

    def _changed(self, batch: Transaction) -> dict[str, int]:
        """When the entities that are to change have changed last."""
        return {entity: self._writer.execute(CHANGED, (entity,)).fetchone()[0] or 0 for entity in batch.watched}

    def _insert(self, rows: Sequence[LogRow], now: float) -> None:
        self._passing("begin")
        self._writer.execute("BEGIN IMMEDIATE")
        for begin in range(0, len(rows), ROWS):
            part = rows[begin : begin + ROWS]
            values: list[Any] = []
            for number, row in enumerate(part, self._last + 1 + begin):
                values += (number, row.entity, now, row.impression, row.body, row.kind)
            self._writer.execute(f"{INSERT} {', '.join([ROW] * len(part))}", values)
        self._passing("inserted")
        for kept in (row.snapshot for row in rows if row.snapshot is not None):
            self._writer.execute(KEEP, (kept.entity, kept.number, now, *kept[2:]))
            self._passing("snapshot")
        self._passing("commit")
        self._writer.execute("COMMIT")
        self._passing("committed")

    def _undo(self) -> None:
        with suppress(sqlite3.Error):  # the next BEGIN will say what is wrong
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")

    def _checkpoint(self) -> None:
        with closing(connected(self.path)) as connection:
            while not self._stopping.wait(CHECKPOINT_EVERY):
                with suppress(sqlite3.Error):  # a full disk is met by the writer, who tells the caller
                    self._ahead = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]

    def _begin_anew(self) -> None:
        """Empty the write-ahead file: under load only the writer finds a moment in which nobody writes."""
        self._ahead = 0
        with suppress(sqlite3.Error):  # somebody reads; it is tried again after the next checkpoint
            self._writer.execute(f"PRAGMA busy_timeout = {PATIENCE}")
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._writer.execute(f"PRAGMA busy_timeout = {1000 * WAITING}")


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _unavailable(error) from error


def _unavailable(error: sqlite3.Error) -> Unavailable:
    if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
        return StorageFull(NO_SPACE)
    return Unavailable(f"the log cannot be written now ({error}); nothing of this request was kept")

"""The log in one SQLite file: write-ahead, synchronous, one writer, checkpoints on a thread of their own."""

import fcntl
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any

from rankloop.core.errors import Conflict
from rankloop.service.errors import StorageFull, Unavailable
from rankloop.service.records import LogRow, Ranked, Record, decode
from rankloop.service.stores import base

FILE_NAME = "rankloop.db"
LOCK_WAIT_SECONDS = 5  # for another connection that holds a lock of the file
CONNECTION_SETTINGS = ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 0")
COLUMN_TYPES = {"integer": "INTEGER", "real": "REAL", "binary": "BLOB", "partition": ""}
CHECKPOINT_SECONDS = 0.1  # between two checkpoints; commits wait for the disk meanwhile, so they are short
MAX_WAL_PAGES = 16_000  # pages of 4 KiB in the write-ahead file, before it is emptied
MAX_RECENT_BYTES = 8_000_000  # of rows, and of impressions that were read, in memory until they have been learned
MAX_TRUNCATE_TRIES = 200  # to empty the write-ahead file after a deletion
RESTART_WAIT_MILLISECONDS = 100  # for which readers may hold up the writer that empties it
MAX_ROWS_PER_INSERT = 64  # each statement releases the interpreter lock, and waits for it again
INSERT_EVENTS, ROW_MARKS = "INSERT INTO rankloop_events VALUES", "(?, ?, ?, ?, ?, ?)"
SELECT_IMPRESSIONS = (
    f"SELECT {base.EVENT_COLUMNS} FROM rankloop_events WHERE {base.ENTITY_WITHOUT_INDEX} = ? AND impression"
)
SELECT_LAST_CHANGE = """SELECT max(seq) FROM rankloop_events
                        WHERE entity = ? AND impression IS NULL AND kind <> 'snapshotted'"""
Key = tuple[str, str]  # an entity and the name of an impression
ONE_PROCESS_RULE = "one process per SQLite file, several with PostgreSQL"


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection that writes ahead and waits for the disk."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=LOCK_WAIT_SECONDS)
    try:
        for setting in CONNECTION_SETTINGS:
            connection.execute(f"PRAGMA {setting}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def acquire_file_lock(path: Path, rule: str = ONE_PROCESS_RULE) -> int:
    """Lock a file against other processes, by a lock file beside it.

    Args:
      path: The file.
      rule: A hint for the error message.

    Returns:
      A file handle; closing it releases the lock.

    Raises:
      Conflict: If another process holds the lock.
    """
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
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    base.check_version(version)
    for number, template in enumerate(base.LOG_MIGRATIONS[version:], version + 1):
        connection.executescript(f"BEGIN; {template.format(**COLUMN_TYPES)} PRAGMA user_version = {number}; COMMIT;")


@contextmanager
def _raise_unavailable() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _unavailable(error) from error


def _unavailable(error: sqlite3.Error) -> Unavailable:
    if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
        return StorageFull(base.STORAGE_FULL_MESSAGE)
    return Unavailable(f"the log cannot be written now ({error}); nothing of this request was kept")


class SqliteStore(base.Store):
    """One file, one process: a lock file keeps others away."""

    shared = False
    partitions = 1

    def __init__(self, path: Path, on_step: Callable[[str], None] = lambda step: None) -> None:
        self.path = path
        self._on_step = on_step
        self._reader_lock, self._recent_lock = Lock(), Lock()
        self._stopping = Flag()
        with _raise_unavailable(), ExitStack() as undo:
            self._file_lock = acquire_file_lock(path)
            undo.callback(os.close, self._file_lock)
            self._writer = undo.enter_context(closing(connect(path)))
            self._reader = undo.enter_context(closing(connect(path)))
            migrate(self._writer)
            # A crash may have left deleted bytes in the write-ahead file.
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._writer.execute("PRAGMA busy_timeout = 0")
            self._last = super().last()
            undo.pop_all()
        self._recent: deque[tuple[Record, int]] = deque()  # until they have been learned, with the bytes of each
        self._recent_bytes = 0
        # Impressions that the writer had or read, until the learner has got them: all records, bytes of the features.
        self._read_impressions: dict[Key, tuple[list[Record], int]] = {}
        self._read_bytes = 0
        self._last_is_certain = True
        self._wal_pages = 0  # at the last checkpoint
        self._wal_thread = Thread(target=self._run_wal_checkpoints, name="checkpoints", daemon=True)
        self._wal_thread.start()

    def append(self, batch: base.Transaction) -> None:
        """Write a batch in one transaction of the file."""
        if self._wal_pages > MAX_WAL_PAGES:
            # Under load only the writer finds a moment in which nobody writes. If another connection reads at this
            # moment, it is tried again after the next checkpoint. The file is not cut: to extend it slows commits.
            self._wal_pages = 0
            with suppress(sqlite3.Error), self._waiting_for_lock(RESTART_WAIT_MILLISECONDS):
                self._writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        self._append(batch, waits=True)

    def append_at_once(self, batch: base.Transaction) -> bool:
        """Write a batch if it has no snapshot, nothing has to be read for it, and nobody else writes to the file."""
        has_snapshot = any(entry.snapshot is not None for entry in batch.entries)  # it may be large
        is_quick = self._wal_pages <= MAX_WAL_PAGES and not batch.watched and all(batch.keys.values())
        return is_quick and not has_snapshot and self._append(batch, waits=False)

    def _append(self, batch: base.Transaction, waits: bool) -> bool:
        """Write a batch; return False if another connection writes to the file and this does not wait for it."""
        try:
            self._on_step("begin")
            try:
                self._writer.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise
                if not waits:
                    return False
                with self._waiting_for_lock(1000 * LOCK_WAIT_SECONDS):
                    self._writer.execute("BEGIN IMMEDIATE")
            select = self._writer.execute
            if not self._last_is_certain:
                self._last = select(self.last_query).fetchone()[0]
            # Nobody else writes to this file, so only impressions that the batch does not have yet are read.
            keys = [key for key, seq in batch.keys.items() if not seq]
            logged = self._logged_impressions(keys) if keys else {}
            changed = {entity: select(SELECT_LAST_CHANGE, (entity,)).fetchone()[0] or 0 for entity in batch.watched}
            rows = batch.settle(chain.from_iterable(logged.values()), changed, {})
            now = time.time()
            if rows:
                self._insert(rows, now)
            else:  # the call has asked whether the file can be written
                self._writer.execute("ROLLBACK")
        except Exception as error:
            self._last_is_certain = False
            self._clear_recent()
            with suppress(sqlite3.Error):  # the next BEGIN raises what is wrong
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise _unavailable(error) from error
            raise
        self._last_is_certain = True
        batch.number(self._last + 1, now)
        with self._recent_lock:
            for key, records in (logged | batch.shown).items():
                shown = records[0].event if records else None
                size = len(shown.features) + len(shown.values) if isinstance(shown, Ranked) else 0
                self._read_bytes += size - self._read_impressions.get(key, ((), 0))[1]
                self._read_impressions[key] = records, size
            if self._read_bytes > MAX_RECENT_BYTES:
                self._read_impressions.clear()
                self._read_bytes = 0
            for number, row in enumerate(rows, self._last + 1):
                # The learner shares the event of an impression, which nobody changes; others are decoded for it.
                event = decode(row.body) if row.impression is None else row.event
                record = Record(number, row.entity, now, event)
                self._recent.append((record, len(row.body)))
                self._recent_bytes += len(row.body)
                if row.impression is not None and (row.entity, row.impression) in self._read_impressions:
                    self._read_impressions[row.entity, row.impression][0].append(record)
            while self._recent_bytes > MAX_RECENT_BYTES:
                self._recent_bytes -= self._recent.popleft()[1]
            self._last += len(rows)
        return True

    def _logged_impressions(self, keys: Sequence[Key]) -> dict[Key, list[Record]]:
        """Return the records of impressions, read by one statement for each entity."""
        names_by_entity: dict[str, list[str]] = {}
        for entity, name in keys:
            names_by_entity.setdefault(entity, []).append(name)
        logged: dict[Key, list[Record]] = {key: [] for key in keys}
        for entity, names in names_by_entity.items():
            query = f"{SELECT_IMPRESSIONS} IN ({', '.join('?' * len(names))})"
            rows = sorted(self._writer.execute(query, (entity, *names)).fetchall())  # by number, faster than SQLite
            for record in base.records_of(rows):
                logged[entity, record.event.impression].append(record)  # type: ignore[attr-defined]
        return logged

    @contextmanager
    def _waiting_for_lock(self, milliseconds: int) -> Iterator[None]:
        """Let the writer wait for other connections meanwhile; else it does not, since the event loop may run it."""
        self._writer.execute(f"PRAGMA busy_timeout = {milliseconds}")
        try:
            yield
        finally:
            self._writer.execute("PRAGMA busy_timeout = 0")

    def tail(self, after: int, partitions: Sequence[int]) -> base.Tail:
        """Return the next events, from memory while they are recent."""
        now, last, recent = time.time(), self._last, list[Record]()
        with self._recent_lock:
            while self._recent and self._recent[0][0].seq <= after:
                self._recent_bytes -= self._recent.popleft()[1]
            while self._read_impressions:
                key, (records, size) = next(iter(self._read_impressions.items()))
                if records and records[-1].seq > after:
                    break
                del self._read_impressions[key]
                self._read_bytes -= size
            if self._recent and self._recent[0][0].seq == after + 1:  # else they have to be read from the file
                recent = [record for record, _ in islice(self._recent, base.PAGE_ROWS)]
        if recent:
            return base.Tail(recent, recent[-1].seq, now, recent[-1].seq < last)
        rows = self.page(None, after, last) if last > after else []
        more = base.is_full(rows)
        return base.Tail(base.records_of(rows), rows[-1][0] if more else last, now, more)

    def records_of_impressions(self, entity: str, impressions: Sequence[str], until: int) -> list[Record]:
        """Return the events of several impressions: from memory those that the writer has just read."""
        with self._recent_lock:
            read = {name: each for name in impressions if (each := self._read_impressions.get((entity, name)))}
            records = [record for each, _ in read.values() for record in each if record.seq <= until]
        others = [name for name in impressions if name not in read]
        return records + super().records_of_impressions(entity, others, until)

    def _clear_recent(self) -> None:
        with self._recent_lock:
            self._recent.clear()
            self._read_impressions.clear()
            self._recent_bytes = self._read_bytes = 0

    def last(self) -> int:
        """Return the number of the newest event."""
        return self._last

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query."""
        with self._reader_lock:
            try:
                return self._reader.execute(query, tuple(values)).fetchall()
            except sqlite3.Error as error:
                raise Unavailable(f"the log cannot be read now ({error}); try again") from error

    def _execute_all(self, entity: str, statements: Sequence[base.Statement]) -> None:
        with _raise_unavailable(), closing(connect(self.path)) as connection:
            connection.execute("PRAGMA secure_delete = ON")  # zeros instead of the deleted bytes
            connection.execute("BEGIN IMMEDIATE")
            for query, values in statements:
                connection.executemany(query, values)
            self._on_step("amend")
            connection.execute("COMMIT")
            self._on_step("amended")
            self._clear_recent()
            for _ in range(MAX_TRUNCATE_TRIES):  # the write-ahead file still holds what was deleted
                is_busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if not is_busy:  # with another checkpoint
                    return
                time.sleep(CHECKPOINT_SECONDS / 2)
            raise Unavailable("this is deleted, but the disk is too busy to overwrite it now: try again in a while")

    def close(self) -> None:
        """Close the file and release its lock."""
        self._stopping.set()
        self._wal_thread.join()
        self._writer.close()
        self._reader.close()
        os.close(self._file_lock)

    def _insert(self, rows: Sequence[LogRow], now: float) -> None:
        for begin in range(0, len(rows), MAX_ROWS_PER_INSERT):
            part = rows[begin : begin + MAX_ROWS_PER_INSERT]
            values: list[Any] = []
            for number, row in enumerate(part, self._last + 1 + begin):
                values += (number, row.entity, now, row.impression, row.body, row.kind)
            self._writer.execute(f"{INSERT_EVENTS} {', '.join([ROW_MARKS] * len(part))}", values)
        self._on_step("inserted")
        for row in rows:
            if row.snapshot is not None:
                self._save_snapshot(row, now, self._writer.execute)
                self._on_step("snapshot")
        self._on_step("commit")
        self._writer.execute("COMMIT")
        self._on_step("committed")

    def _run_wal_checkpoints(self) -> None:
        with closing(connect(self.path)) as connection:
            while not self._stopping.wait(CHECKPOINT_SECONDS):
                with suppress(sqlite3.Error):  # a full disk is reported by the writer
                    self._wal_pages = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]

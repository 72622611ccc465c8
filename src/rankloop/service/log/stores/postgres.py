"""The log in PostgreSQL, for several workers: appends one after the other, one learner by lease, news by NOTIFY."""

import os
import time
from collections.abc import Callable, Sequence
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any

import psycopg
from psycopg import sql

from rankloop.core.errors import Conflict
from rankloop.service.errors import Full, Unavailable
from rankloop.service.log.events import ArchiveFile, Entry, Record
from rankloop.service.log.stores.base import LOG, MISSED, Publication, Written
from rankloop.service.log.stores.queries import Queries, records_of
from rankloop.service.log.writer import numbers_of

CHANNEL = "rankloop"
NOTIFY = "SELECT pg_notify(%s, %s)"
PATIENCE = 5  # seconds for a connection to be made
PAUSE = 0.5  # seconds
IDLE_SECONDS = 5  # for which a worker may stand still within a transaction, before the others go on without it
LOCK_SECONDS = 15  # to wait for another's transaction, before the caller is told to try again
STATEMENT_SECONDS = {"read": 300}
OTHER_STATEMENT_SECONDS = 30
ALIVE = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
UNACKNOWLEDGED = {"tcp_user_timeout": 20_000}  # milliseconds, until a connection whose cable was pulled is given up
DURABLE = """SELECT set_config('synchronous_commit', 'on', false)
             WHERE current_setting('synchronous_commit') <> 'remote_apply'"""  # which is more than on


def connected(address: str, purpose: str) -> psycopg.Connection[Any]:
    """A connection whose commits are durable and that waits for nobody forever, whatever the server's defaults are."""
    name = f"rankloop {os.getpid()} {purpose}"
    how = {"connect_timeout": PATIENCE, "application_name": name} | ALIVE | UNACKNOWLEDGED
    connection = psycopg.connect(address, autocommit=True, **how)  # type: ignore[arg-type]
    waits = {
        "idle_in_transaction_session_timeout": IDLE_SECONDS,
        "lock_timeout": LOCK_SECONDS,
        "statement_timeout": STATEMENT_SECONDS.get(purpose, OTHER_STATEMENT_SECONDS),
    }
    try:
        connection.execute(DURABLE)
        for setting, seconds in waits.items():
            connection.execute("SELECT set_config(%s, %s, false)", [setting, f"{seconds}s"])
    except psycopg.Error:
        connection.close()
        raise
    return connection


class Connections:
    """The connections of one process; each purpose belongs to one thread at a time."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._stopping = Flag()
        self._open: dict[str, psycopg.Connection[Any]] = {}
        self._listener: Thread | None = None

    def to(self, purpose: str) -> psycopg.Connection[Any]:
        """The connection for a purpose."""
        connection = self._open.get(purpose)
        if connection is None or connection.closed:
            if self._stopping.is_set():
                raise psycopg.OperationalError("the store is closed")
            connection = connected(self.address, purpose)
            self._open[purpose] = connection
        return connection

    def has(self, purpose: str) -> bool:
        return purpose in self._open and not self._open[purpose].closed

    def drop(self, purpose: str) -> None:
        connection = self._open.pop(purpose, None)
        if connection is not None:
            connection.close()

    def listen(self, received: Callable[[str], None]) -> None:
        """Call `received`, on a thread, with the words of every notice, and with `MISSED` when it begins to listen."""
        self._listener = Thread(target=self._listening, args=(received,), name="listen", daemon=True)
        self._listener.start()

    def close(self) -> None:
        self._stopping.set()
        if self._listener is not None:
            self._listener.join()
        for connection in self._open.values():
            connection.close()

    def _listening(self, received: Callable[[str], None]) -> None:
        while not self._stopping.is_set():
            try:
                connection = self.to("listen")
                connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
                received(MISSED)
                while not self._stopping.is_set():
                    for notice in connection.notifies(timeout=PAUSE):
                        received(notice.payload)
                        if self._stopping.is_set():
                            return
            except psycopg.Error:
                self.drop("listen")
                self._stopping.wait(PAUSE)


MIGRATIONS = (
    """
    CREATE TABLE rankloop_events (seq BIGINT PRIMARY KEY, stream TEXT NOT NULL, at DOUBLE PRECISION NOT NULL,
                                  impression TEXT, body BYTEA NOT NULL);
    CREATE TABLE rankloop_snapshots (stream TEXT NOT NULL, number BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL,
                                     state_seq BIGINT NOT NULL, session BYTEA NOT NULL, view BYTEA NOT NULL,
                                     unfit BIGINT NOT NULL, oldest_open BIGINT NOT NULL, PRIMARY KEY (stream, number));
    CREATE INDEX rankloop_events_of_stream ON rankloop_events (stream, seq);
    CREATE TABLE rankloop_published (stream TEXT PRIMARY KEY, number BIGINT NOT NULL, seq BIGINT NOT NULL,
                                     unfit BIGINT NOT NULL, session BYTEA NOT NULL);
    """,
    "CREATE INDEX rankloop_events_of_impression ON rankloop_events (impression) WHERE impression IS NOT NULL;",
    """
    CREATE TABLE rankloop_archive (stream TEXT NOT NULL, name TEXT NOT NULL, first_seq BIGINT NOT NULL,
                                   last_seq BIGINT NOT NULL, events BIGINT NOT NULL, digest TEXT NOT NULL,
                                   PRIMARY KEY (stream, name));
    """,
)
PREFIX = "rankloop_"
APPENDING, LEARNING, MIGRATING, SLOTS = 7_304_001, 7_304_002, 7_304_003, 7_304_100  # names of advisory locks
HAS_TABLE = "SELECT 1 WHERE to_regclass(%s) IS NOT NULL"
LIST = """INSERT INTO rankloop_archive VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (stream, name) DO UPDATE
          SET events = excluded.events, digest = excluded.digest"""
TRY_LOCK = "SELECT pg_try_advisory_lock(%s)"
MISSED_EVENTS = "SELECT seq, stream, at, body FROM rankloop_events WHERE seq > %s ORDER BY seq"
COPY = "COPY rankloop_events (seq, stream, at, impression, body) FROM STDIN (FORMAT BINARY)"
KNOWN = "SELECT DISTINCT stream, impression FROM rankloop_events WHERE impression = ANY(%s)"
COPIED = ("int8", "text", "float8", "text", "bytea")
KEEP = """INSERT INTO rankloop_snapshots VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (stream, number) DO UPDATE
          SET at = excluded.at, state_seq = excluded.state_seq, session = excluded.session, view = excluded.view,
              unfit = excluded.unfit, oldest_open = excluded.oldest_open
          WHERE rankloop_snapshots.state_seq < excluded.state_seq"""
PUBLISH = """INSERT INTO rankloop_published VALUES (%s, %s, %s, %s, %s) ON CONFLICT (stream) DO UPDATE
             SET number = excluded.number, seq = excluded.seq, unfit = excluded.unfit, session = excluded.session
             WHERE rankloop_published.seq < excluded.seq"""


def migrate(connection: psycopg.Connection[Any]) -> None:
    """Bring a database of an earlier version up to date, one numbered step after the other."""
    with connection.transaction():
        connection.execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")  # an index takes its time
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [MIGRATING])
        connection.execute("CREATE TABLE IF NOT EXISTS rankloop_version (version INT NOT NULL)")
        row = connection.execute("SELECT max(version) FROM rankloop_version").fetchone()
        version = (row[0] if row else None) or 0
        if version > len(MIGRATIONS):
            raise Conflict(
                f"the database is of version {version}, this rankloop knows versions up to {len(MIGRATIONS)}"
            )
        for number, script in enumerate(MIGRATIONS[version:], version + 1):
            connection.execute(script)
            connection.execute("INSERT INTO rankloop_version VALUES (%s)", [number])


MAX_WORKERS = 64


class PostgresStore(Queries):
    """One database, many processes. Tests are told, by `passing`, of every point of a write."""

    shared = True
    prefix, mark, has_table = PREFIX, "%s", HAS_TABLE

    def __init__(self, address: str, passing: Callable[[str], None] = lambda point: None) -> None:
        self._passing = passing
        self._reading = Lock()
        self._is_leader = False
        self._connections = Connections(address)
        try:
            migrate(self._connections.to("write"))
            self.slot = self._taken_slot()
        except psycopg.Error as error:
            self.close()
            raise Unavailable(f"the PostgreSQL of RANKLOOP_STORE cannot be used: {error}") from None
        except Conflict:
            self.close()
            raise

    def append(self, entries: Sequence[Entry], after: int) -> Written:
        try:
            connection = self._connections.to("write")
            with connection.transaction(), connection.cursor() as cursor:
                written = self._appended(cursor, entries, after)
            self._passing("committed")
            return written
        except psycopg.errors.DiskFull as error:
            raise Full("the disk of the log is full; free some space, nothing of this request was kept") from error
        except psycopg.Error as error:
            self._connections.drop("write")
            raise Unavailable(f"the log cannot be written now ({error}); try again") from error

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._reading:
            try:
                return self._connections.to("read").execute(query, values).fetchall()
            except psycopg.Error as error:
                self._connections.drop("read")
                raise Unavailable(f"the log cannot be read now ({error}); try again") from error

    def of_impression(self, entity: str, impression: str) -> list[Record]:
        return super().of_impression(entity, impression.replace("\0", ""))

    def forget(self, entity: str, after: int, until: int, kept: ArchiveFile) -> None:
        query = f"DELETE FROM {PREFIX}events WHERE stream = %s AND seq > %s AND seq <= %s"
        self._change([(LIST, [entity, *kept]), (query, [entity, after, until])])

    def list_files(self, entity: str, files: Sequence[ArchiveFile]) -> None:
        self._change([(LIST, [entity, *file]) for file in files])

    def lead(self) -> bool:
        """Whether this process holds the lease of the learner; the database gives it back when the process dies."""
        try:
            known = self._connections.has("lease")
            connection = self._connections.to("lease")
            if not known:
                connection.execute(TRY_LOCK, [SLOTS + self.slot])  # the slot went with the connection that broke
            elif connection.execute("SELECT 1").fetchone() and self._is_leader:
                return True
            row = connection.execute(TRY_LOCK, [LEARNING]).fetchone()
            self._is_leader = bool(row and row[0])
        except psycopg.Error:
            self._connections.drop("lease")
            self._is_leader = False
        return self._is_leader

    def publish(self, publication: Publication) -> None:
        """A newer state replaces an older one, never the other way round; the other workers are told."""
        try:
            connection = self._connections.to("publish")
            with connection.transaction():
                connection.execute(PUBLISH, list(publication))
                connection.execute(NOTIFY, [CHANNEL, publication.entity])
        except psycopg.Error as error:
            self._connections.drop("publish")
            raise Unavailable(f"the state cannot be published now ({error})") from error

    def publication(self, entity: str) -> Publication | None:
        query = f"SELECT stream, number, seq, unfit, session FROM {PREFIX}published WHERE stream = %s"
        rows = self.rows(query, [entity])
        return Publication(*rows[0]) if rows else None

    def listen(self, received: Callable[[str], None]) -> None:
        self._connections.listen(received)

    def close(self) -> None:
        self._connections.close()

    def _change(self, queries: Sequence[tuple[str, list[Any]]]) -> None:
        """One transaction on the connection of the readers."""
        with self._reading:
            try:
                connection = self._connections.to("read")
                with connection.transaction():
                    for query, values in queries:
                        connection.execute(query, values)
            except psycopg.Error as error:
                self._connections.drop("read")
                raise Unavailable(f"the log cannot be written now ({error}); try again") from error

    def _appended(self, cursor: psycopg.Cursor[Any], entries: Sequence[Entry], after: int) -> Written:
        self._passing("begin")
        if entries:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [APPENDING])
        missed = records_of(cursor.execute(MISSED_EVENTS, [after]).fetchall())
        if not entries:
            return Written(missed, [])
        now, last = time.time(), missed[-1].seq if missed else after
        numbers = numbers_of(entries, last, self._known(cursor, entries))
        numbered = [(number, entry) for number, entry in zip(numbers, entries) if number]
        written = [Record(number, entry.entity, now, entry.event) for number, entry in numbered]
        rows = [(number, entry.entity, now, entry.impression, entry.body) for number, entry in numbered]
        with cursor.copy(COPY) as copy:  # `executemany` would leave the server without its timer for idle transactions
            copy.set_types(COPIED)
            for row in rows:
                copy.write_row(row)
        self._passing("inserted")
        for kept in (entry.snapshot for entry in entries if entry.snapshot is not None):
            cursor.execute(KEEP, [kept.entity, kept.number, now, *kept[2:]])
            self._passing("snapshot")
        cursor.execute(NOTIFY, [CHANNEL, LOG])
        self._passing("commit")
        return Written([*missed, *written], numbers)

    def _known(self, cursor: psycopg.Cursor[Any], entries: Sequence[Entry]) -> set[tuple[str, str]]:
        """Which impressions are in the log, of those that are to be there once; nobody else appends meanwhile."""
        names = [entry.impression for entry in entries if entry.once]
        return set(cursor.execute(KNOWN, [names]).fetchall()) if names else set()

    def _taken_slot(self) -> int:
        """The lowest number that no other worker has: each draws from a generator of its own."""
        connection = self._connections.to("lease")
        for slot in range(MAX_WORKERS):
            row = connection.execute(TRY_LOCK, [SLOTS + slot]).fetchone()
            if row and row[0]:
                return slot
        raise Conflict(f"{MAX_WORKERS} workers use this database already")

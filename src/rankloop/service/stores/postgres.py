"""The log in PostgreSQL, for several workers: appends one after the other, one learner by lease, news by NOTIFY."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any

import psycopg
from psycopg import sql

from rankloop.core.errors import Conflict
from rankloop.service.errors import Full, Unavailable
from rankloop.service.events import Entry, Record, Snapshot, decode, encode
from rankloop.service.stores.port import Publication, Written

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
)
APPENDING, LEARNING, MIGRATING, SLOTS = 7_304_001, 7_304_002, 7_304_003, 7_304_100  # names of advisory locks
CHANNEL = "rankloop"
PAGE = 2000
INSERT = "INSERT INTO rankloop_events VALUES (%s, %s, %s, %s, %s)"
KEEP = """INSERT INTO rankloop_snapshots VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (stream, number) DO UPDATE
          SET at = excluded.at, state_seq = excluded.state_seq, session = excluded.session, view = excluded.view,
              unfit = excluded.unfit, oldest_open = excluded.oldest_open
          WHERE rankloop_snapshots.state_seq < excluded.state_seq"""
PUBLISH = """INSERT INTO rankloop_published VALUES (%s, %s, %s, %s, %s) ON CONFLICT (stream) DO UPDATE
             SET number = excluded.number, seq = excluded.seq, unfit = excluded.unfit, session = excluded.session
             WHERE rankloop_published.seq < excluded.seq"""


class PostgresStore:
    """One database, many processes. Each kind of work has a connection of its own, opened anew when it breaks."""

    shared = True

    def __init__(self, address: str, passing: Callable[[str], None] = lambda point: None) -> None:
        self.address = address
        self._passing = passing
        self._reading = Lock()
        self._connections: dict[str, psycopg.Connection[Any]] = {}
        self._stopping = Flag()
        self._listener: Thread | None = None
        try:
            _migrate(self._connected("write"))
            self.slot = self._taken_slot()
        except psycopg.OperationalError as error:
            self.close()
            raise Unavailable(f"the PostgreSQL of RANKLOOP_STORE cannot be reached: {error}") from None
        except Conflict:
            self.close()
            raise

    def append(self, entries: Sequence[Entry], after: int) -> Written:
        try:
            connection = self._connected("write")
            with connection.transaction(), connection.cursor() as cursor:
                written = self._appended(cursor, entries, after)
            self._passing("committed")
            return written
        except psycopg.errors.DiskFull as error:
            raise Full("the disk of the log is full; nothing of this request was kept") from error
        except psycopg.Error as error:
            self._dropped("write")
            raise Unavailable(f"the log cannot be written now ({error}); try again") from error

    def read(self, stream: str | None = None, after: int = 0, until: int | None = None) -> Iterator[Record]:
        last = after
        while True:
            where, values = "seq > %s", [last]
            if stream is not None:
                where, values = f"{where} AND stream = %s", [*values, stream]  # type: ignore[list-item]
            if until is not None:
                where, values = f"{where} AND seq <= %s", [*values, until]
            page = _records(self._rows(f"{_SELECT} WHERE {where} ORDER BY seq LIMIT {PAGE}", values))
            yield from page
            if len(page) < PAGE:
                return
            last = page[-1].seq

    def of_impression(self, stream: str, impression: str) -> list[Record]:
        query = f"{_SELECT} WHERE impression = %s AND stream = %s ORDER BY seq"
        return _records(self._rows(query, [impression.replace("\0", ""), stream]))

    def last(self) -> int:
        return int(self._rows("SELECT coalesce(max(seq), 0) FROM rankloop_events")[0][0])

    def streams(self) -> list[str]:
        return [row[0] for row in self._rows("SELECT DISTINCT stream FROM rankloop_events ORDER BY stream")]

    def snapshots(self, stream: str) -> list[tuple[int, int, float]]:
        query = "SELECT number, state_seq, at FROM rankloop_snapshots WHERE stream = %s ORDER BY number"
        return [(row[0], row[1], row[2]) for row in self._rows(query, [stream])]

    def snapshot(self, stream: str, number: int | None = None) -> Snapshot | None:
        where, values = ("", [stream]) if number is None else ("AND number = %s", [stream, number])
        query = f"""SELECT stream, number, state_seq, session, view, unfit, oldest_open FROM rankloop_snapshots
                    WHERE stream = %s {where} ORDER BY state_seq DESC, number DESC LIMIT 1"""
        rows = self._rows(query, values)
        return Snapshot(*rows[0]) if rows else None

    def forget(self, stream: str, after: int, until: int) -> None:
        query = "DELETE FROM rankloop_events WHERE stream = %s AND seq > %s AND seq <= %s RETURNING seq"
        self._rows(query, [stream, after, until])

    def lead(self) -> bool:
        """Whether this process holds the lease of the learner; the database gives it back when the process dies."""
        try:
            known = "lease" in self._connections and not self._connections["lease"].closed
            connection = self._connected("lease")
            if known and connection.execute("SELECT 1").fetchone() and self._leads:
                return True
            row = connection.execute("SELECT pg_try_advisory_lock(%s)", [LEARNING]).fetchone()
            self._leads = bool(row and row[0])
        except psycopg.Error:
            self._dropped("lease")
            self._leads = False
        return self._leads

    _leads = False

    def publish(self, publication: Publication) -> None:
        """A newer state replaces an older one, never the other way round; the other workers are told."""
        try:
            connection = self._connected("publish")
            with connection.transaction():
                connection.execute(PUBLISH, list(publication))
                connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, publication.stream])
        except psycopg.Error as error:
            self._dropped("publish")
            raise Unavailable(f"the state cannot be published now ({error})") from error

    def publication(self, stream: str) -> Publication | None:
        rows = self._rows("SELECT * FROM rankloop_published WHERE stream = %s", [stream])
        return Publication(*rows[0]) if rows else None

    def listen(self, heard: Callable[[str], None]) -> None:
        """Call `heard`, on a thread, with "log" when there are events, with a stream when it has a new state."""
        self._listener = Thread(target=self._listening, args=(heard,), name="listen", daemon=True)
        self._listener.start()

    def close(self) -> None:
        self._stopping.set()
        if self._listener is not None:
            self._listener.join()
        for connection in self._connections.values():
            connection.close()

    def _appended(self, cursor: psycopg.Cursor[Any], entries: Sequence[Entry], after: int) -> Written:
        self._passing("begin")
        if entries:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [APPENDING])
        missed = _records(cursor.execute(f"{_SELECT} WHERE seq > %s ORDER BY seq", [after]).fetchall())
        if not entries:
            return Written(missed, [])
        now, last = time.time(), missed[-1].seq if missed else after
        written = [Record(last + i, entry.stream, now, entry.event) for i, entry in enumerate(entries, 1)]
        rows = [(r.seq, r.stream, now, e.impression, encode(e.event)) for r, e in zip(written, entries)]
        cursor.executemany(INSERT, rows)
        self._passing("inserted")
        for kept in (entry.snapshot for entry in entries if entry.snapshot is not None):
            cursor.execute(KEEP, [kept.stream, kept.number, now, *kept[2:]])
            self._passing("snapshot")
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, "log"])
        self._passing("commit")
        return Written([*missed, *written], [record.seq for record in written])

    def _listening(self, heard: Callable[[str], None]) -> None:
        while not self._stopping.is_set():
            try:
                connection = self._connected("listen")
                connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
                heard("log")  # something may have been missed while nobody listened
                while not self._stopping.is_set():
                    for notice in connection.notifies(timeout=0.5):
                        heard(notice.payload)
                        if self._stopping.is_set():
                            return
            except psycopg.Error:
                self._dropped("listen")
                self._stopping.wait(0.5)

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._reading:
            try:
                return self._connected("read").execute(query, values).fetchall()
            except psycopg.OperationalError as error:
                self._dropped("read")
                raise Unavailable(f"the log cannot be read now ({error}); try again") from error

    def _connected(self, purpose: str) -> psycopg.Connection[Any]:
        connection = self._connections.get(purpose)
        if connection is None or connection.closed:
            if self._stopping.is_set():
                raise psycopg.OperationalError("the store is closed")
            name = f"rankloop {os.getpid()} {purpose}"
            connection = psycopg.connect(self.address, autocommit=True, connect_timeout=5, application_name=name)
            self._connections[purpose] = connection
        return connection

    def _dropped(self, purpose: str) -> None:
        connection = self._connections.pop(purpose, None)
        if connection is not None:
            connection.close()

    def _taken_slot(self) -> int:
        """The lowest number that no other worker has: each draws from a generator of its own."""
        connection = self._connected("slot")
        for slot in range(64):
            row = connection.execute("SELECT pg_try_advisory_lock(%s)", [SLOTS + slot]).fetchone()
            if row and row[0]:
                return slot
        raise Conflict("64 workers use this database already")


_SELECT = "SELECT seq, stream, at, body FROM rankloop_events"


def _records(rows: Sequence[Any]) -> list[Record]:
    return [Record(seq, stream, at, decode(body)) for seq, stream, at, body in rows]


def _migrate(connection: psycopg.Connection[Any]) -> None:
    with connection.transaction():
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

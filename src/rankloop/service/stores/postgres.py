"""The log in PostgreSQL, for several workers: appends one after the other, one learner by lease, news by NOTIFY."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import psycopg

from rankloop.core.errors import Conflict
from rankloop.service.errors import Full, Unavailable
from rankloop.service.events import Entry, Record
from rankloop.service.stores.connections import CHANNEL, NOTIFY, Connections
from rankloop.service.stores.port import LOG, Publication, Written
from rankloop.service.stores.postgres_tables import (
    APPENDING,
    INSERT,
    KEEP,
    LEARNING,
    MISSED,
    PREFIX,
    PUBLISH,
    SLOTS,
    TRY_LOCK,
    migrate,
)
from rankloop.service.stores.queries import Queries, records_of

MOST_WORKERS = 64


class PostgresStore(Queries):
    """One database, many processes. Tests are told, by `passing`, of every point of a write."""

    shared = True
    prefix, mark = PREFIX, "%s"

    def __init__(self, address: str, passing: Callable[[str], None] = lambda point: None) -> None:
        self._passing = passing
        self._reading = Lock()
        self._leads = False
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

    def of_impression(self, stream: str, impression: str) -> list[Record]:
        return super().of_impression(stream, impression.replace("\0", ""))

    def forget(self, stream: str, after: int, until: int) -> None:
        query = f"DELETE FROM {PREFIX}events WHERE stream = %s AND seq > %s AND seq <= %s RETURNING seq"
        self.rows(query, [stream, after, until])

    def lead(self) -> bool:
        """Whether this process holds the lease of the learner; the database gives it back when the process dies."""
        try:
            known = self._connections.has("lease")
            connection = self._connections.to("lease")
            if not known:
                connection.execute(TRY_LOCK, [SLOTS + self.slot])  # the slot went with the connection that broke
            elif connection.execute("SELECT 1").fetchone() and self._leads:
                return True
            row = connection.execute(TRY_LOCK, [LEARNING]).fetchone()
            self._leads = bool(row and row[0])
        except psycopg.Error:
            self._connections.drop("lease")
            self._leads = False
        return self._leads

    def publish(self, publication: Publication) -> None:
        """A newer state replaces an older one, never the other way round; the other workers are told."""
        try:
            connection = self._connections.to("publish")
            with connection.transaction():
                connection.execute(PUBLISH, list(publication))
                connection.execute(NOTIFY, [CHANNEL, publication.stream])
        except psycopg.Error as error:
            self._connections.drop("publish")
            raise Unavailable(f"the state cannot be published now ({error})") from error

    def publication(self, stream: str) -> Publication | None:
        query = f"SELECT stream, number, seq, unfit, session FROM {PREFIX}published WHERE stream = %s"
        rows = self.rows(query, [stream])
        return Publication(*rows[0]) if rows else None

    def listen(self, heard: Callable[[str], None]) -> None:
        self._connections.listen(heard)

    def close(self) -> None:
        self._connections.close()

    def _appended(self, cursor: psycopg.Cursor[Any], entries: Sequence[Entry], after: int) -> Written:
        self._passing("begin")
        if entries:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [APPENDING])
        missed = records_of(cursor.execute(MISSED, [after]).fetchall())
        if not entries:
            return Written(missed, [])
        now, last = time.time(), missed[-1].seq if missed else after
        written = [Record(last + i, entry.stream, now, entry.event) for i, entry in enumerate(entries, 1)]
        rows = [(r.seq, r.stream, now, e.impression, e.body) for r, e in zip(written, entries)]
        cursor.executemany(INSERT, rows)
        self._passing("inserted")
        for kept in (entry.snapshot for entry in entries if entry.snapshot is not None):
            cursor.execute(KEEP, [kept.stream, kept.number, now, *kept[2:]])
            self._passing("snapshot")
        cursor.execute(NOTIFY, [CHANNEL, LOG])
        self._passing("commit")
        return Written([*missed, *written], [record.seq for record in written])

    def _taken_slot(self) -> int:
        """The lowest number that no other worker has: each draws from a generator of its own."""
        connection = self._connections.to("lease")
        for slot in range(MOST_WORKERS):
            row = connection.execute(TRY_LOCK, [SLOTS + slot]).fetchone()
            if row and row[0]:
                return slot
        raise Conflict(f"{MOST_WORKERS} workers use this database already")

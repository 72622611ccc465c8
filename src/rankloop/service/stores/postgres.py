"""The log in PostgreSQL, for several workers: appends side by side, one order, leases for learners, news by NOTIFY."""

import os
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock, current_thread
from typing import Any
from zlib import crc32

import psycopg

from rankloop.core.errors import Conflict
from rankloop.service.errors import StorageFull, Superseded, Unavailable
from rankloop.service.records import ArchiveFile, LogRow, Record, Snapshot, partition_of
from rankloop.service.stores.base import (
    Attendant,
    Lease,
    Publication,
    SharedStore,
    Tail,
    Transaction,
    is_full,
    records_of,
)
from rankloop.service.stores.postgres_connections import NOTIFY, Connections
from rankloop.service.stores.postgres_tables import PREFIX, STEP, XMIN, lock_key, migrate

NOTIFY_ALL = "SELECT pg_notify(%s, entity) FROM unnest(%s::text[]) AS entity"
XID = "pg_current_xact_id()::text::bigint"
CLOCK = "extract(epoch FROM clock_timestamp())::float8"
LIST = f"""INSERT INTO {PREFIX}archive VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (stream, name) DO UPDATE
           SET events = excluded.events, digest = excluded.digest"""
SEIZE = f"""UPDATE {PREFIX}leases SET holder = %s, fence = fence + 1,
            until = clock_timestamp() + make_interval(secs => %s) WHERE part = %s"""
LOCK = "SELECT pg_advisory_xact_lock(key) FROM unnest(%s::bigint[]) AS key"
FENCES = f"SELECT part, fence FROM {PREFIX}leases WHERE part = ANY(%s) ORDER BY part FOR SHARE"
FOUND = f"""SELECT e.seq, e.stream, e.at, e.body
            FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS k (stream, name, seen)
            JOIN {PREFIX}events e ON e.impression = k.name AND (e.stream || '') = k.stream AND e.seq > k.seen
            ORDER BY e.seq"""
CHANGED = f"""SELECT stream, max(seq) FROM {PREFIX}events
              WHERE stream = ANY(%s) AND impression IS NULL AND kind <> 'snapshotted' GROUP BY stream"""
INSERT = f"""INSERT INTO {PREFIX}events (seq, stream, at, impression, body, kind, part)
             SELECT o.first + r.n - 1, r.stream, o.now, r.impression, r.body, r.kind, r.part
             FROM (SELECT ({XID} + epoch) << {STEP} AS first, {CLOCK} AS now FROM {PREFIX}order) o,
             unnest(%b::text[], %b::text[], %b::bytea[], %b::text[], %b::int4[]) WITH ORDINALITY
             AS r (stream, impression, body, kind, part, n) RETURNING seq, at"""
HORIZON = f"(({XMIN} + (SELECT epoch FROM {PREFIX}order)) << {STEP}) - 1"
LOOK = f"SELECT {HORIZON}, {CLOCK}, (SELECT coalesce(max(seq), 0) FROM {PREFIX}events)"
KEEP = f"""INSERT INTO {PREFIX}snapshots VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (stream, number) DO UPDATE
           SET at = excluded.at, state_seq = excluded.state_seq, session = excluded.session, view = excluded.view,
               unfit = excluded.unfit, oldest_open = excluded.oldest_open
           WHERE {PREFIX}snapshots.state_seq < excluded.state_seq"""
PUBLISH = f"""INSERT INTO {PREFIX}published (stream, number, seq, unfit, session, view, fence)
              SELECT *, %s FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[], %s::bytea[])
              ON CONFLICT (stream) DO UPDATE
              SET number = excluded.number, seq = excluded.seq, unfit = excluded.unfit, session = excluded.session,
                  view = excluded.view, fence = excluded.fence
              WHERE {PREFIX}published.seq < excluded.seq AND {PREFIX}published.fence <= excluded.fence"""
RECOUNT = f"UPDATE {PREFIX}published SET seq = %s, view = %s WHERE stream = %s AND seq < %s AND number = %s"
LAG = f"""SELECT coalesce(max(extract(epoch FROM clock_timestamp()) - e.at), 0) FROM {PREFIX}published p
    CROSS JOIN LATERAL (SELECT at FROM {PREFIX}events WHERE stream = p.stream AND seq > p.seq ORDER BY seq LIMIT 1) e"""
LEASE = f"""INSERT INTO {PREFIX}leases AS l (part, holder, fence, until)
            SELECT part, %s, 1, clock_timestamp() + make_interval(secs => %s) FROM unnest(%s::int[]) AS part
            WHERE NOT EXISTS (SELECT 1 FROM {PREFIX}leases h WHERE h.part = part.part AND h.holder <> %s
                                                               AND h.until >= clock_timestamp())
            ON CONFLICT (part) DO UPDATE
            SET fence = CASE WHEN l.holder = excluded.holder THEN l.fence ELSE l.fence + 1 END,
                holder = excluded.holder, until = excluded.until
            WHERE l.holder = excluded.holder OR l.until < clock_timestamp() RETURNING part, fence"""

ATTEND = f"""INSERT INTO {PREFIX}learners AS l (holder, wanted, since, until)
             VALUES (%s, %s, clock_timestamp(), clock_timestamp() + make_interval(secs => %s))
             ON CONFLICT (holder) DO UPDATE SET until = excluded.until,
             since = CASE WHEN l.until < clock_timestamp() THEN excluded.since ELSE l.since END"""
ATTENDANTS = f"""SELECT l.holder, l.wanted, array_remove(array_agg(h.part), NULL),
                 extract(epoch FROM clock_timestamp() - l.since)::float8
                 FROM {PREFIX}learners l LEFT JOIN {PREFIX}leases h
                 ON h.holder = l.holder AND h.until >= clock_timestamp()
                 WHERE l.until >= clock_timestamp() GROUP BY l.holder ORDER BY l.holder"""
GONE = f"DELETE FROM {PREFIX}learners WHERE until < clock_timestamp() - interval '1 hour'"


class PostgresStore(SharedStore):
    """One database, many processes. Tests are told, by `passing`, of every point of a write."""

    shared = True
    prefix, mark = PREFIX, "%s"

    def __init__(
        self, address: str, passing: Callable[[str], None] = lambda point: None, partitions: int | None = None
    ) -> None:
        self._passing = passing
        self._reading = {purpose: Lock() for purpose in ("read", "learn")}
        self._changing = Lock()
        self._connections = Connections(address)
        try:
            writer = self._connections.to("write")
            self.partitions = migrate(writer, partitions)
            self.schema = str(writer.execute("SELECT current_schema()").fetchone()[0])  # type: ignore[index]
        except psycopg.Error as error:
            self.close()
            raise Unavailable(f"the PostgreSQL of RANKLOOP_STORE cannot be used: {error}") from None
        except Conflict:
            self.close()
            raise
        self.learned_here: Collection[int] = ()
        self.channel = "rankloop" if self.schema == "public" else f"rankloop_{crc32(self.schema.encode()):08x}"
        self.learning_channel = f"{self.channel}_learning"

    def append(self, batch: Transaction) -> None:
        try:
            connection = self._connections.to("write")
            if not batch.entries:
                connection.execute("SELECT 1")
                return
            first, now = self._appended(connection, batch)
            self._passing("committed")
            if self._is_for_others(batch):
                self._connections.tell(self.learning_channel)
        except psycopg.errors.DiskFull as error:
            self._undo()
            raise StorageFull(
                "the disk of the log is full; free some space, nothing of this request was kept"
            ) from error
        except psycopg.Error as error:
            self._connections.drop("write")
            raise Unavailable(f"the log cannot be written now ({error}); try again") from error
        except BaseException:
            self._connections.drop("write")  # and with it what was begun
            raise
        batch.number(first, now)

    def _undo(self) -> None:
        """On the same connection: a server whose disk is full may let no new one in."""
        try:
            self._connections.to("write").rollback()
        except psycopg.Error:
            self._connections.drop("write")

    def _is_for_others(self, batch: Transaction) -> bool:
        """Whether another process has something to learn by it."""
        learned = (row.entity for row in batch.rows if row.kind == "final" or row.impression is None)
        return any(partition_of(entity, self.partitions) not in self.learned_here for entity in learned)

    def _appended(self, connection: psycopg.Connection[Any], batch: Transaction) -> tuple[int, float]:
        """Locks first and the transaction's number last: so of one impression the numbers are in the order of locks.

        Every statement is a way to the server and back. What needs no lock is one statement, and its own transaction.
        """
        self._passing("begin")
        needs_lock = bool(batch.locks or batch.partitions or batch.watched)
        records, changed, fences = self._found_for(connection, batch) if needs_lock else ([], {}, {})
        rows = batch.settle(records, changed, fences)
        first, now = self._insert(connection, rows) if rows else (0, 0.0)
        if needs_lock:
            self._passing("commit")
            connection.commit()
        return first, now

    def _found_for(
        self, connection: psycopg.Connection[Any], batch: Transaction
    ) -> tuple[list[Record], dict[str, int], dict[int, int]]:
        """Begin a transaction; what the batch is to be settled with, in one way to the server and back."""
        asked: dict[str, list[Any]] = {"BEGIN": []}
        if batch.locks:
            asked[LOCK] = [sorted(lock_key(self.schema, name) for name in batch.locks)]
        if batch.partitions:
            asked[FENCES] = [batch.partitions]
        if batch.keys:
            streams, names = zip(*batch.keys)
            asked[FOUND] = [list(streams), [name.replace("\0", "") for name in names], list(batch.keys.values())]
        if batch.watched:
            asked[CHANGED] = [list(batch.watched)]
        cursor = psycopg.ClientCursor(connection)
        cursor.execute("; ".join(asked), [value for values in asked.values() for value in values])
        found: dict[str, list[Any]] = {}
        for query in asked:
            found[query] = cursor.fetchall() if cursor.description else []
            cursor.nextset()
        return records_of(found.get(FOUND, [])), dict(found.get(CHANGED, [])), dict(found.get(FENCES, []))

    def _insert(self, connection: psycopg.Connection[Any], rows: Sequence[LogRow]) -> tuple[int, float]:
        parts = [partition_of(row.entity, self.partitions) for row in rows]
        columns = zip(*((row.entity, row.impression, row.body, row.kind) for row in rows))
        numbers = connection.execute(INSERT, [*map(list, columns), parts], binary=True).fetchall()
        first, now = min(numbers)
        self._passing("inserted")
        for kept in (row.snapshot for row in rows if row.snapshot is not None):
            connection.execute(KEEP, [kept.entity, kept.number, now, *kept[2:]])
            self._passing("snapshot")
        # nobody is told of impressions: all commits that tell something wait for each other
        for entity in sorted({row.entity for row in rows if row.impression is None and row.kind != "snapshotted"}):
            connection.execute(NOTIFY, [self.channel, entity])
        return first, now

    def tail(self, after: int, partitions: Sequence[int]) -> Tail:
        """Only what is older than every transaction that still runs: one that commits late comes after it."""
        ((horizon, now, newest),) = self.rows(LOOK)
        if min(horizon, newest) <= after:
            return Tail([], max(after, min(horizon, newest)), now, newest > horizon)
        parts = ", ".join(str(int(part)) for part in partitions) or "-2"
        everything = len(partitions) >= self.partitions
        rows = self.page(None, after, horizon, "" if everything else f" AND part IN ({parts})")
        more = is_full(rows)
        return Tail(records_of(rows), rows[-1][0] if more else min(horizon, newest), now, more or newest > horizon)

    def last(self) -> int:
        ((horizon, _, newest),) = self.rows(LOOK)
        return int(min(horizon, newest))

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        purpose = "learn" if current_thread().name.startswith("learn") else "read"  # learning waits for no export
        with self._reading[purpose]:
            try:
                return self._connections.to(purpose).execute(query, values).fetchall()
            except psycopg.Error as error:
                self._connections.drop(purpose)
                raise Unavailable(f"the log cannot be read now ({error}); try again") from error

    def of_impression(self, entity: str, impression: str) -> list[Record]:
        return super().of_impression(entity, impression.replace("\0", ""))

    def forget(self, entity: str, after: int, until: int, kept: ArchiveFile) -> None:
        query = f"DELETE FROM {PREFIX}events WHERE stream = %s AND seq > %s AND seq <= %s"
        self._change(entity, [(LIST, [entity, *kept]), (query, [entity, after, until])])

    def amend(
        self,
        entity: str,
        events: Mapping[int, LogRow | None],
        since: int,
        snapshots: Sequence[Snapshot],
        files: Mapping[str, ArchiveFile | None],
    ) -> None:
        gone = [seq for seq, row in events.items() if row is None]
        change = f"UPDATE {PREFIX}events SET body = %s, impression = %s, kind = %s WHERE stream = %s AND seq = %s"
        queries: list[tuple[str, list[Any]]] = [
            (f"DELETE FROM {PREFIX}events WHERE stream = %s AND seq = ANY(%s)", [entity, gone]),
            *(
                (change, [row.body, row.impression, row.kind, entity, seq])
                for seq, row in events.items()
                if row is not None
            ),
            (f"DELETE FROM {PREFIX}snapshots WHERE stream = %s AND state_seq >= %s", [entity, since]),
            *((KEEP, [kept.entity, kept.number, time.time(), *kept[2:]]) for kept in snapshots),
            (f"DELETE FROM {PREFIX}archive WHERE stream = %s AND name = ANY(%s)", [entity, list(files)]),
            *((LIST, [entity, *file]) for file in files.values() if file is not None),
            (f"DELETE FROM {PREFIX}published WHERE stream = %s", [entity]),
        ]
        self._change(entity, queries)

    def erase(self, entity: str, before: int) -> None:
        self._change(
            entity,
            [
                (f"DELETE FROM {PREFIX}events WHERE stream = %s AND seq < %s", [entity, before]),
                (f"DELETE FROM {PREFIX}snapshots WHERE stream = %s AND state_seq < %s", [entity, before]),
                (f"DELETE FROM {PREFIX}published WHERE stream = %s AND seq < %s", [entity, before]),
                (f"DELETE FROM {PREFIX}archive WHERE stream = %s AND last_seq < %s", [entity, before]),
            ],
        )

    @contextmanager
    def standstill(self, entity: str, seconds: float) -> Iterator[None]:
        """Take the lease of whoever learns an entity: he stops, and begins again from the log when this is over."""
        part, holder = partition_of(entity, self.partitions), f"amendment {os.getpid()} {secrets.token_hex(4)}"
        give_back = f"UPDATE {PREFIX}leases SET until = '-infinity' WHERE holder = %s"
        self._change(entity, [(SEIZE, [holder, seconds, part])])
        try:
            yield
        finally:
            self._change(entity, [(give_back, [holder])])

    def lease(self, holder: str, wanted: Sequence[int], seconds: float) -> list[Lease]:
        values = [holder, seconds, sorted(wanted), holder]
        with self._writing("lease", "the leases cannot be renewed now") as connection:
            return [Lease(part, fence) for part, fence in connection.execute(LEASE, values).fetchall()]

    def attend(self, holder: str, wanted: Sequence[int], seconds: float) -> list[Attendant]:
        with self._writing("lease", "the leases cannot be renewed now") as connection:
            connection.execute(GONE)
            connection.execute(ATTEND, [holder, sorted(wanted), seconds])
            rows = connection.execute(ATTENDANTS).fetchall()
            return [Attendant(name, frozenset(parts), frozenset(held), age) for name, parts, held, age in rows]

    def release(self, holder: str, partitions: Sequence[int] | None = None) -> None:
        give_back = f"UPDATE {PREFIX}leases SET until = '-infinity' WHERE holder = %s"
        with self._writing("lease", "the leases cannot be given back now") as connection:
            if partitions is not None:
                connection.execute(f"{give_back} AND part = ANY(%s)", [holder, list(partitions)])
                return
            connection.execute(give_back, [holder])
            connection.execute(f"DELETE FROM {PREFIX}learners WHERE holder = %s", [holder])

    def holders(self) -> dict[int, str]:
        return dict(self.rows(f"SELECT part, holder FROM {PREFIX}leases WHERE until >= clock_timestamp()"))

    def lag(self) -> float:
        return float(self.rows(LAG)[0][0])

    def publish(self, publications: Sequence[Publication], lease: Lease) -> None:
        with self._writing("publish", "the states cannot be published now") as connection, connection.transaction():
            if dict(connection.execute(FENCES, [[lease.partition]]).fetchall()).get(lease.partition) != lease.fence:
                raise Superseded("another process learns this by now")
            for each in publications:
                if each.session is None:
                    connection.execute(RECOUNT, [each.seq, each.projection, each.entity, each.seq, each.number])
            new = [each for each in publications if each.session is not None]
            if new:
                connection.execute(PUBLISH, [lease.fence, *map(list, zip(*new))])
                connection.execute(NOTIFY_ALL, [self.channel, [each.entity for each in new]])

    def publication(self, entity: str) -> Publication | None:
        query = f"SELECT stream, number, seq, unfit, session, view FROM {PREFIX}published WHERE stream = %s"
        rows = self.rows(query, [entity])
        return Publication._make(rows[0]) if rows else None

    def published(self) -> dict[str, tuple[int, int]]:
        rows = self.rows(f"SELECT stream, number, seq FROM {PREFIX}published")
        return {entity: (number, seq) for entity, number, seq in rows}

    def projections(self) -> dict[str, tuple[int, bytes]]:
        rows = self.rows(f"SELECT stream, seq, view FROM {PREFIX}published")
        return {entity: (seq, projection) for entity, seq, projection in rows}

    def listen(self, received: Callable[[str], None]) -> None:
        self._connections.listen(self.channel, received)

    def watch(self, wake: Callable[[], None]) -> None:
        self._connections.listen(self.learning_channel, lambda _: wake(), "watch")

    def close(self) -> None:
        self._connections.close()

    def _change(self, entity: str, queries: Sequence[tuple[str, list[Any]]]) -> None:
        """One transaction, while nobody else changes the entity."""
        failure = "the log cannot be changed now"
        with self._changing, self._writing("amend", failure) as connection, connection.transaction():
            connection.execute(LOCK, [[lock_key(self.schema, entity)]])
            for query, values in queries:
                connection.execute(query, values)
            connection.execute(NOTIFY, [self.channel, entity])

    @contextmanager
    def _writing(self, purpose: str, failure: str) -> Iterator[psycopg.Connection[Any]]:
        try:
            yield self._connections.to(purpose)
        except psycopg.Error as error:
            self._connections.drop(purpose)
            raise Unavailable(f"{failure} ({error})") from error

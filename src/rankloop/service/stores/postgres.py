"""The log in PostgreSQL, for several processes: concurrent appends in one order, leases of learners, notifications."""

import os
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock, current_thread
from typing import Any
from zlib import crc32

import psycopg

from rankloop.core.errors import Conflict
from rankloop.service.errors import StorageFull, Superseded, Unavailable
from rankloop.service.records import LogRow, Record, partition_of
from rankloop.service.stores.base import (
    STORAGE_FULL_MESSAGE,
    Lease,
    Publication,
    RegisteredLearner,
    SharedStore,
    Statement,
    Tail,
    Transaction,
    is_full,
    records_of,
    save_snapshot,
)
from rankloop.service.stores.postgres_connections import NOTIFY_CHANNEL, Connections
from rankloop.service.stores.postgres_tables import EVENT_NUMBER_BITS, OLDEST_RUNNING_XID, lock_key, migrate

NOTIFY_ALL = "SELECT pg_notify(%s, entity) FROM unnest(%s::text[]) AS entity"
CURRENT_XID = "pg_current_xact_id()::text::bigint"
CLOCK_SECONDS = "extract(epoch FROM clock_timestamp())::float8"
LOCK_KEYS = "SELECT pg_advisory_xact_lock(key) FROM unnest(%s::bigint[]) AS key"
SELECT_FENCES = "SELECT partition, fence FROM rankloop_leases WHERE partition = ANY(%s) ORDER BY partition FOR SHARE"
SELECT_IMPRESSIONS = """SELECT e.seq, e.entity, e.at, e.body
    FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS k (entity, name, after)
    JOIN rankloop_events e ON e.impression = k.name AND (e.entity || '') = k.entity AND e.seq > k.after
    ORDER BY e.seq"""
SELECT_LAST_CHANGES = """SELECT entity, max(seq) FROM rankloop_events
    WHERE entity = ANY(%s) AND impression IS NULL AND kind <> 'snapshotted' GROUP BY entity"""
INSERT_EVENTS = f"""INSERT INTO rankloop_events (seq, entity, at, impression, body, kind, partition)
    SELECT o.first + r.n - 1, r.entity, o.now, r.impression, r.body, r.kind, r.partition
    FROM (SELECT ({CURRENT_XID} + epoch) << {EVENT_NUMBER_BITS} AS first, {CLOCK_SECONDS} AS now FROM rankloop_order) o,
    unnest(%b::text[], %b::text[], %b::bytea[], %b::text[], %b::int4[]) WITH ORDINALITY
    AS r (entity, impression, body, kind, partition, n) RETURNING seq, at"""
FINAL_SEQ = f"(({OLDEST_RUNNING_XID} + (SELECT epoch FROM rankloop_order)) << {EVENT_NUMBER_BITS}) - 1"
NEWEST_SEQ = "(SELECT coalesce(max(seq), 0) FROM rankloop_events)"
SELECT_LAST = f"SELECT least({FINAL_SEQ}, {NEWEST_SEQ})"
UPSERT_PUBLISHED = """INSERT INTO rankloop_published (entity, number, seq, rejected, session, projection, fence)
    SELECT *, %s FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[], %s::bytea[])
    ON CONFLICT (entity) DO UPDATE
    SET number = excluded.number, seq = excluded.seq, rejected = excluded.rejected, session = excluded.session,
        projection = excluded.projection, fence = excluded.fence
    WHERE rankloop_published.seq < excluded.seq AND rankloop_published.fence <= excluded.fence"""
UPDATE_COUNTS = """UPDATE rankloop_published SET seq = %s, projection = %s
    WHERE entity = %s AND seq < %s AND number = %s"""
SELECT_LAG = f"""SELECT coalesce(max({CLOCK_SECONDS} - e.at), 0) FROM rankloop_published p CROSS JOIN LATERAL
    (SELECT at FROM rankloop_events WHERE entity = p.entity AND seq > p.seq ORDER BY seq LIMIT 1) e"""
UPSERT_LEASES = """INSERT INTO rankloop_leases AS l (partition, holder, fence, until)
    SELECT number, %s, 1, clock_timestamp() + make_interval(secs => %s) FROM unnest(%s::int[]) AS number
    WHERE NOT EXISTS (SELECT 1 FROM rankloop_leases h
                      WHERE h.partition = number AND h.holder <> %s AND h.until >= clock_timestamp())
    ON CONFLICT (partition) DO UPDATE
    SET fence = CASE WHEN l.holder = excluded.holder THEN l.fence ELSE l.fence + 1 END,
        holder = excluded.holder, until = excluded.until
    WHERE l.holder = excluded.holder OR l.until < clock_timestamp() RETURNING partition, fence"""
TAKE_LEASE = """UPDATE rankloop_leases SET holder = ?, fence = fence + 1,
    until = clock_timestamp() + make_interval(secs => ?) WHERE partition = ?"""
RELEASE_LEASES = "UPDATE rankloop_leases SET until = '-infinity' WHERE holder = ?"
UPSERT_LEARNER = """INSERT INTO rankloop_learners AS l (holder, allowed, since, until)
    VALUES (%s, %s, clock_timestamp(), clock_timestamp() + make_interval(secs => %s))
    ON CONFLICT (holder) DO UPDATE SET until = excluded.until,
    since = CASE WHEN l.until < clock_timestamp() THEN excluded.since ELSE l.since END"""
SELECT_LEARNERS = """SELECT l.holder, l.allowed, array_remove(array_agg(h.partition), NULL),
    extract(epoch FROM clock_timestamp() - l.since)::float8
    FROM rankloop_learners l LEFT JOIN rankloop_leases h ON h.holder = l.holder AND h.until >= clock_timestamp()
    WHERE l.until >= clock_timestamp() GROUP BY l.holder ORDER BY l.holder"""
DELETE_OLD_LEARNERS = "DELETE FROM rankloop_learners WHERE until < clock_timestamp() - interval '1 hour'"


class PostgresStore(SharedStore):
    """One database, many processes.

    Args:
      address: As in `postgresql://user:password@host/database`.
      on_step: For tests: called with the name of every step of a write.
      partitions: Of a new log; None takes the default, or what the log has.
    """

    shared = True
    last_query = SELECT_LAST

    def __init__(
        self, address: str, on_step: Callable[[str], None] = lambda step: None, partitions: int | None = None
    ) -> None:
        self._on_step = on_step
        self._read_locks = {purpose: Lock() for purpose in ("read", "learn")}
        self._change_lock = Lock()
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
        """Write a batch; only what depends on the log needs a lock."""
        try:
            connection = self._connections.to("write")
            if not batch.entries:
                connection.execute("SELECT 1")
                return
            first, now = self._append(connection, batch)
            self._on_step("committed")
            if self._concerns_other_learners(batch):
                self._connections.notify(self.learning_channel)
        except psycopg.errors.DiskFull as error:
            self._roll_back()
            raise StorageFull(STORAGE_FULL_MESSAGE) from error
        except psycopg.Error as error:
            self._connections.drop("write")
            raise Unavailable(f"the log cannot be written now ({error}); try again") from error
        except BaseException:
            self._connections.drop("write")  # and with it the open transaction
            raise
        batch.number(first, now)

    def _roll_back(self) -> None:
        """Roll back on the same connection: a server whose disk is full may accept no new one."""
        try:
            self._connections.to("write").rollback()
        except psycopg.Error:
            self._connections.drop("write")

    def _concerns_other_learners(self, batch: Transaction) -> bool:
        learned = (row.entity for row in batch.rows if row.kind == "final" or row.impression is None)
        return any(partition_of(entity, self.partitions) not in self.learned_here for entity in learned)

    def _append(self, connection: psycopg.Connection[Any], batch: Transaction) -> tuple[int, float]:
        """Take the locks first and the transaction's number last, so that both have the same order for an impression.

        Every statement is a round trip. What needs no lock is one statement, and its own transaction.
        """
        self._on_step("begin")
        needs_lock = bool(batch.locks or batch.partitions or batch.watched)
        records, changed, fences = self._look_up(connection, batch) if needs_lock else ([], {}, {})
        rows = batch.settle(records, changed, fences)
        first, now = self._insert(connection, rows) if rows else (0, 0.0)
        if needs_lock:
            self._on_step("commit")
            connection.commit()
        return first, now

    def _look_up(
        self, connection: psycopg.Connection[Any], batch: Transaction
    ) -> tuple[list[Record], dict[str, int], dict[int, int]]:
        """Begin a transaction and read what the batch is settled with, in one round trip."""
        queries: dict[str, list[Any]] = {"BEGIN": []}
        if batch.locks:
            queries[LOCK_KEYS] = [sorted(lock_key(self.schema, name) for name in batch.locks)]
        if batch.partitions:
            queries[SELECT_FENCES] = [batch.partitions]
        if batch.keys:
            entities, names = zip(*batch.keys)
            seqs = list(batch.keys.values())
            queries[SELECT_IMPRESSIONS] = [list(entities), [name.replace("\0", "") for name in names], seqs]
        if batch.watched:
            queries[SELECT_LAST_CHANGES] = [list(batch.watched)]
        cursor = psycopg.ClientCursor(connection)
        cursor.execute("; ".join(queries), [value for values in queries.values() for value in values])
        results: dict[str, list[Any]] = {}
        for query in queries:
            results[query] = cursor.fetchall() if cursor.description else []
            cursor.nextset()
        changed, fences = results.get(SELECT_LAST_CHANGES, []), results.get(SELECT_FENCES, [])
        return records_of(results.get(SELECT_IMPRESSIONS, [])), dict(changed), dict(fences)

    def _insert(self, connection: psycopg.Connection[Any], rows: Sequence[LogRow]) -> tuple[int, float]:
        partitions = [partition_of(row.entity, self.partitions) for row in rows]
        columns = zip(*((row.entity, row.impression, row.body, row.kind) for row in rows))
        numbers = connection.execute(INSERT_EVENTS, [*map(list, columns), partitions], binary=True).fetchall()
        first, now = min(numbers)
        self._on_step("inserted")
        for row in rows:
            if row.snapshot is not None:
                save_snapshot(
                    row, now, lambda query, values: connection.execute(_with_percent_marks(query), list(values))
                )
                self._on_step("snapshot")
        # No notification for impressions: all commits that notify wait for each other.
        for entity in sorted({row.entity for row in rows if row.impression is None and row.kind != "snapshotted"}):
            connection.execute(NOTIFY_CHANNEL, [self.channel, entity])
        return first, now

    def tail(self, after: int, partitions: Sequence[int]) -> Tail:
        """Return only what is older than every running transaction: one that commits late comes after it."""
        ((horizon, now, newest),) = self.rows(f"SELECT {FINAL_SEQ}, {CLOCK_SECONDS}, {NEWEST_SEQ}")
        last = min(horizon, newest)
        if last <= after:
            return Tail([], max(after, last), now, newest > horizon)
        numbers = ", ".join(str(int(partition)) for partition in partitions) or "-2"
        is_all = len(partitions) >= self.partitions
        rows = self.page(None, after, horizon, "" if is_all else f" AND partition IN ({numbers})")
        more = is_full(rows)
        return Tail(records_of(rows), rows[-1][0] if more else last, now, more or newest > horizon)

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query, on the connection of the calling thread."""
        purpose = "learn" if current_thread().name.startswith("learn") else "read"  # learning waits for no export
        with self._read_locks[purpose]:
            try:
                return self._connections.to(purpose).execute(_with_percent_marks(query), values).fetchall()
            except psycopg.Error as error:
                self._connections.drop(purpose)
                raise Unavailable(f"the log cannot be read now ({error}); try again") from error

    def records_of_impression(self, entity: str, impression: str) -> list[Record]:
        """Return the events of one impression; PostgreSQL texts have no zero bytes."""
        return super().records_of_impression(entity, impression.replace("\0", ""))

    @contextmanager
    def pause_learning(self, entity: str, seconds: float) -> Iterator[None]:
        """Take the lease of an entity's learner worker, which stops and rebuilds it from the log afterwards."""
        partition, holder = partition_of(entity, self.partitions), f"amendment {os.getpid()} {secrets.token_hex(4)}"
        self._execute_all(entity, [(TAKE_LEASE, [(holder, seconds, partition)])])
        try:
            yield
        finally:
            self._execute_all(entity, [(RELEASE_LEASES, [(holder,)])])

    def lease(self, holder: str, partitions: Sequence[int], seconds: float) -> list[Lease]:
        """Acquire and renew leases; the clock of the server decides which have expired."""
        values = [holder, seconds, sorted(partitions), holder]
        with self._connection("lease", "the leases cannot be renewed now") as connection:
            return [Lease(*row) for row in connection.execute(UPSERT_LEASES, values).fetchall()]

    def register_learner(self, holder: str, partitions: Sequence[int], seconds: float) -> list[RegisteredLearner]:
        """Register a learner worker and return all."""
        with self._connection("lease", "the leases cannot be renewed now") as connection:
            connection.execute(DELETE_OLD_LEARNERS)
            connection.execute(UPSERT_LEARNER, [holder, sorted(partitions), seconds])
            rows = connection.execute(SELECT_LEARNERS).fetchall()
            return [RegisteredLearner(name, frozenset(parts), frozenset(held), age) for name, parts, held, age in rows]

    def release(self, holder: str, partitions: Sequence[int] | None = None) -> None:
        """Give back leases of a holder."""
        release = _with_percent_marks(RELEASE_LEASES)
        with self._connection("lease", "the leases cannot be given back now") as connection:
            if partitions is not None:
                connection.execute(f"{release} AND partition = ANY(%s)", [holder, list(partitions)])
                return
            connection.execute(release, [holder])
            connection.execute("DELETE FROM rankloop_learners WHERE holder = %s", [holder])

    def holders(self) -> dict[int, str]:
        """Return the holder of each leased partition."""
        return dict(self.rows("SELECT partition, holder FROM rankloop_leases WHERE until >= clock_timestamp()"))

    def lag(self) -> float:
        """Return the age of the oldest event that is in no published state."""
        return float(self.rows(SELECT_LAG)[0][0])

    def publish(self, publications: Sequence[Publication], lease: Lease) -> None:
        """Replace published states by newer ones, under the fence of the lease."""
        with self._connection("publish", "the states cannot be published now") as connection, connection.transaction():
            fences = dict(connection.execute(SELECT_FENCES, [[lease.partition]]).fetchall())
            if fences.get(lease.partition) != lease.fence:
                raise Superseded("another learner worker has taken over this partition")
            for each in publications:
                if each.session is None:
                    connection.execute(UPDATE_COUNTS, [each.seq, each.projection, each.entity, each.seq, each.number])
            new = [each for each in publications if each.session is not None]
            if new:
                connection.execute(UPSERT_PUBLISHED, [lease.fence, *map(list, zip(*new))])
                connection.execute(NOTIFY_ALL, [self.channel, [each.entity for each in new]])

    def publication(self, entity: str) -> Publication | None:
        """Return the published state of an entity."""
        columns = ", ".join(Publication._fields)
        rows = self.rows(f"SELECT {columns} FROM rankloop_published WHERE entity = ?", [entity])
        return Publication._make(rows[0]) if rows else None

    def published_seqs(self) -> dict[str, int]:
        """Return the last event of every published state."""
        return dict(self.rows("SELECT entity, seq FROM rankloop_published"))

    def published_projections(self) -> dict[str, tuple[int, bytes]]:
        """Return the last event and the counts of every published state."""
        rows = self.rows("SELECT entity, seq, projection FROM rankloop_published")
        return {entity: (seq, projection) for entity, seq, projection in rows}

    def subscribe(self, notify: Callable[[str], None]) -> None:
        """Listen for changes of entities and new states."""
        self._connections.listen(self.channel, notify)

    def subscribe_to_events(self, wake: Callable[[], None]) -> None:
        """Listen for events to learn from."""
        self._connections.listen(self.learning_channel, lambda _: wake(), "watch")

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    def _execute_all(self, entity: str, statements: Sequence[Statement], overwrite: bool = False) -> None:
        # Deleted rows are overwritten by the server's vacuum, whatever `overwrite` says.
        failure = "the log cannot be changed now"
        with self._change_lock, self._connection("amend", failure) as connection, connection.transaction():
            connection.execute(LOCK_KEYS, [[lock_key(self.schema, entity)]])
            for query, values in statements:
                if values:
                    connection.cursor().executemany(_with_percent_marks(query), values)
            connection.execute(NOTIFY_CHANNEL, [self.channel, entity])

    @contextmanager
    def _connection(self, purpose: str, failure: str) -> Iterator[psycopg.Connection[Any]]:
        try:
            yield self._connections.to(purpose)
        except psycopg.Error as error:
            self._connections.drop(purpose)
            raise Unavailable(f"{failure} ({error})") from error


def _with_percent_marks(query: str) -> str:
    """Return a query of the common SQL with the placeholders of psycopg."""
    return query.replace("?", "%s")

"""The log in PostgreSQL, for several processes: concurrent appends in one order, leases of learners, notifications."""

import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from threading import Event as Flag
from threading import Lock, Thread, current_thread
from typing import Any
from zlib import crc32

import psycopg
from psycopg import sql

from rankloop.core.errors import Conflict
from rankloop.service.errors import StorageFull, Superseded, Unavailable
from rankloop.service.records import LogRow, Record, partition_of
from rankloop.service.stores import base

STATEMENTS_FILE = Path(__file__).with_suffix(".sql")
QUERIES = dict(re.findall(r"(?ms)^-- (\w+)\n(.+?);$", STATEMENTS_FILE.read_text(encoding="utf-8")))  # by name
NOTIFY_CHANNEL = "SELECT pg_notify(%s, %s)"
CONNECT_SECONDS = 5  # until a connection must be made
LISTEN_SECONDS = 0.5  # between two looks whether to stop, and before a new connection
IDLE_SECONDS = 3  # for which a transaction may be idle; less than a lease lives
LOCK_SECONDS = 15  # to wait for another transaction, before the request fails
STATEMENT_SECONDS = {"read": 300}
OTHER_STATEMENT_SECONDS = 30
KEEPALIVE_OPTIONS = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
USER_TIMEOUT = {"tcp_user_timeout": 20_000}  # milliseconds, until a connection without acknowledgements is given up
COLUMN_TYPES = {
    "integer": "BIGINT",
    "real": "DOUBLE PRECISION",
    "binary": "BYTEA",
    "partition": ", partition INT NOT NULL",
}
SHARED_STORE_MIGRATIONS = tuple(  # a step for each of the common ones
    path.read_text(encoding="utf-8") for path in sorted(base.MIGRATIONS.glob("??-postgresql.sql"))
)
N_PARTITIONS = 16  # one process at a time learns a partition
EVENT_NUMBER_BITS = 12  # of a sequence number: the position of an event in its transaction
OLDEST_RUNNING_XID = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
NEXT_XID = "pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
NOTIFY_ALL = "SELECT pg_notify(%s, entity) FROM unnest(%s::text[]) AS entity"
CURRENT_XID = "pg_current_xact_id()::text::bigint"
CLOCK_SECONDS = "extract(epoch FROM clock_timestamp())::float8"
LOCK_KEYS = "SELECT pg_advisory_xact_lock(key) FROM unnest(%s::bigint[]) AS key"
SELECT_FENCES = "SELECT partition, fence FROM rankloop_leases WHERE partition = ANY(%s) ORDER BY partition FOR SHARE"
INSERT_EVENTS = f"""INSERT INTO rankloop_events (seq, entity, at, impression, body, kind, partition)
    SELECT o.first + r.n - 1, r.entity, o.now, r.impression, r.body, r.kind, r.partition
    FROM (SELECT ({CURRENT_XID} + epoch) << {EVENT_NUMBER_BITS} AS first, {CLOCK_SECONDS} AS now FROM rankloop_order) o,
    unnest(%b::text[], %b::text[], %b::bytea[], %b::text[], %b::int4[]) WITH ORDINALITY
    AS r (entity, impression, body, kind, partition, n) RETURNING seq, at"""
FINAL_SEQ = f"(({OLDEST_RUNNING_XID} + (SELECT epoch FROM rankloop_order)) << {EVENT_NUMBER_BITS}) - 1"
NEWEST_SEQ = "(SELECT coalesce(max(seq), 0) FROM rankloop_events)"
SELECT_LAST = f"SELECT least({FINAL_SEQ}, {NEWEST_SEQ})"
SELECT_LAG = f"""SELECT coalesce(max({CLOCK_SECONDS} - e.at), 0) FROM rankloop_published p CROSS JOIN LATERAL
    (SELECT at FROM rankloop_events WHERE entity = p.entity AND seq > p.seq ORDER BY seq LIMIT 1) e"""
RELEASE_LEASES = "UPDATE rankloop_leases SET until = '-infinity' WHERE holder = ?"
DELETE_OLD_LEARNERS = "DELETE FROM rankloop_learners WHERE until < clock_timestamp() - interval '1 hour'"


def _connect(address: str, purpose: str) -> psycopg.Connection[Any]:
    """Open a connection with durable commits and bounded waits for a purpose, whatever the server's defaults are."""
    name = f"rankloop {os.getpid()} {purpose}"
    options = {"connect_timeout": CONNECT_SECONDS, "application_name": name} | KEEPALIVE_OPTIONS | USER_TIMEOUT
    connection = psycopg.connect(address, autocommit=True, **options)  # type: ignore[arg-type]
    waits = {
        "idle_in_transaction_session_timeout": IDLE_SECONDS,
        "lock_timeout": LOCK_SECONDS,
        "statement_timeout": STATEMENT_SECONDS.get(purpose, OTHER_STATEMENT_SECONDS),
    }
    try:
        connection.execute(QUERIES["set_durable"])
        if purpose == "write":  # a few keys among millions of rows are looked up, whatever the statistics say
            connection.execute("SET enable_hashjoin = off; SET enable_mergejoin = off")
        for setting, seconds in waits.items():
            connection.execute("SELECT set_config(%s, %s, false)", [setting, f"{seconds}s"])
    except psycopg.Error:
        connection.close()
        raise
    return connection


def _stop_reading(connection: psycopg.Connection[Any]) -> None:
    """Wake the thread that waits on a connection, with an error."""
    with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        duplicate.shutdown(socket.SHUT_RD)


class Connections:
    """The connections of one process; each purpose belongs to one thread at a time."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._stopping = Flag()
        self._open: dict[str, psycopg.Connection[Any]] = {}
        self._threads: list[Thread] = []

    def to(self, purpose: str) -> psycopg.Connection[Any]:
        """Return the connection for a purpose; it is made where there is none."""
        connection = self._open.get(purpose)
        if connection is None or connection.closed:
            if self._stopping.is_set():
                raise psycopg.OperationalError("the store is closed")
            connection = _connect(self.address, purpose)
            self._open[purpose] = connection
        return connection

    def drop(self, purpose: str) -> None:
        """Close the connection for a purpose; the next use makes a new one."""
        connection = self._open.pop(purpose, None)
        if connection is not None:
            connection.close()

    def listen(self, channel: str, notify: Callable[[str], None]) -> None:
        """Call `notify`, on a thread, with the payload of every notification."""
        thread = Thread(target=self._listen, args=(channel, notify), name="listen", daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Close all connections, once the statements on other threads have their answers or have failed."""
        self._stopping.set()
        if listening := self._open.get("listen"):
            _stop_reading(listening)
        for thread in self._threads:
            thread.join()
        until = time.monotonic() + CONNECT_SECONDS
        for connection in list(self._open.values()):
            is_free = connection.lock.acquire(timeout=max(0.0, until - time.monotonic()))
            if not is_free:
                _stop_reading(connection)
                is_free = connection.lock.acquire(timeout=CONNECT_SECONDS)
            connection.close()
            if is_free:
                connection.lock.release()

    def _listen(self, channel: str, notify: Callable[[str], None]) -> None:
        while not self._stopping.is_set():
            try:
                connection = self.to("listen")
                connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                notify(base.ANY_ENTITY)
                while not self._stopping.is_set():
                    for notice in connection.notifies(timeout=LISTEN_SECONDS):
                        notify(notice.payload)
                        if self._stopping.is_set():
                            return
            except psycopg.Error:
                self.drop("listen")
                self._stopping.wait(LISTEN_SECONDS)


class PostgresStore(base.Store):
    """One database, many processes."""

    shared = True
    partitions = N_PARTITIONS
    last_query = SELECT_LAST

    def __init__(self, address: str, on_step: Callable[[str], None] = lambda step: None) -> None:
        self._on_step = on_step
        self._read_locks = {purpose: Lock() for purpose in ("read", "learn")}
        self._change_lock = Lock()
        self._connections = Connections(address)
        try:
            writer = self._connections.to("write")
            migrate(writer)
            self.schema = str(writer.execute("SELECT current_schema()").fetchone()[0])  # type: ignore[index]
        except psycopg.Error as error:
            self.close()
            raise Unavailable(f"the PostgreSQL of RANKLOOP_STORE cannot be used: {error}") from None
        except Conflict:
            self.close()
            raise
        self.channel = "rankloop" if self.schema == "public" else f"rankloop_{crc32(self.schema.encode()):08x}"

    def append(self, batch: base.Transaction) -> None:
        """Write a batch; only what depends on the log needs a lock."""
        try:
            connection = self._connections.to("write")
            if not batch.entries:
                connection.execute("SELECT 1")
                return
            first, now = self._append(connection, batch)
            self._on_step("committed")
        except psycopg.errors.DiskFull as error:
            try:  # on the same connection: a server whose disk is full may accept no new one
                self._connections.to("write").rollback()
            except psycopg.Error:
                self._connections.drop("write")
            raise StorageFull(base.STORAGE_FULL_MESSAGE) from error
        except psycopg.Error as error:
            self._connections.drop("write")
            raise Unavailable(f"the log cannot be written now ({error}); try again") from error
        except BaseException:
            self._connections.drop("write")  # and with it the open transaction
            raise
        batch.number(first, now)

    def _append(self, connection: psycopg.Connection[Any], batch: base.Transaction) -> tuple[int, float]:
        """Take the locks first, the transaction's number last, so that both have the same order for an impression."""
        # Every statement is a round trip. What needs no lock is one statement, and its own transaction.
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
        self, connection: psycopg.Connection[Any], batch: base.Transaction
    ) -> tuple[list[Record], dict[str, int], dict[int, int]]:
        """Begin a transaction and read what the batch is settled with, in one round trip."""
        queries: dict[str, list[Any]] = {"BEGIN": []}
        if batch.locks:
            queries[LOCK_KEYS] = [sorted(_lock_key(self.schema, name) for name in batch.locks)]
        if batch.partitions:
            queries[SELECT_FENCES] = [batch.partitions]
        if batch.keys:
            entities, names = zip(*batch.keys)
            seqs = list(batch.keys.values())
            queries[QUERIES["select_impressions"]] = [list(entities), [name.replace("\0", "") for name in names], seqs]
        if batch.watched:
            queries[QUERIES["select_last_changes"]] = [list(batch.watched)]
        cursor = psycopg.ClientCursor(connection)
        cursor.execute("; ".join(queries), [value for values in queries.values() for value in values])
        results: dict[str, list[Any]] = {}
        for query in queries:
            results[query] = cursor.fetchall() if cursor.description else []
            cursor.nextset()
        changed, fences = results.get(QUERIES["select_last_changes"], []), results.get(SELECT_FENCES, [])
        return base.records_of(results.get(QUERIES["select_impressions"], [])), dict(changed), dict(fences)

    def _insert(self, connection: psycopg.Connection[Any], rows: Sequence[LogRow]) -> tuple[int, float]:
        partitions = [partition_of(row.entity, self.partitions) for row in rows]
        columns = zip(*((row.entity, row.impression, row.body, row.kind) for row in rows))
        numbers = connection.execute(INSERT_EVENTS, [*map(list, columns), partitions], binary=True).fetchall()
        first, now = min(numbers)
        self._on_step("inserted")
        for row in rows:
            if row.snapshot is not None:
                self._save_snapshot(
                    row, now, lambda query, values: connection.execute(_with_percent_marks(query), list(values))
                )
                self._on_step("snapshot")
        # No notification for impressions: all commits that notify wait for each other.
        for entity in sorted({row.entity for row in rows if row.impression is None and row.kind != "snapshotted"}):
            connection.execute(NOTIFY_CHANNEL, [self.channel, entity])
        return first, now

    def tail(self, after: int, partitions: Sequence[int]) -> base.Tail:
        """Return only what is older than every running transaction: one that commits late comes after it."""
        ((horizon, now, newest),) = self.rows(f"SELECT {FINAL_SEQ}, {CLOCK_SECONDS}, {NEWEST_SEQ}")
        last = min(horizon, newest)
        if last <= after:
            return base.Tail([], max(after, last), now, newest > horizon)
        numbers = ", ".join(str(int(partition)) for partition in partitions) or "-2"
        is_all = len(partitions) >= self.partitions
        rows = self.page(None, after, horizon, "" if is_all else f" AND partition IN ({numbers})")
        has_more = base.is_full(rows)
        return base.Tail(base.records_of(rows), rows[-1][0] if has_more else last, now, has_more or newest > horizon)

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query, on the connection of the calling thread."""
        purpose = "learn" if current_thread().name.startswith("learn") else "read"  # learning waits for no export
        with self._read_locks[purpose], self._connection(purpose, "the log cannot be read now") as connection:
            return connection.execute(_with_percent_marks(query), values, binary=True).fetchall()

    def records_of_impression(self, entity: str, impression: str) -> list[Record]:
        """Return the events of one impression; PostgreSQL texts have no zero bytes."""
        return super().records_of_impression(entity, impression.replace("\0", ""))

    @contextmanager
    def pause_learning(self, entity: str, seconds: float) -> Iterator[None]:
        """Take the lease of an entity's learner worker, which stops and rebuilds it from the log afterwards."""
        partition, holder = partition_of(entity, self.partitions), f"amendment {os.getpid()} {secrets.token_hex(4)}"
        self._execute_all(entity, [(QUERIES["take_lease"], [(holder, seconds, partition)])])
        try:
            yield
        finally:
            self._execute_all(entity, [(RELEASE_LEASES, [(holder,)])])

    def lease(self, holder: str, partitions: Sequence[int], seconds: float) -> list[base.Lease]:
        """Acquire and renew leases; the clock of the server decides which have expired."""
        values = [holder, seconds, sorted(partitions), holder]
        with self._connection("lease", "the leases cannot be renewed now") as connection:
            return [base.Lease(*row) for row in connection.execute(QUERIES["upsert_leases"], values).fetchall()]

    def register_learner(self, holder: str, seconds: float) -> list[base.RegisteredLearner]:
        """Register a learner worker and return all."""
        with self._connection("lease", "the leases cannot be renewed now") as connection:
            connection.execute(DELETE_OLD_LEARNERS)
            connection.execute(QUERIES["upsert_learner"], [holder, seconds])
            rows = connection.execute(QUERIES["select_learners"]).fetchall()
        return [base.RegisteredLearner(name, frozenset(held), age) for name, held, age in rows]

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

    def publish(self, publications: Sequence[base.Publication], lease: base.Lease) -> None:
        """Replace published states by newer ones, under the fence of the lease."""
        with self._connection("publish", "the states cannot be published now") as connection, connection.transaction():
            fences = dict(connection.execute(SELECT_FENCES, [[lease.partition]]).fetchall())
            if fences.get(lease.partition) != lease.fence:
                raise Superseded("another learner worker has taken over this partition")
            for each in publications:
                if each.session is None:
                    counts = [each.seq, each.projection, each.entity, each.seq, each.number]
                    connection.execute(QUERIES["update_counts"], counts)
            new = [each for each in publications if each.session is not None]
            if new:
                connection.execute(QUERIES["upsert_published"], [lease.fence, *map(list, zip(*new))])
                connection.execute(NOTIFY_ALL, [self.channel, [each.entity for each in new]])

    def publication(self, entity: str) -> base.Publication | None:
        """Return the published state of an entity."""
        columns = ", ".join(base.Publication._fields)
        rows = self.rows(f"SELECT {columns} FROM rankloop_published WHERE entity = ?", [entity])
        return base.Publication._make(rows[0]) if rows else None

    def published_seqs(self) -> dict[str, int]:
        """Return the last event of every published state."""
        return dict(self.rows("SELECT entity, seq FROM rankloop_published"))

    def subscribe(self, notify: Callable[[str], None]) -> None:
        """Listen for changes of entities and new states."""
        self._connections.listen(self.channel, notify)

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    def _execute_all(self, entity: str, statements: Sequence[base.Statement]) -> None:
        # Deleted rows are overwritten by the server's vacuum.
        failure = "the log cannot be changed now"
        with self._change_lock, self._connection("amend", failure) as connection, connection.transaction():
            connection.execute(LOCK_KEYS, [[_lock_key(self.schema, entity)]])
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
            raise Unavailable(f"{failure} ({error}); try again") from error


def _with_percent_marks(query: str) -> str:
    """Return a query of the common SQL with the placeholders of psycopg."""
    return query.replace("?", "%s")


def migrate(connection: psycopg.Connection[Any]) -> None:
    """Bring a database of an earlier version up to date, one numbered step after the other, in autocommit mode."""
    with connection.transaction():
        connection.execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")  # an index takes its time
        schema = _value(connection, "SELECT current_schema()") or ""
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_lock_key(schema, "migrate")])
        connection.execute("CREATE TABLE IF NOT EXISTS rankloop_version (version INT NOT NULL)")
        version = _value(connection, "SELECT max(version) FROM rankloop_version") or 0
        base.check_version(version)
        scripts = [
            common_script.format(**COLUMN_TYPES) + postgres_script
            for common_script, postgres_script in zip(base.LOG_MIGRATIONS, SHARED_STORE_MIGRATIONS)
        ]
        for number, script in enumerate(scripts[version:], version + 1):
            connection.execute(script)
            connection.execute("INSERT INTO rankloop_version VALUES (%s)", [number])
        _set_epoch(connection)


def _set_epoch(connection: psycopg.Connection[Any]) -> None:
    """Number new events after all others, also after those restored from a server with higher transaction ids."""
    # The number of an event is that of its transaction plus the epoch, followed by its position in the transaction.
    last = "SELECT max(seq) AS seq FROM rankloop_events UNION ALL SELECT max(state_seq) FROM rankloop_snapshots"
    newest = _value(connection, f"SELECT coalesce(max(seq), 0) FROM ({last}) AS last") >> EVENT_NUMBER_BITS
    epoch = _value(connection, "SELECT epoch FROM rankloop_order")
    if epoch is None:
        connection.execute("INSERT INTO rankloop_order VALUES (%s)", [newest + 1])
    elif newest - epoch >= _value(connection, f"SELECT {NEXT_XID}"):  # no transaction of this server has written it
        connection.execute("UPDATE rankloop_order SET epoch = %s", [newest + 1])


def _value(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query).fetchone()
    return None if row is None else row[0]


def _lock_key(schema: str, name: str) -> int:
    """Return the number of an advisory lock: several services fit into one database, each in its schema."""
    return int.from_bytes(blake2b(f"rankloop {schema} {name}".encode(), digest_size=8).digest(), "big", signed=True)

"""The log in PostgreSQL, for several workers: appends side by side, one order, leases for learners, news by NOTIFY."""

import os
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from threading import Event as Flag
from threading import Lock, Thread, current_thread
from typing import Any
from zlib import crc32

import psycopg
from psycopg import sql

from rankloop.core.errors import Conflict
from rankloop.service.errors import Full, Superseded, Unavailable
from rankloop.service.log.events import AnyEvent, ArchiveFile, Record, Snapshot, encode, partition_of
from rankloop.service.log.stores.base import MISSED, Attendant, Lease, Publication, Tail
from rankloop.service.log.stores.queries import Queries, is_full, records_of
from rankloop.service.log.writer import Batch, Row, kind_of

NOTIFY = "SELECT pg_notify(%s, %s)"
NOTIFY_ALL = "SELECT pg_notify(%s, entity) FROM unnest(%s::text[]) AS entity"
PATIENCE = 5  # seconds for a connection to be made
PAUSE = 0.5  # seconds
TELL_EVERY = 0.02  # seconds between two notices that there is something to learn
IDLE_SECONDS = 3  # for which a process may stand still within a transaction; less than a lease lives
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
        if purpose == "write":  # a few keys among millions of rows are looked up, whatever the statistics say
            connection.execute("SET enable_hashjoin = off; SET enable_mergejoin = off")
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
        self._threads: list[Thread] = []
        self._news = Flag()

    def to(self, purpose: str) -> psycopg.Connection[Any]:
        """The connection for a purpose."""
        connection = self._open.get(purpose)
        if connection is None or connection.closed:
            if self._stopping.is_set():
                raise psycopg.OperationalError("the store is closed")
            connection = connected(self.address, purpose)
            self._open[purpose] = connection
        return connection

    def drop(self, purpose: str) -> None:
        connection = self._open.pop(purpose, None)
        if connection is not None:
            connection.close()

    def listen(self, channel: str, received: Callable[[str], None], purpose: str = "listen") -> None:
        """Call `received`, on a thread, with the words of every notice, and with `MISSED` when it begins to listen."""
        self._run(self._listening, channel, received, purpose)

    def tell(self, channel: str) -> None:
        """Send an empty notice soon; many of these are one."""
        if not self._news.is_set():
            self._news.set()
            if not any(thread.name == "tell" for thread in self._threads):
                self._run(self._telling, channel, name="tell")

    def close(self) -> None:
        self._stopping.set()
        self._news.set()
        for thread in self._threads:
            thread.join()
        for connection in self._open.values():
            connection.close()

    def _run(self, work: Callable[..., None], *arguments: Any, name: str = "listen") -> None:
        thread = Thread(target=work, args=arguments, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _telling(self, channel: str) -> None:
        """Apart from the commits that it is about, since all that notify wait for each other; nobody waits for it."""
        while self._news.wait() and not self._stopping.is_set():
            self._news.clear()
            try:
                self.to("tell").execute(NOTIFY, [channel, ""])
            except psycopg.Error:  # who learns looks by itself
                self.drop("tell")
            self._stopping.wait(TELL_EVERY)

    def _listening(self, channel: str, received: Callable[[str], None], purpose: str) -> None:
        while not self._stopping.is_set():
            try:
                connection = self.to(purpose)
                connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                received(MISSED)
                while not self._stopping.is_set():
                    for notice in connection.notifies(timeout=PAUSE):
                        received(notice.payload)
                        if self._stopping.is_set():
                            return
            except psycopg.Error:
                self.drop(purpose)
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
    # What has no default is not known to 0.1, so a worker of 0.1 that still runs can write nothing any more.
    """
    ALTER TABLE rankloop_events ADD COLUMN kind TEXT, ADD COLUMN part INT NOT NULL DEFAULT -1;
    ALTER TABLE rankloop_events ALTER COLUMN part DROP DEFAULT;
    DROP INDEX rankloop_events_of_impression;
    CREATE INDEX rankloop_impressions ON rankloop_events (impression, seq) WHERE impression IS NOT NULL;
    CREATE INDEX rankloop_changes ON rankloop_events (stream, seq) WHERE impression IS NULL;
    DELETE FROM rankloop_published;
    ALTER TABLE rankloop_published ADD COLUMN view BYTEA NOT NULL, ADD COLUMN fence BIGINT NOT NULL;
    CREATE TABLE rankloop_leases (part INT PRIMARY KEY, holder TEXT NOT NULL, fence BIGINT NOT NULL,
                                  until TIMESTAMPTZ NOT NULL);
    CREATE TABLE rankloop_order (epoch BIGINT NOT NULL, settled_after BIGINT NOT NULL, partitions INT NOT NULL);
    """,
    """
    CREATE TABLE rankloop_archive (stream TEXT NOT NULL, name TEXT NOT NULL, first_seq BIGINT NOT NULL,
                                   last_seq BIGINT NOT NULL, events BIGINT NOT NULL, digest TEXT NOT NULL,
                                   PRIMARY KEY (stream, name));
    """,
    """
    CREATE TABLE rankloop_learners (holder TEXT PRIMARY KEY, wanted INT[] NOT NULL, since TIMESTAMPTZ NOT NULL,
                                    until TIMESTAMPTZ NOT NULL);
    """,
)
PREFIX = "rankloop_"
PARTITIONS = 16
STEP = 12  # bits: numbers of one transaction
OLD_SLOTS = 7_304_100, 7_304_163  # advisory locks that workers of 0.1 hold
XID = "pg_current_xact_id()::text::bigint"
XMIN = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
CLOCK = "extract(epoch FROM clock_timestamp())::float8"
HAS_TABLE = "SELECT 1 WHERE to_regclass(%s) IS NOT NULL"
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
              WHERE stream = ANY(%s) AND impression IS NULL AND kind IS DISTINCT FROM 'snapshotted' GROUP BY stream"""
FIRST = f"SELECT ({XID} + epoch) << {STEP}, {CLOCK} FROM {PREFIX}order"
COPY = f"COPY {PREFIX}events (seq, stream, at, impression, body, kind, part) FROM STDIN (FORMAT BINARY)"
COPIED = ("int8", "text", "float8", "text", "bytea", "text", "int4")
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


def migrate(connection: psycopg.Connection[Any], partitions: int | None = None) -> int:
    """Bring a database of an earlier version up to date, one numbered step after the other; how many partitions."""
    with connection.transaction():
        connection.execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")  # an index takes its time
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [tenant_key(connection, "migrate")])
        connection.execute("CREATE TABLE IF NOT EXISTS rankloop_version (version INT NOT NULL)")
        row = connection.execute("SELECT max(version) FROM rankloop_version").fetchone()
        version = (row[0] if row else None) or 0
        if version > len(MIGRATIONS):
            raise Conflict(
                f"the database is of version {version}, this rankloop knows versions up to {len(MIGRATIONS)}"
            )
        if version < len(MIGRATIONS):
            _check_no_old_workers(connection)
        for number, script in enumerate(MIGRATIONS[version:], version + 1):
            connection.execute(script)
            connection.execute("INSERT INTO rankloop_version VALUES (%s)", [number])
        return _ordered(connection, partitions)


def _check_no_old_workers(connection: psycopg.Connection[Any]) -> None:
    held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid BETWEEN %s AND %s AND database ="
    row = connection.execute(
        f"{held} (SELECT oid FROM pg_database WHERE datname = current_database())", list(OLD_SLOTS)
    ).fetchone()
    if row and row[0]:
        raise Conflict(f"{row[0]} workers of rankloop 0.1 use this database: stop them first, the versions do not mix")


def _ordered(connection: psycopg.Connection[Any], partitions: int | None) -> int:
    """Let new events come after all that are there, also where they were restored from a server that counted further.

    The number of an event is that of its transaction, counted from the epoch, and its position within it.
    """
    last = f"SELECT max(seq) AS seq FROM {PREFIX}events UNION ALL SELECT max(state_seq) FROM {PREFIX}snapshots"
    newest = connection.execute(f"SELECT coalesce(max(seq), 0) FROM ({last}) AS last").fetchone()[0]  # type: ignore[index]
    row = connection.execute(f"SELECT epoch, partitions FROM {PREFIX}order").fetchone()
    if row is None:
        values = [(newest >> STEP) + 1, newest, partitions or PARTITIONS]
        connection.execute(f"INSERT INTO {PREFIX}order VALUES (%s, %s, %s)", values)
        return partitions or PARTITIONS
    epoch, known = row
    if partitions is not None and partitions != known:
        raise Conflict(f"this database has {known} partitions, not {partitions}")
    next_xid = connection.execute(f"SELECT {XMIN}").fetchone()[0]  # type: ignore[index]
    if (newest >> STEP) - epoch >= next_xid and not _is_running(connection, (newest >> STEP) - epoch):
        connection.execute(f"UPDATE {PREFIX}order SET epoch = %s", [(newest >> STEP) + 1])
    return int(known)


def _is_running(connection: psycopg.Connection[Any], xid: int) -> bool:
    """Whether a transaction may have been given out by this server already."""
    row = connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchone()
    return row is not None and xid < row[0]


def tenant_key(connection: psycopg.Connection[Any], name: str) -> int:
    """The number of an advisory lock: of its own in every schema, so that several services fit into one database."""
    row = connection.execute("SELECT current_schema()").fetchone()
    return lock_key(str(row[0]) if row else "", name)


def lock_key(schema: str, name: str) -> int:
    return int.from_bytes(blake2b(f"rankloop {schema} {name}".encode(), digest_size=8).digest(), "big", signed=True)


def _columns(event: AnyEvent) -> tuple[bytes, str | None, str]:
    return encode(event), getattr(event, "impression", None), kind_of(event)


class PostgresStore(Queries):
    """One database, many processes. Tests are told, by `passing`, of every point of a write."""

    shared = True
    prefix, mark, has_table = PREFIX, "%s", HAS_TABLE

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
            self.settled_after = int(self.rows(f"SELECT settled_after FROM {PREFIX}order")[0][0])
        except psycopg.Error as error:
            self.close()
            raise Unavailable(f"the PostgreSQL of RANKLOOP_STORE cannot be used: {error}") from None
        except Conflict:
            self.close()
            raise
        self.learned_here: Collection[int] = ()
        self.channel = "rankloop" if self.schema == "public" else f"rankloop_{crc32(self.schema.encode()):08x}"
        self.learning_channel = f"{self.channel}_learning"

    def append(self, batch: Batch) -> None:
        try:
            connection = self._connections.to("write")
            if not batch.entries:
                connection.execute("SELECT 1")
                return
            with connection.transaction(), connection.cursor() as cursor:
                first, now = self._appended(cursor, batch)
            self._passing("committed")
            if self._is_for_others(batch):
                self._connections.tell(self.learning_channel)
        except psycopg.errors.DiskFull as error:
            raise Full("the disk of the log is full; free some space, nothing of this request was kept") from error
        except psycopg.Error as error:
            self._connections.drop("write")
            raise Unavailable(f"the log cannot be written now ({error}); try again") from error
        batch.number(first, now)

    def _is_for_others(self, batch: Batch) -> bool:
        """Whether another process has something to learn by it."""
        learned = (row.entity for row in batch.rows if row.kind == "final" or row.impression is None)
        return any(partition_of(entity, self.partitions) not in self.learned_here for entity in learned)

    def _appended(self, cursor: psycopg.Cursor[Any], batch: Batch) -> tuple[int, float]:
        """Locks first and the transaction's number last: so of one impression the numbers are in the order of locks."""
        self._passing("begin")
        if batch.locks:
            cursor.execute(LOCK, [sorted(lock_key(self.schema, name) for name in batch.locks)])
        fences = dict(cursor.execute(FENCES, [batch.partitions]).fetchall()) if batch.partitions else {}
        records: list[Record] = []
        if batch.keys:
            streams, names = zip(*batch.keys)
            names = tuple(name.replace("\0", "") for name in names)
            found = cursor.execute(FOUND, [list(streams), list(names), list(batch.keys.values())])
            records = records_of(found.fetchall())
        changed: Mapping[str, int] = {}
        if batch.watched:
            changed = dict(cursor.execute(CHANGED, [list(batch.watched)]).fetchall())
        rows = batch.settle(records, changed, fences)
        if not rows:
            return 0, 0.0
        first, now = cursor.execute(FIRST).fetchone()  # type: ignore[misc]
        self._insert(cursor, rows, first, now)
        self._passing("commit")
        return first, now

    def _insert(self, cursor: psycopg.Cursor[Any], rows: Sequence[Row], first: int, now: float) -> None:
        with cursor.copy(COPY) as copy:  # `executemany` would leave the server without its timer for idle transactions
            copy.set_types(COPIED)
            for number, row in enumerate(rows, first):
                part = partition_of(row.entity, self.partitions)
                copy.write_row((number, row.entity, now, row.impression, row.body, row.kind, part))
        self._passing("inserted")
        for kept in (row.snapshot for row in rows if row.snapshot is not None):
            cursor.execute(KEEP, [kept.entity, kept.number, now, *kept[2:]])
            self._passing("snapshot")
        # nobody is told of impressions: all commits that tell something wait for each other
        for entity in sorted({row.entity for row in rows if row.impression is None and row.kind != "snapshotted"}):
            cursor.execute(NOTIFY, [self.channel, entity])

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

    def list_files(self, entity: str, files: Sequence[ArchiveFile]) -> None:
        self._change(entity, [(LIST, [entity, *file]) for file in files])

    def amend(
        self,
        entity: str,
        events: Mapping[int, AnyEvent | None],
        since: int,
        snapshots: Sequence[Snapshot],
        files: Mapping[str, ArchiveFile | None],
    ) -> None:
        gone = [seq for seq, event in events.items() if event is None]
        change = f"UPDATE {PREFIX}events SET body = %s, impression = %s, kind = %s WHERE stream = %s AND seq = %s"
        queries: list[tuple[str, list[Any]]] = [
            (f"DELETE FROM {PREFIX}events WHERE stream = %s AND seq = ANY(%s)", [entity, gone]),
            *((change, [*_columns(event), entity, seq]) for seq, event in events.items() if event is not None),
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
            return [Lease(*row) for row in connection.execute(LEASE, values).fetchall()]

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
        return Publication(*rows[0]) if rows else None

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

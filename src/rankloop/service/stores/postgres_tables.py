"""The tables of the log in PostgreSQL, by numbered migrations; the order of events, and locks."""

from hashlib import blake2b
from typing import Any

import psycopg

from rankloop.core.errors import Conflict

MIGRATIONS = (
    """
    CREATE TABLE rankloop_events (seq BIGINT PRIMARY KEY, stream TEXT NOT NULL, at DOUBLE PRECISION NOT NULL,
                                  impression TEXT, body BYTEA NOT NULL, kind TEXT NOT NULL, part INT NOT NULL);
    CREATE INDEX rankloop_events_of_stream ON rankloop_events (stream, seq);
    CREATE INDEX rankloop_impressions ON rankloop_events (impression, seq) WHERE impression IS NOT NULL;
    CREATE INDEX rankloop_changes ON rankloop_events (stream, seq) WHERE impression IS NULL;
    CREATE TABLE rankloop_snapshots (stream TEXT NOT NULL, number BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL,
                                     state_seq BIGINT NOT NULL, session BYTEA NOT NULL, view BYTEA NOT NULL,
                                     unfit BIGINT NOT NULL, oldest_open BIGINT NOT NULL, PRIMARY KEY (stream, number));
    CREATE TABLE rankloop_published (stream TEXT PRIMARY KEY, number BIGINT NOT NULL, seq BIGINT NOT NULL,
                                     unfit BIGINT NOT NULL, session BYTEA NOT NULL, view BYTEA NOT NULL,
                                     fence BIGINT NOT NULL);
    CREATE TABLE rankloop_leases (part INT PRIMARY KEY, holder TEXT NOT NULL, fence BIGINT NOT NULL,
                                  until TIMESTAMPTZ NOT NULL);
    CREATE TABLE rankloop_learners (holder TEXT PRIMARY KEY, wanted INT[] NOT NULL, since TIMESTAMPTZ NOT NULL,
                                    until TIMESTAMPTZ NOT NULL);
    CREATE TABLE rankloop_order (epoch BIGINT NOT NULL, partitions INT NOT NULL);
    CREATE TABLE rankloop_archive (stream TEXT NOT NULL, name TEXT NOT NULL, first_seq BIGINT NOT NULL,
                                   last_seq BIGINT NOT NULL, events BIGINT NOT NULL, digest TEXT NOT NULL,
                                   PRIMARY KEY (stream, name));
    """,
)
PREFIX = "rankloop_"
PARTITIONS = 16
STEP = 12  # bits: numbers of one transaction
XMIN = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


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
        for number, script in enumerate(MIGRATIONS[version:], version + 1):
            connection.execute(script)
            connection.execute("INSERT INTO rankloop_version VALUES (%s)", [number])
        return _ordered(connection, partitions)


def _ordered(connection: psycopg.Connection[Any], partitions: int | None) -> int:
    """Let new events come after all that are there, also where they were restored from a server that counted further.

    The number of an event is that of its transaction, counted from the epoch, and its position within it.
    """
    last = f"SELECT max(seq) AS seq FROM {PREFIX}events UNION ALL SELECT max(state_seq) FROM {PREFIX}snapshots"
    newest = connection.execute(f"SELECT coalesce(max(seq), 0) FROM ({last}) AS last").fetchone()[0]  # type: ignore[index]
    row = connection.execute(f"SELECT epoch, partitions FROM {PREFIX}order").fetchone()
    if row is None:
        values = [(newest >> STEP) + 1, partitions or PARTITIONS]
        connection.execute(f"INSERT INTO {PREFIX}order VALUES (%s, %s)", values)
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

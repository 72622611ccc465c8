"""The tables that only PostgreSQL has, its migrations, and the numbering of events."""

from hashlib import blake2b
from typing import Any

import psycopg

from rankloop.core.errors import Conflict
from rankloop.service.stores.tables import LOG_MIGRATIONS, check_version

COLUMN_TYPES = {
    "integer": "BIGINT",
    "real": "DOUBLE PRECISION",
    "binary": "BYTEA",
    "partition": ", partition INT NOT NULL",
}
SHARED_STORE_MIGRATIONS = (  # a step for each of the common ones
    """
    CREATE TABLE rankloop_published (entity TEXT PRIMARY KEY, number BIGINT NOT NULL, seq BIGINT NOT NULL,
                                     rejected BIGINT NOT NULL, session BYTEA NOT NULL, projection BYTEA NOT NULL,
                                     fence BIGINT NOT NULL);
    CREATE TABLE rankloop_leases (partition INT PRIMARY KEY, holder TEXT NOT NULL, fence BIGINT NOT NULL,
                                  until TIMESTAMPTZ NOT NULL);
    CREATE TABLE rankloop_learners (holder TEXT PRIMARY KEY, allowed INT[] NOT NULL, since TIMESTAMPTZ NOT NULL,
                                    until TIMESTAMPTZ NOT NULL);
    CREATE TABLE rankloop_order (epoch BIGINT NOT NULL, partitions INT NOT NULL);
    """,
)
DEFAULT_PARTITIONS = 16
EVENT_NUMBER_BITS = 12  # of a sequence number: the position of an event in its transaction
OLDEST_RUNNING_XID = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
NEXT_XID = "pg_snapshot_xmax(pg_current_snapshot())::text::bigint"


def migrate(connection: psycopg.Connection[Any], partitions: int | None = None) -> int:
    """Bring a database of an earlier version up to date, one numbered step after the other.

    Args:
      connection: In autocommit mode.
      partitions: Of a new log; None takes the default, or what the log has.

    Returns:
      The number of partitions.

    Raises:
      Conflict: If the log is of a newer rankloop, or has another number of partitions.
    """
    with connection.transaction():
        connection.execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")  # an index takes its time
        schema = _value(connection, "SELECT current_schema()") or ""
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [lock_key(schema, "migrate")])
        connection.execute("CREATE TABLE IF NOT EXISTS rankloop_version (version INT NOT NULL)")
        version = _value(connection, "SELECT max(version) FROM rankloop_version") or 0
        check_version(version)
        scripts = [
            common.format(**COLUMN_TYPES) + extra for common, extra in zip(LOG_MIGRATIONS, SHARED_STORE_MIGRATIONS)
        ]
        for number, script in enumerate(scripts[version:], version + 1):
            connection.execute(script)
            connection.execute("INSERT INTO rankloop_version VALUES (%s)", [number])
        return _set_epoch(connection, partitions)


def _set_epoch(connection: psycopg.Connection[Any], partitions: int | None) -> int:
    """Number new events after all others, also after those restored from a server with higher transaction ids.

    The number of an event is that of its transaction plus the epoch, followed by its position in the transaction.
    """
    last = "SELECT max(seq) AS seq FROM rankloop_events UNION ALL SELECT max(state_seq) FROM rankloop_snapshots"
    newest = _value(connection, f"SELECT coalesce(max(seq), 0) FROM ({last}) AS last") >> EVENT_NUMBER_BITS
    row = connection.execute("SELECT epoch, partitions FROM rankloop_order").fetchone()
    if row is None:
        partitions = partitions or DEFAULT_PARTITIONS
        connection.execute("INSERT INTO rankloop_order VALUES (%s, %s)", [newest + 1, partitions])
        return partitions
    epoch, logged_partitions = row
    if partitions is not None and partitions != logged_partitions:
        raise Conflict(f"this database has {logged_partitions} partitions, not {partitions}")
    if newest - epoch >= _value(connection, f"SELECT {NEXT_XID}"):  # no transaction of this server can have written it
        connection.execute("UPDATE rankloop_order SET epoch = %s", [newest + 1])
    return int(logged_partitions)


def _value(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query).fetchone()
    return None if row is None else row[0]


def lock_key(schema: str, name: str) -> int:
    """Return the number of an advisory lock.

    Args:
      schema: Of the tables: several services fit into one database, each in its schema.
      name: Of what is locked.
    """
    return int.from_bytes(blake2b(f"rankloop {schema} {name}".encode(), digest_size=8).digest(), "big", signed=True)

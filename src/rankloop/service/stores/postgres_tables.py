"""The tables of a log in PostgreSQL, and what is written to them."""

from __future__ import annotations

from typing import Any

import psycopg

from rankloop.core.errors import Conflict

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
PREFIX = "rankloop_"
APPENDING, LEARNING, MIGRATING, SLOTS = 7_304_001, 7_304_002, 7_304_003, 7_304_100  # names of advisory locks
TRY_LOCK = "SELECT pg_try_advisory_lock(%s)"
MISSED = "SELECT seq, stream, at, body FROM rankloop_events WHERE seq > %s ORDER BY seq"
INSERT = "INSERT INTO rankloop_events VALUES (%s, %s, %s, %s, %s)"
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

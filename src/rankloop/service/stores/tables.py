"""The tables that SQLite and PostgreSQL have in common, by numbered migrations, and the statements that fill them."""

from collections.abc import Mapping, Sequence

from rankloop.core.errors import Conflict

LOG_MIGRATIONS = (  # each step is run once; the type names in braces are those of the database
    """
    CREATE TABLE rankloop_events (seq {integer} PRIMARY KEY, entity TEXT NOT NULL, at {real} NOT NULL, impression TEXT,
                                  body {binary} NOT NULL, kind TEXT NOT NULL{partition});
    CREATE INDEX rankloop_events_by_entity ON rankloop_events (entity, seq);
    CREATE INDEX rankloop_events_by_impression ON rankloop_events (impression) WHERE impression IS NOT NULL;
    CREATE INDEX rankloop_changes ON rankloop_events (entity, seq) WHERE impression IS NULL;
    CREATE TABLE rankloop_snapshots (entity TEXT NOT NULL, number {integer} NOT NULL, at {real} NOT NULL,
                                     state_seq {integer} NOT NULL, session {binary} NOT NULL,
                                     projection {binary} NOT NULL, rejected {integer} NOT NULL,
                                     oldest_open {integer} NOT NULL, PRIMARY KEY (entity, number));
    CREATE TABLE rankloop_archive (entity TEXT NOT NULL, name TEXT NOT NULL, first_seq {integer} NOT NULL,
                                   last_seq {integer} NOT NULL, events {integer} NOT NULL, digest TEXT NOT NULL,
                                   PRIMARY KEY (entity, name));
    """,
)
LOG_VERSION = len(LOG_MIGRATIONS)
COLUMNS: Mapping[str, Sequence[str]] = {  # of the tables that a backup copies
    "rankloop_events": ("seq", "entity", "at", "body", "impression", "kind"),
    "rankloop_snapshots": (
        "entity",
        "number",
        "at",
        "state_seq",
        "session",
        "projection",
        "rejected",
        "oldest_open",
    ),
}
SAVE_SNAPSHOT = """INSERT INTO rankloop_snapshots VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (entity, number) DO UPDATE
    SET at = excluded.at, state_seq = excluded.state_seq, session = excluded.session, projection = excluded.projection,
        rejected = excluded.rejected, oldest_open = excluded.oldest_open
    WHERE rankloop_snapshots.state_seq < excluded.state_seq"""
LIST_FILE = """INSERT INTO rankloop_archive VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (entity, name) DO UPDATE
    SET events = excluded.events, digest = excluded.digest"""


def check_version(version: int) -> None:
    """Raise `Conflict` if a log was written by a newer rankloop.

    Args:
      version: The number of migrations that the log has been through.
    """
    if version > LOG_VERSION:
        raise Conflict(
            f"the log has version {version}, this rankloop reads versions up to {LOG_VERSION}: "
            "use the rankloop that wrote it, or a newer one"
        )

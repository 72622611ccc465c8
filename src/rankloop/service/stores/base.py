"""The interface of a store: what the service needs of a database, with the SQL that both databases share."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard

from rankloop.core.errors import Conflict, NotFound
from rankloop.service.records import Deleted, LogEntry, LogRow, Record, RolledBack, Snapshot, decode

if TYPE_CHECKING:
    from rankloop.service.stores.postgres import PostgresStore

MIGRATIONS = Path(__file__).parent / "migrations"  # each step is run once; type names in braces are the database's
LOG_MIGRATIONS = tuple(path.read_text(encoding="utf-8") for path in sorted(MIGRATIONS.glob("??.sql")))
LOG_VERSION = len(LOG_MIGRATIONS)
SAVE_SNAPSHOT = """INSERT INTO rankloop_snapshots VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (entity, number) DO UPDATE
    SET at = excluded.at, state_seq = excluded.state_seq, session = excluded.session, projection = excluded.projection,
        rejected = excluded.rejected, oldest_open = excluded.oldest_open
    WHERE rankloop_snapshots.state_seq < excluded.state_seq"""
STORAGE_FULL_MESSAGE = "the disk of the log is full; free some space, nothing of this request was kept"
PAGE_ROWS = 2000  # records that are read at a time
PAGE_BYTES = 16_000_000  # of their bodies: of rankings with many features only a few are read at a time
MAX_SEQ = 2**63 - 1
MAX_NAMES_PER_QUERY = 500  # impressions that one query looks up
EVENT_COLUMNS = "seq, entity, at, body"
SNAPSHOT_COLUMNS = "entity, number, state_seq, session, projection, rejected, oldest_open"
ENTITY_WITHOUT_INDEX = "(entity || '')"  # keeps the planner from the index by entity where the one by impression fits
MAX_RECENT_SNAPSHOTS = 20  # that are all kept
SNAPSHOTS_PER_DOUBLING = 2  # of their age that are kept of older ones
SELECT_SNAPSHOTS = "SELECT number, at FROM rankloop_snapshots WHERE entity = ? ORDER BY number"
SELECT_ROLLBACKS = "SELECT body FROM rankloop_events WHERE entity = ? AND kind = 'rolled_back' AND seq > ?"
DELETE_SNAPSHOT = "DELETE FROM rankloop_snapshots WHERE entity = ? AND number = ?"
ANY_ENTITY = ""  # in notifications: anything may have changed, since some may have been missed
Statement = tuple[str, Sequence[Sequence[Any]]]  # a query, and the values of each of its executions


class Tail(NamedTuple):
    """The events after a position, in their final order."""

    records: list[Record]
    until: int  # everything up to here has been read
    now: float  # by the clock of the store
    more: bool  # whether there is more already


class Publication(NamedTuple):
    """The newest state of a ranker or experiment, for processes that do not learn it themselves."""

    entity: str
    number: int
    seq: int
    rejected: int
    session: bytes | None  # empty where nothing is learned; None where the published one is still current
    projection: bytes  # counts and flags at that event


class Transaction(Protocol):
    """Entries that are written together: a store looks up what they depend on, writes `rows`, and numbers them."""

    entries: Sequence[LogEntry]
    keys: dict[tuple[str, str], int]  # impressions that are looked up, each after an event
    shown: dict[tuple[str, str], list[Record]]  # the record of each that is in memory and has no feedback yet
    watched: dict[str, int | None]  # entities of which the last change is looked up
    partitions: list[int]  # whose leases are looked up
    locks: list[str]  # names that no other transaction may write about meanwhile
    rows: list[LogRow]  # to write, once they are settled

    def settle(self, records: Iterable[Record], changed: Mapping[str, int], fences: Mapping[int, int]) -> list[LogRow]:
        """Decide which rows are written, by what the store has looked up."""

    def number(self, first: int, at: float) -> None:
        """Take note that the rows were written under the numbers from `first` on."""


class ReadableLog(ABC):
    """The reading half of a store. `read` and `last` return what is final: no event can come before it any more."""

    last_query = "SELECT coalesce(max(seq), 0) FROM rankloop_events"

    @abstractmethod
    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query, which has a question mark for each value; raise `Unavailable` if it fails."""

    def read(self, entity: str | None = None, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Yield records in order: of one entity or all, after a number, up to another."""
        end = self.last()
        until = end if until is None else min(until, end)
        while page := self.page(entity, after, until):
            yield from records_of(page)
            after = page[-1][0]
            if not is_full(page):
                return

    def records_of_impression(self, entity: str, impression: str) -> list[Record]:
        """Return the events of one impression."""
        return self._records(f"impression = ? AND {ENTITY_WITHOUT_INDEX} = ?", [impression, entity])

    def records_of_impressions(self, entity: str, impressions: Sequence[str], until: int) -> list[Record]:
        """Return the events of several impressions."""
        records: list[Record] = []
        for begin in range(0, len(impressions), MAX_NAMES_PER_QUERY):
            names = impressions[begin : begin + MAX_NAMES_PER_QUERY]
            marks = ", ".join("?" * len(names))
            where = f"{ENTITY_WITHOUT_INDEX} = ? AND seq <= ? AND impression IN ({marks})"
            records += self._records(where, [entity, until, *names])
        return records

    def last(self) -> int:
        """Return the number of the newest final event."""
        return int(self.rows(self.last_query)[0][0])

    def changes(self, entity: str, after: int = 0, with_snapshots: bool = False) -> list[Record]:
        """Return the events of an entity that belong to no impression: its configuration follows from them."""
        kinds = "" if with_snapshots else " AND kind <> 'snapshotted'"
        return self._records(f"entity = ? AND impression IS NULL{kinds} AND seq > ?", [entity, after])

    def first_records(self) -> list[Record]:
        """Return the first event of every entity."""
        where = "impression IS NULL AND kind <> 'deleted'"
        return self._records(f"seq IN (SELECT min(seq) FROM rankloop_events WHERE {where} GROUP BY entity)", [])

    def first_record(self, entity: str) -> Record:
        """Return the event that created an entity, or raise `NotFound`."""
        for record in self.changes(entity):
            if not isinstance(record.event, Deleted):
                return record
        raise NotFound(f"there is no {entity} in the log")

    def deletions(self) -> list[Record]:
        """Return the deletions of entities whose remaining events are not yet removed."""
        changed = "SELECT DISTINCT entity FROM rankloop_events WHERE impression IS NULL"
        return self._records(f"entity IN ({changed}) AND impression IS NULL AND kind = 'deleted'", [])

    def ranked_impressions(self, entity: str, after: int, until: int, limit: int) -> list[tuple[int, float, str]]:
        """Return number, time and name of an entity's impressions, in order."""
        where = f"entity = ? AND seq > ? AND seq <= ? AND kind = 'ranked' ORDER BY seq LIMIT {limit}"
        query = f"SELECT seq, at, impression FROM rankloop_events WHERE {where}"
        return [tuple(row) for row in self.rows(query, [entity, after, until])]

    def closed_among(self, entity: str, impressions: Sequence[str]) -> set[str]:
        """Return those of the named impressions that have closed."""
        marks = ", ".join("?" * len(impressions))
        where = f"{ENTITY_WITHOUT_INDEX} = ? AND kind IN ('final', 'closed') AND impression IN ({marks})"
        rows = self.rows(f"SELECT impression FROM rankloop_events WHERE {where}", [entity, *impressions])
        return {name for (name,) in rows}

    def newest_rankings(self, entity: str, limit: int) -> list[Record]:
        """Return the last rankings of an entity, oldest first."""
        return self._records("entity = ? AND kind = 'ranked'", [entity], f"seq DESC LIMIT {limit}")[::-1]

    def elapsed_seconds(self, entity: str, seq: int, now: float, max_gap: float, until: int | None = None) -> float:
        """Return the time from an event to another, or to now, without longer gaps and those of a clock set back."""
        end, last = (repr(now), MAX_SEQ) if until is None else ("at", until)
        gaps = f"SELECT coalesce(lead(at) OVER (ORDER BY seq), {end}) - at AS gap FROM rankloop_events"
        counted = f"CASE WHEN gap > 0 AND gap <= {max_gap!r} THEN gap ELSE 0 END"
        query = f"SELECT coalesce(sum({counted}), 0.0) FROM ({gaps} WHERE entity = ? AND seq BETWEEN ? AND ?) AS gaps"
        ((elapsed,),) = self.rows(query, [entity, seq, last])
        return float(elapsed)

    def entities(self) -> list[str]:
        """Return the names of all entities in the log, in alphabetical order."""
        query = "SELECT DISTINCT entity FROM rankloop_events WHERE impression IS NULL ORDER BY entity"
        return [row[0] for row in self.rows(query)]

    def snapshots(self, entity: str) -> list[tuple[int, int, float]]:
        """Return state number, sequence number and time of every snapshot, oldest first."""
        query = "SELECT number, state_seq, at FROM rankloop_snapshots WHERE entity = ? ORDER BY number"
        return [tuple(row) for row in self.rows(query, [entity])]

    def snapshot(self, entity: str, number: int | None = None) -> Snapshot | None:
        """Return the snapshot of a state number, or the newest one."""
        where = "entity = ?" if number is None else "entity = ? AND number = ?"
        query = f"SELECT {SNAPSHOT_COLUMNS} FROM rankloop_snapshots WHERE {where} ORDER BY state_seq DESC, number DESC"
        rows = self.rows(f"{query} LIMIT 1", [entity] if number is None else [entity, number])
        return Snapshot._make(rows[0]) if rows else None

    def page(self, entity: str | None, after: int, until: int, condition: str = "") -> list[Any]:
        """Return rows of events up to the one that makes them too many or too large; `condition` is further SQL."""
        values: list[Any] = [after, until]
        where = f"seq > ? AND seq <= ?{condition}"
        if entity is not None:
            where, values = f"{where} AND entity = ?", [*values, entity]
        events = f"rankloop_events WHERE {where}"
        sizes = f"SELECT seq, length(body) AS size FROM {events} ORDER BY seq LIMIT {PAGE_ROWS}"
        sums = f"SELECT seq, sum(size) OVER (ORDER BY seq) AS total FROM ({sizes}) AS sizes"
        last = f"(SELECT min(seq) FROM ({sums}) AS sums WHERE total >= {PAGE_BYTES})"
        query = f"SELECT {EVENT_COLUMNS} FROM {events} AND seq <= coalesce({last}, {MAX_SEQ}) ORDER BY seq"
        return self.rows(f"{query} LIMIT {PAGE_ROWS}", [*values, *values])

    def _records(self, where: str, values: Sequence[Any], order: str = "seq") -> list[Record]:
        query = f"SELECT {EVENT_COLUMNS} FROM rankloop_events WHERE {where} ORDER BY {order}"
        return records_of(self.rows(query, values))


class Store(ReadableLog):
    """A durable log with snapshots, in one order. Methods may block; one thread at a time appends."""

    shared: bool  # whether other processes write to it too
    partitions: int

    @abstractmethod
    def append(self, batch: Transaction) -> None:
        """Write a batch in one transaction; it is durable when this returns.

        `Unavailable` means that none of it was written, or all of it: a connection may break while it commits.
        """

    def append_at_once(self, batch: Transaction) -> bool:
        """Write a batch like `append`, unless that may take longer than a write to the disk; return if it was tried."""
        return False

    @abstractmethod
    def tail(self, after: int, partitions: Sequence[int]) -> Tail:
        """Return the next events of some partitions after a position."""

    def pause_learning(self, entity: str, seconds: float) -> AbstractContextManager[None]:
        """Let no other process learn an entity meanwhile; its learner worker rebuilds it from the log afterwards."""
        return nullcontext()

    @abstractmethod
    def close(self) -> None:
        """Release files and connections."""

    @abstractmethod
    def _execute_all(self, entity: str, statements: Sequence[Statement]) -> None:
        """Run statements in one transaction while no other one changes the entity; deleted rows are overwritten."""

    def _save_snapshot(self, row: LogRow, now: float, execute: Callable[[str, Sequence[Any]], Any]) -> None:
        """Save the snapshot of a row inside its transaction, and thin the older ones of its entity."""
        # A snapshot stays if a rollback leads to it that is not in the new snapshot yet: a restart needs it.
        snapshot: Any = row.snapshot
        execute(SAVE_SNAPSHOT, [snapshot.entity, snapshot.number, now, *snapshot[2:]])
        if row.kind != "snapshotted":  # that of a rollback, which is saved again lest it be thinned at this moment
            return
        surplus = _surplus_snapshots([tuple(each) for each in execute(SELECT_SNAPSHOTS, [row.entity]).fetchall()], now)
        if surplus:
            rollbacks = execute(SELECT_ROLLBACKS, [row.entity, snapshot.state_seq]).fetchall()
            targets = {event.to for (body,) in rollbacks if isinstance(event := decode(body), RolledBack)}
            for number in surplus - targets:
                execute(DELETE_SNAPSHOT, [row.entity, number])

    def erase(self, entity: str, end_seq: int) -> None:
        """Delete all rows of an entity before an event: events, snapshots and states."""
        columns = {"events": "seq", "snapshots": "state_seq"}
        columns |= {"published": "seq"} if self.shared else {}
        delete = "DELETE FROM rankloop_{} WHERE entity = ? AND {} < ?"
        self._execute_all(entity, [(delete.format(*each), [(entity, end_seq)]) for each in columns.items()])

    def amend(
        self,
        entity: str,
        events: Mapping[int, LogRow | None],
        since: int,
        snapshots: Sequence[Snapshot],
    ) -> None:
        """Change the past of an entity in one transaction, while no other process reads or writes it.

        Args:
          entity: A ranker or an experiment.
          events: New rows by event number; None deletes the event.
          since: Snapshots from this event on are replaced.
          snapshots: Those that replace them.
        """
        deleted_rows = [(entity, seq) for seq, row in events.items() if row is None]
        changed = [(row.body, row.impression, row.kind, entity, seq) for seq, row in events.items() if row is not None]
        change = "UPDATE rankloop_events SET body = ?, impression = ?, kind = ? WHERE entity = ? AND seq = ?"
        times, now = {seq: at for _, seq, at in self.snapshots(entity)}, time.time()
        saved = [(each.entity, each.number, times.get(each.state_seq, now), *each[2:]) for each in snapshots]
        statements: list[Statement] = [
            ("DELETE FROM rankloop_events WHERE entity = ? AND seq = ?", deleted_rows),
            (change, changed),
            ("DELETE FROM rankloop_snapshots WHERE entity = ? AND state_seq >= ?", [(entity, since)]),
            (SAVE_SNAPSHOT, saved),
        ]
        if self.shared:
            statements.append(("DELETE FROM rankloop_published WHERE entity = ?", [(entity,)]))
        self._execute_all(entity, statements)


class Lease(NamedTuple):
    """The right to learn a partition; every new holder gets a higher fence number."""

    partition: int
    fence: int


class RegisteredLearner(NamedTuple):
    """A learner worker that has registered with the store."""

    holder: str
    held: frozenset[int]  # partitions of which it has the lease
    seconds: float  # since it registered, by the clock of the store


def is_shared(store: Store) -> TypeGuard["PostgresStore"]:
    """Return True for a store that several processes write to; its driver is imported only where it is used."""
    return store.shared


def _surplus_snapshots(rows: Sequence[tuple[int, float]], now: float) -> set[int]:
    """Return the snapshots that are not kept: the newest stay, and of older ones two for each doubling of their age."""
    kept = dict[int, int]()  # the oldest of each age, by the logarithm of the age
    older = rows[:-MAX_RECENT_SNAPSHOTS]
    for number, at in older:
        kept.setdefault(int(SNAPSHOTS_PER_DOUBLING * math.log2(max(now - at, 1.0))), number)
    return {number for number, _ in older}.difference(kept.values())


def is_full(rows: Sequence[Any]) -> bool:
    """Return whether a page may have left something over."""
    return len(rows) >= PAGE_ROWS or sum(len(row[3]) for row in rows) >= PAGE_BYTES


def records_of(rows: Sequence[Any]) -> list[Record]:
    """Return the records of rows of seq, entity, at and body."""
    return [Record(seq, entity, at, decode(body)) for seq, entity, at, body in rows]


def check_version(version: int) -> None:
    """Raise `Conflict` if a newer rankloop wrote a log, which has been through so many migrations."""
    if version > LOG_VERSION:
        raise Conflict(
            f"the log has version {version}, this rankloop reads versions up to {LOG_VERSION}: "
            "use the rankloop that wrote it, or a newer one"
        )

"""The port: what a service needs of a database."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple, Protocol

from rankloop.service.records import ArchiveFile, LogEntry, LogRow, Record, Snapshot, decode

NO_SPACE = "the disk of the log is full; free some space, nothing of this request was kept"
PAGE = 2000  # records read at a time
PAGE_BYTES = 16_000_000  # the same in bytes: of rankings with many features only a few are read at a time
MAX_SEQ = 2**63 - 1
EVENT = "seq, stream, at, body"
SNAPSHOT = "stream, number, state_seq, session, view, unfit, oldest_open"
NAMES = 500  # impressions that are asked for at a time
OF_ENTITY = "(stream || '')"  # so written, it is no reason to go through all that an entity has: names are sought first
MISSED = ""  # news: anything may have happened while nobody listened; other news name an entity


class Tail(NamedTuple):
    """What has come after an event, in the order in which it counts."""

    records: list[Record]
    until: int  # everything up to here has been read
    now: float  # by the clock of the store
    more: bool  # whether there is more already


class Publication(NamedTuple):
    """The newest state of a ranker or comparison, for workers that do not learn it themselves."""

    entity: str
    number: int
    seq: int
    rejected: int
    session: bytes | None  # empty where nothing is learned; None where it is that of before
    projection: bytes  # counts and flags at that event


class Transaction(Protocol):
    """Entries that are written together: what to look for before, and what they become by what was found."""

    entries: Sequence[LogEntry]
    keys: dict[tuple[str, str], int]  # impressions that are looked up, each after an event
    watched: dict[str, int | None]  # entities of which the last change is looked up
    partitions: list[int]  # whose leases are looked up

    @property
    def locks(self) -> list[str]:
        """What nobody else may write about meanwhile."""

    @property
    def rows(self) -> list[LogRow]:
        """What is written, once it is settled."""

    def settle(self, records: Iterable[Record], changed: Mapping[str, int], fences: Mapping[int, int]) -> list[LogRow]:
        """Decide what is to be written, by what was found."""

    def number(self, first: int, at: float) -> None:
        """The rows were written under the numbers from `first` on."""


class ReadableLog(ABC):
    """The reading half of a store, in SQL that both databases understand; an adapter says how a query is put.

    What `read` and `last` give is final: nothing can come before it any more.
    """

    prefix: ClassVar[str] = ""  # of the names of its tables
    mark: ClassVar[str] = "?"  # where a value goes

    @abstractmethod
    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """The rows of a query; `Unavailable` when the database cannot be read now."""

    def read(self, entity: str | None = None, after: int = 0, until: int | None = None) -> Iterator[Record]:
        last, end = after, self.last()
        end = end if until is None else min(until, end)
        while rows := self.page(entity, last, end):
            yield from records_of(rows)
            if not is_full(rows):
                return
            last = rows[-1][0]

    def of_impression(self, entity: str, impression: str) -> list[Record]:
        """The events of one impression."""
        return self._records(f"impression = {self.mark} AND {OF_ENTITY} = {self.mark}", [impression, entity])

    def of_impressions(self, entity: str, impressions: Sequence[str], until: int) -> list[Record]:
        found: list[Record] = []
        for begin in range(0, len(impressions), NAMES):
            names = impressions[begin : begin + NAMES]
            marks = ", ".join([self.mark] * len(names))
            where = f"{OF_ENTITY} = {self.mark} AND seq <= {self.mark} AND impression IN ({marks})"
            found += self._records(where, [entity, until, *names])
        return found

    def last(self) -> int:
        """The number of the newest event; others may have come, but none before it."""
        return int(self.rows(f"SELECT coalesce(max(seq), 0) FROM {self.prefix}events")[0][0])

    def changes(self, entity: str, after: int = 0) -> list[Record]:
        """The events of an entity that belong to no impression: what its configuration follows from."""
        return self._records(f"stream = {self.mark} AND impression IS NULL AND seq > {self.mark}", [entity, after])

    def beginnings(self) -> list[Record]:
        """The first event of every entity."""
        where = "impression IS NULL AND kind <> 'deleted'"
        first = f"SELECT min(seq) FROM {self.prefix}events WHERE {where} GROUP BY stream"
        return self._records(f"seq IN ({first})", [])

    def deletions(self) -> list[Record]:
        """Entities that were deleted a moment ago, and what is left of them."""
        changed = f"SELECT DISTINCT stream FROM {self.prefix}events WHERE impression IS NULL"
        return self._records(f"stream IN ({changed}) AND impression IS NULL AND kind = 'deleted'", [])

    def shown(self, entity: str, after: int, until: int, most: int) -> list[tuple[int, float, str]]:
        """Number, time and name of the impressions of an entity, in order."""
        where = f"stream = {self.mark} AND seq > {self.mark} AND seq <= {self.mark} AND kind = 'ranked'"
        query = f"SELECT seq, at, impression FROM {self.prefix}events WHERE {where} ORDER BY seq LIMIT {most}"
        return [tuple(row) for row in self.rows(query, [entity, after, until])]

    def closed(self, entity: str, impressions: Sequence[str]) -> set[str]:
        """Which of these impressions have closed."""
        marks = ", ".join([self.mark] * len(impressions))
        where = f"{OF_ENTITY} = {self.mark} AND kind IN ('final', 'closed') AND impression IN ({marks})"
        rows = self.rows(f"SELECT impression FROM {self.prefix}events WHERE {where}", [entity, *impressions])
        return {name for (name,) in rows}

    def newest(self, entity: str, most: int) -> list[Record]:
        """The last rankings of an entity, oldest first."""
        where = f"stream = {self.mark} AND kind = 'ranked' ORDER BY seq DESC LIMIT {most}"
        return records_of(self.rows(f"SELECT {EVENT} FROM {self.prefix}events WHERE {where}", [entity]))[::-1]

    def time_spent(self, entity: str, seq: int, now: float) -> tuple[float, float]:
        """Seconds since an event, a clock that was set back left out, and the longest of them without any event."""
        gap = f"coalesce(lead(at) OVER (ORDER BY seq), {now!r}) - at"
        events = f"{self.prefix}events WHERE stream = {self.mark} AND seq >= {self.mark}"
        total = "coalesce(sum(CASE WHEN gap > 0 THEN gap ELSE 0 END), 0.0)"
        query = f"SELECT {total}, coalesce(max(gap), 0.0) FROM (SELECT {gap} AS gap FROM {events}) AS gaps"
        (row,) = self.rows(query, [entity, seq])
        return float(row[0]), float(row[1])

    def entities(self) -> list[str]:
        """The names of everything in the log, in alphabetical order."""
        query = f"SELECT DISTINCT stream FROM {self.prefix}events WHERE impression IS NULL ORDER BY stream"
        return [row[0] for row in self.rows(query)]

    def snapshots(self, entity: str) -> list[tuple[int, int, float]]:
        """State number, sequence number and time of every snapshot, oldest first."""
        query = f"SELECT number, state_seq, at FROM {self.prefix}snapshots WHERE stream = {self.mark} ORDER BY number"
        return [tuple(row) for row in self.rows(query, [entity])]

    def snapshot(self, entity: str, number: int | None = None) -> Snapshot | None:
        """The snapshot of this state, or the newest."""
        where, values = f"stream = {self.mark}", [entity]
        if number is not None:
            where, values = f"{where} AND number = {self.mark}", [*values, number]  # type: ignore[list-item]
        query = f"SELECT {SNAPSHOT} FROM {self.prefix}snapshots WHERE {where} ORDER BY state_seq DESC, number DESC"
        rows = self.rows(f"{query} LIMIT 1", values)
        return Snapshot._make(rows[0]) if rows else None

    def manifest(self, entity: str) -> list[ArchiveFile]:
        """The files that hold events of an entity in place of the database, in order."""
        columns = "name, first_seq, last_seq, events, digest"
        where = f"stream = {self.mark} ORDER BY first_seq, last_seq"
        rows = self.rows(f"SELECT {columns} FROM {self.prefix}archive WHERE {where}", [entity])
        return [ArchiveFile._make(row) for row in rows]

    def page(self, entity: str | None, after: int, until: int, more: str = "") -> list[Any]:
        """Rows up to the one that makes them too many or too large."""
        where, values = f"seq > {self.mark} AND seq <= {self.mark}{more}", [after, until]
        if entity is not None:
            where, values = f"{where} AND stream = {self.mark}", [*values, entity]  # type: ignore[list-item]
        events = f"{self.prefix}events WHERE {where}"
        sizes = f"SELECT seq, length(body) AS size FROM {events} ORDER BY seq LIMIT {PAGE}"
        sums = f"SELECT seq, sum(size) OVER (ORDER BY seq) AS total FROM ({sizes}) AS sizes"
        last = f"(SELECT min(seq) FROM ({sums}) AS sums WHERE total >= {PAGE_BYTES})"
        query = f"SELECT {EVENT} FROM {events} AND seq <= coalesce({last}, {MAX_SEQ}) ORDER BY seq"
        return self.rows(f"{query} LIMIT {PAGE}", [*values, *values])

    def _records(self, where: str, values: Sequence[Any]) -> list[Record]:
        query = f"SELECT {EVENT} FROM {self.prefix}events WHERE {where} ORDER BY seq"
        return records_of(self.rows(query, values))


class Store(ReadableLog):
    """The port: a durable log with snapshots, in one order. Methods may block; `append` is called by one thread only.

    `append` is one transaction: when it returns, the batch is durable; when it raises `Unavailable`, none of it is
    there, or all of it (a connection may break while it commits), which the next look into the log will show.
    """

    shared: bool  # whether other processes write to it too
    partitions: int

    @abstractmethod
    def append(self, batch: Transaction) -> None: ...

    @abstractmethod
    def tail(self, after: int, partitions: Sequence[int]) -> Tail: ...

    @abstractmethod
    def forget(self, entity: str, after: int, until: int, kept: ArchiveFile) -> None:
        """Delete the events of an entity after one and up to another, which a file holds from now on."""

    @abstractmethod
    def erase(self, entity: str, before: int) -> None:
        """Delete all that there is of an entity before an event: events, snapshots, states, the list of its files."""

    @abstractmethod
    def amend(
        self,
        entity: str,
        events: Mapping[int, LogRow | None],
        since: int,
        snapshots: Sequence[Snapshot],
        files: Mapping[str, ArchiveFile | None],
    ) -> None:
        """Put events in the place of others, None deletes them, and these snapshots in that of those from `since` on.

        Files of the archive are replaced by others, None: by none. It is one transaction, while nobody else reads or
        writes the entity; afterwards nothing of what was deleted is left in the files.
        """

    @abstractmethod
    def close(self) -> None: ...


class Lease(NamedTuple):
    """The right to learn a partition; whoever takes it next gets a higher number."""

    partition: int
    fence: int


class Attendant(NamedTuple):
    """A process that is there to learn: what it may learn, and what it has the leases of."""

    holder: str
    wanted: frozenset[int]
    held: frozenset[int]
    seconds: float  # since it came, by the clock of the store


class SharedStore(Store):
    """A store that several processes write to; one at a time learns a partition, by a lease that ends by itself."""

    learned_here: Collection[int]  # partitions that this process learns itself, of which it need not tell others

    @abstractmethod
    def lease(self, holder: str, wanted: Sequence[int], seconds: float) -> list[Lease]:
        """Take, for so long, those of the wanted partitions that nobody holds; what the holder has is renewed."""

    @abstractmethod
    def attend(self, holder: str, wanted: Sequence[int], seconds: float) -> list[Attendant]:
        """Be known, for so long, as one who learns; all who are."""

    @abstractmethod
    def release(self, holder: str, partitions: Sequence[int] | None = None) -> None:
        """Give back these partitions; without any all, since the holder leaves."""

    @abstractmethod
    def standstill(self, entity: str, seconds: float) -> AbstractContextManager[None]:
        """Nobody learns an entity meanwhile; whoever did begins again from the log afterwards."""

    @abstractmethod
    def holders(self) -> dict[int, str]:
        """Who holds the partitions now."""

    @abstractmethod
    def lag(self) -> float:
        """Seconds since the oldest event that is in no published state yet."""

    @abstractmethod
    def publish(self, publications: Sequence[Publication], lease: Lease) -> None:
        """Newer states replace older ones, never the other way round, and only while the lease is held."""

    @abstractmethod
    def publication(self, entity: str) -> Publication | None: ...

    @abstractmethod
    def published(self) -> dict[str, tuple[int, int]]:
        """The state number and last event of everything that is published."""

    @abstractmethod
    def projections(self) -> dict[str, tuple[int, bytes]]:
        """The last event and the counts of everything that is published."""

    @abstractmethod
    def listen(self, received: Callable[[str], None]) -> None:
        """Call `received`, on a thread, with `MISSED`, or with an entity that has a new state or has changed."""

    @abstractmethod
    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake`, on a thread, when other processes have written what is to be learned."""


def is_full(rows: Sequence[Any]) -> bool:
    """Whether a page may have left something over."""
    return len(rows) >= PAGE or sum(len(body) for *_, body in rows) >= PAGE_BYTES


def records_of(rows: Sequence[Any]) -> list[Record]:
    """Rows of seq, stream, at and body."""
    return [Record(seq, entity, at, decode(body)) for seq, entity, at, body in rows]

"""The port: what a service needs of a database."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, runtime_checkable

from rankloop.service.records import ArchiveFile, Entry, LogRow, Record, Snapshot

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

    entries: Sequence[Entry]
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


class Store(Protocol):
    """A durable log with snapshots, in one order. Methods may block; `append` is called by one thread only.

    `append` is one transaction: when it returns, the batch is durable; when it raises `Unavailable`, none of it is
    there, or all of it (a connection may break while it commits), which the next look into the log will show.
    What `read`, `tail` and `last` give is final: nothing can come before it any more.
    """

    shared: bool  # whether other processes write to it too
    partitions: int

    def append(self, batch: Transaction) -> None: ...
    def read(self, entity: str | None = None, after: int = 0, until: int | None = None) -> Iterator[Record]: ...
    def tail(self, after: int, partitions: Sequence[int]) -> Tail: ...
    def last(self) -> int:
        """The number of the newest event; others may have come, but none before it."""

    def of_impression(self, entity: str, impression: str) -> list[Record]: ...
    def of_impressions(self, entity: str, impressions: Sequence[str], until: int) -> list[Record]: ...
    def changes(self, entity: str, after: int = 0) -> list[Record]:
        """The events of an entity that belong to no impression: what its configuration follows from."""

    def beginnings(self) -> list[Record]:
        """The first event of every entity."""

    def deletions(self) -> list[Record]:
        """Entities that were deleted a moment ago, and what is left of them."""

    def shown(self, entity: str, after: int, until: int, most: int) -> list[tuple[int, float, str]]:
        """Number, time and name of the impressions of an entity, in order."""

    def closed(self, entity: str, impressions: Sequence[str]) -> set[str]:
        """Which of these impressions have closed."""

    def newest(self, entity: str, most: int) -> list[Record]:
        """The last rankings of an entity, oldest first."""

    def time_spent(self, entity: str, seq: int, now: float) -> tuple[float, float]:
        """Seconds since an event, a clock that was set back left out, and the longest of them without any event."""

    def entities(self) -> list[str]: ...
    def snapshots(self, entity: str) -> list[tuple[int, int, float]]:
        """State number, sequence number and time of every snapshot, oldest first."""

    def snapshot(self, entity: str, number: int | None = None) -> Snapshot | None:
        """The snapshot of this state, or the newest."""

    def manifest(self, entity: str) -> list[ArchiveFile]:
        """The files that hold events of an entity in place of the database, in order."""

    def forget(self, entity: str, after: int, until: int, kept: ArchiveFile) -> None:
        """Delete the events of an entity after one and up to another, which a file holds from now on."""

    def erase(self, entity: str, before: int) -> None:
        """Delete all that there is of an entity before an event: events, snapshots, states, the list of its files."""

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


@runtime_checkable
class SharedStore(Store, Protocol):
    """A store that several processes write to; one at a time learns a partition, by a lease that ends by itself."""

    learned_here: Collection[int]  # partitions that this process learns itself, of which it need not tell others

    def lease(self, holder: str, wanted: Sequence[int], seconds: float) -> list[Lease]:
        """Take, for so long, those of the wanted partitions that nobody holds; what the holder has is renewed."""

    def attend(self, holder: str, wanted: Sequence[int], seconds: float) -> list[Attendant]:
        """Be known, for so long, as one who learns; all who are."""

    def release(self, holder: str, partitions: Sequence[int] | None = None) -> None:
        """Give back these partitions; without any all, since the holder leaves."""

    def standstill(self, entity: str, seconds: float) -> AbstractContextManager[None]:
        """Nobody learns an entity meanwhile; whoever did begins again from the log afterwards."""

    def holders(self) -> dict[int, str]:
        """Who holds the partitions now."""

    def lag(self) -> float:
        """Seconds since the oldest event that is in no published state yet."""

    def publish(self, publications: Sequence[Publication], lease: Lease) -> None:
        """Newer states replace older ones, never the other way round, and only while the lease is held."""

    def publication(self, entity: str) -> Publication | None: ...
    def published(self) -> dict[str, tuple[int, int]]:
        """The state number and last event of everything that is published."""

    def projections(self) -> dict[str, tuple[int, bytes]]:
        """The last event and the counts of everything that is published."""

    def listen(self, received: Callable[[str], None]) -> None:
        """Call `received`, on a thread, with `MISSED`, or with an entity that has a new state or has changed."""

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake`, on a thread, when other processes have written what is to be learned."""

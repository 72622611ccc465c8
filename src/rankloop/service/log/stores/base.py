"""The port: what a service needs of a database."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from rankloop.service.log.events import AnyEvent, ArchiveFile, Entry, Record, Snapshot

LOG, MISSED = "log", ""  # news: there are events; anything may have happened while nobody listened


class Written(NamedTuple):
    """The log after a known event, this batch included, and the numbers of the batch's own events.

    The number is 0 for what was to be written once and is there already.
    """

    records: list[Record]
    own: list[int]


class Publication(NamedTuple):
    """The newest state of a ranker, for workers that do not learn it themselves."""

    entity: str
    number: int
    seq: int
    rejected: int
    session: bytes


class Store(Protocol):
    """A durable, totally ordered log with snapshots. Methods may block; `append` is called by one thread only.

    `append` is one transaction: when it returns, the batch is durable; when it raises `Unavailable`, none of it is
    there, or it will be among the records of the next call (a connection may break while it commits).
    """

    shared: bool  # whether other processes write to it too

    def append(self, entries: Sequence[Entry], after: int) -> Written: ...
    def read(self, entity: str | None = None, after: int = 0, until: int | None = None) -> Iterator[Record]: ...
    def of_impression(self, entity: str, impression: str) -> list[Record]: ...
    def last(self) -> int:
        """The number of the newest event."""

    def entities(self) -> list[str]: ...
    def snapshots(self, entity: str) -> list[tuple[int, int, float]]:
        """State number, sequence number and time of every snapshot, oldest first."""

    def snapshot(self, entity: str, number: int | None = None) -> Snapshot | None:
        """The snapshot of this state, or the newest."""

    def manifest(self, entity: str) -> list[ArchiveFile]:
        """The files that hold events of an entity in place of the database, in order."""

    def forget(self, entity: str, after: int, until: int, kept: ArchiveFile) -> None:
        """Delete the events of an entity after one and up to another, which a file holds from now on."""

    def list_files(self, entity: str, files: Sequence[ArchiveFile]) -> None:
        """Add files to the manifest of an entity."""

    def close(self) -> None: ...


@runtime_checkable
class AmendableStore(Store, Protocol):
    """A store whose past can be changed, while nobody else reads or writes the entity."""

    def amend(
        self,
        entity: str,
        events: Mapping[int, AnyEvent | None],
        since: int,
        snapshots: Sequence[Snapshot],
        files: Mapping[str, ArchiveFile | None],
    ) -> None:
        """Put events in the place of others, None deletes them, and these snapshots in that of those from `since` on.

        Files of the archive are replaced by others, None: by none.

        One transaction; afterwards nothing of what was deleted is left in the files.
        """


@runtime_checkable
class SharedStore(Store, Protocol):
    """A store that several processes write to: one of them at a time learns and closes windows, by lease."""

    slot: int  # a number that no other living process has

    def lead(self) -> bool: ...
    def publish(self, publication: Publication) -> None: ...
    def publication(self, entity: str) -> Publication | None: ...
    def listen(self, received: Callable[[str], None]) -> None:
        """Call `received`, on a thread, with `LOG`, with `MISSED`, or with an entity when it has a new state."""

"""Changes to what is in the log: somebody is forgotten, or a click is taken back; the rest is learned again."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rankloop.core.saved_session import loads
from rankloop.service.application.rebuild import FindCatalogue, Rebuilt, first_record, rebuild
from rankloop.service.domain.trainer import digest
from rankloop.service.log.archive import amend_archive, drop_files, read_records, remove_orphans
from rankloop.service.log.writer import entry_of, row_of
from rankloop.service.records import (
    AnyEvent,
    Closed,
    FeedbackReceived,
    Ranked,
    Rebased,
    Record,
    RolledBack,
    Snapshot,
    Snapshotted,
)
from rankloop.service.stores.base import Store

NEVER = 2**62  # an event that never comes
Changes = Mapping[int, AnyEvent | None]  # events by number: what they become, None for those that go


class Selection(NamedTuple):
    """Impressions that are to go: those of a query, of a user, before a time; all that is said must hold."""

    query_id: str | None = None
    user: str | None = None
    before: float | None = None  # seconds since 1970

    def has(self, ranked: Ranked, at: float) -> bool:
        return (
            (self.query_id is None or ranked.query_id == self.query_id)
            and (self.user is None or ranked.user == self.user)
            and (self.before is None or at < self.before)
        )

    def changes(self, records: Iterable[Record]) -> tuple[Changes, int]:
        """All events of such impressions, and how many impressions there are."""
        found, names = dict[int, AnyEvent | None](), set[str]()
        for record in records:
            if isinstance(record.event, Ranked) and self.has(record.event, record.at):
                names.add(record.event.impression)
            if getattr(record.event, "impression", None) in names:
                found[record.seq] = None
        return found, len(names)


def left_open(records: Sequence[Record], selection: Selection) -> list[str]:
    """Return the names of the selected impressions that have not closed yet."""
    events = [record.event for record in records]
    ends = {event.impression for event in events if isinstance(event, Closed)}
    ends |= {event.impression for event in events if isinstance(event, FeedbackReceived) and event.final}
    shown = [(each.event, each.at) for each in records if isinstance(each.event, Ranked)]
    return [ranked.impression for ranked, at in shown if selection.has(ranked, at) and ranked.impression not in ends]


def retracted(records: Iterable[Record], id: str) -> tuple[Changes, int]:
    """The records of one impression without the clicks on an item, and how many there were.

    Where no click is left, all feedback goes: what was taken back is not a page on which nobody clicked.
    """
    records = list(records)
    shown = next((record.event for record in records if isinstance(record.event, Ranked)), None)
    item = next((i for i, known in enumerate(shown.ids) if str(known) == id), None) if shown else None
    found = dict[int, AnyEvent | None]()
    for record in records:
        event = record.event
        if isinstance(event, FeedbackReceived) and event.feedback_kind == "clicks" and item in event.items:
            left = [(i, value) for i, value in zip(event.items, event.values) if i != item]
            items, values = [i for i, _ in left], [value for _, value in left]
            found[record.seq] = FeedbackReceived(event.impression, event.feedback_kind, items, values, event.final)
    count, now = len(found), [found.get(record.seq, record.event) for record in records]
    if count and not any(isinstance(event, FeedbackReceived) and event.items for event in now):
        found |= {record.seq: None for record in records if isinstance(record.event, FeedbackReceived)}
    return found, count


class Amendment:
    """A ranker or a comparison whose past is changed, with all that follows from it.

    A replay of the log arrives afterwards at what is learned from it now. State numbers fall where updates go, so
    events that name a state change too: snapshots and rollbacks.
    """

    def __init__(self, store: Store, entity: str, data: Path, find_catalogue: FindCatalogue) -> None:
        self.store, self.entity, self.data = store, entity, data
        self._find_catalogue = find_catalogue
        self._snapshots: list[Snapshot] = []
        self._numbers: dict[int, int] = {}  # of states with a snapshot: before, and now
        remove_orphans(store, entity, data)

    def write(self, changes: Changes, keeps_state: bool = False) -> None:
        """Change events in one transaction; `keeps_state`: what was learned from those that go stays."""
        now = dict(changes)
        if keeps_state:
            self._keep_state(now)
        else:
            self._rebuild(now, min(changes))
        rows = {
            seq: None if event is None else row_of(entry_of(self.entity, event), event) for seq, event in now.items()
        }
        files = amend_archive(self.data, self.entity, now, self.store.manifest(self.entity))
        self.store.amend(self.entity, rows, NEVER if keeps_state else min(changes), self._snapshots, files)
        drop_files(self.data, files)

    def _keep_state(self, changes: dict[int, AnyEvent | None]) -> None:
        """Put the state after the last change in its place, from where a replay goes on.

        So all that came later is as it was. Snapshots in between cannot be arrived at any more; they are kept as they
        are, to be gone back to.
        """
        first, last = min(changes), max(changes)
        for record in self._records(after=first):
            event = record.event
            if isinstance(event, Snapshotted) and first <= event.state_seq < last:
                snapshot = self.store.snapshot(self.entity, event.number)
                changes[record.seq] = None if snapshot is None else Rebased(event.number, snapshot.session)
        rebuilt = self._rebuild({}, last + 1, last)
        trainer, projection = rebuilt.trainer, rebuilt.projection
        if trainer is None:
            changes[last] = Rebased(projection.now.counters.closed, projection=projection.saved())
        else:
            changes[last] = Rebased(trainer.number, trainer.saved(), trainer.rejected, projection.saved())

    def _rebuild(self, changes: dict[int, AnyEvent | None], since: int, until: int | None = None) -> Rebuilt:
        """Rebuild the entity from the last snapshot before a change, with snapshots where there were some."""
        numbers = [number for number, seq, _ in self.store.snapshots(self.entity) if seq < since]
        snapshot = self.store.snapshot(self.entity, numbers[-1]) if numbers else None
        first = first_record(self.store, self.entity)
        rebuilt = rebuild(first, self._find_catalogue, snapshot, self.store)
        begin = first.seq if snapshot is None else min(snapshot.oldest_open, snapshot.state_seq + 1) - 1
        if rebuilt.trainer is not None:
            rebuilt.trainer.find_state = lambda number: self._state_at(number, rebuilt)
        due = [each.event for each in self._records() if isinstance(each.event, Snapshotted)] if changes else []
        due = sorted((event for event in due if event.state_seq >= since), key=lambda event: event.state_seq)
        for record in self._records(until, begin):
            if record.seq <= rebuilt.seq:
                rebuilt.projection.reopen(record)
                continue
            while due and due[0].state_seq < record.seq:
                self._keep_snapshot(due.pop(0), rebuilt)
            event = changes.get(record.seq, record.event)
            if isinstance(event, Snapshotted) and changes and event.state_seq >= since:
                number = self._numbers[event.number]
                state_digest = digest(self._state_at(number, rebuilt))
                event = changes[record.seq] = Snapshotted(number, event.state_seq, state_digest, event.rankloop_version)
            elif isinstance(event, RolledBack) and event.to in self._numbers:
                event = changes[record.seq] = RolledBack(self._numbers[event.to], event.reason, event.freezes)
            if event is not None:
                rebuilt.projection.apply(record._replace(event=event))
        return rebuilt

    def _keep_snapshot(self, before: Snapshotted, rebuilt: Rebuilt) -> None:
        trainer, projection = rebuilt.trainer, rebuilt.projection
        if trainer is None:
            return
        self._numbers[before.number] = trainer.number
        self._snapshots.append(
            Snapshot(
                entity=self.entity,
                number=trainer.number,
                state_seq=before.state_seq,
                session=trainer.saved(),
                projection=projection.saved(),
                rejected=trainer.rejected,
                oldest_open=projection.oldest_open(before.state_seq),
            )
        )

    def _state_at(self, number: int, rebuilt: Rebuilt) -> Any:
        taken = next((kept for kept in reversed(self._snapshots) if kept.number == number), None)
        snapshot = (taken or self.store.snapshot(self.entity, number)) if number else None
        return loads(snapshot.session).state if snapshot else rebuilt.trainer and rebuilt.trainer.first

    def _records(self, until: int | None = None, after: int = 0) -> Iterator[Record]:
        return read_records(self.store, self.entity, self.data, until, after)

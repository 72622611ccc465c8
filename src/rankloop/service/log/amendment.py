"""Changes to what is in the log: somebody is forgotten, or a click is taken back; the rest is learned again."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from rankloop.core.saved_session import dumps, loads, loads_with_notes
from rankloop.features.schema import Schema
from rankloop.service.log.archive import amend_archive, drop_files, tidy, whole
from rankloop.service.log.catalogue import Catalogue
from rankloop.service.log.events import (
    AnyEvent,
    Closed,
    ComparisonCreated,
    FeedbackReceived,
    Ranked,
    Rebased,
    Record,
    RolledBack,
    Snapshot,
    Snapshotted,
)
from rankloop.service.log.projection import Projection
from rankloop.service.log.recovery import config_of_side, first_record
from rankloop.service.log.stores.base import AmendableStore
from rankloop.service.ranker.config import config_of
from rankloop.service.ranker.trainer import Trainer, digest

NEVER = 2**62  # an event that never comes
Changes = Mapping[int, AnyEvent | None]  # events by number: what they become, None for those that go


class Forgotten(NamedTuple):
    """Which impressions are to be forgotten: those of a query, of a user, before a time; of all that is said."""

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


def left_open(records: Iterable[Record], impressions: Collection[str]) -> list[str]:
    """Those of some impressions that have not closed yet."""
    ends = {record.event.impression for record in records if _ends(record.event)}
    return [name for name in impressions if name not in ends]


def _ends(event: AnyEvent) -> TypeGuard[Closed | FeedbackReceived]:
    return isinstance(event, Closed) or (isinstance(event, FeedbackReceived) and event.final)


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
        if isinstance(event, FeedbackReceived) and event.kind == "clicks" and item in event.items:
            left = [(i, value) for i, value in zip(event.items, event.values) if i != item]
            items, values = [i for i, _ in left], [value for _, value in left]
            found[record.seq] = FeedbackReceived(event.impression, event.kind, items, values, event.final)
    count, now = len(found), [found.get(record.seq, record.event) for record in records]
    if count and not any(isinstance(event, FeedbackReceived) and event.items for event in now):
        found |= {record.seq: None for record in records if isinstance(record.event, FeedbackReceived)}
    return found, count


def amend(
    store: AmendableStore, entity: str, data: Path, changes: Changes, catalogues: Mapping[str, Catalogue]
) -> None:
    """Write changes, and all that follows from them: a replay of the log arrives at what is learned from it now."""
    tidy(store, entity, data)
    relearning = Relearning(store, entity, data, changes, catalogues)
    for record in whole(store, entity, data, after=relearning.begin):
        relearning.apply(record)
    _write(store, entity, data, relearning.changes, relearning.since, relearning.snapshots)


def amend_and_keep(
    store: AmendableStore, entity: str, data: Path, changes: Changes, catalogues: Mapping[str, Catalogue]
) -> None:
    """Delete events, while what was learned from them stays: the state after the last of them is written in its place.

    A replay goes on from there, so all that came later is as it was. Snapshots in between cannot be arrived at any
    more; they are kept as they are, to be gone back to.
    """
    tidy(store, entity, data)
    first, last = min(changes), max(changes)
    now = dict(changes)
    for record in whole(store, entity, data, after=first):
        event = record.event
        if isinstance(event, Snapshotted) and first <= event.state_seq < last:
            kept = store.snapshot(entity, event.number)
            now[record.seq] = None if kept is None else Rebased(event.number, kept.session)
    now[last] = _standing(store, entity, data, last, catalogues)
    _write(store, entity, data, now, NEVER, [])


def _standing(
    store: AmendableStore, entity: str, data: Path, last: int, catalogues: Mapping[str, Catalogue]
) -> Rebased:
    """What an entity amounts to after an event."""
    first = first_record(store, entity).event
    if isinstance(first, ComparisonCreated):
        projection = Projection(config_of_side(first.body, store), first.body.method)
        for record in whole(store, entity, data, last):
            projection.apply(record)
        return Rebased(projection.counters.closed, projection=projection.saved())
    relearning = Relearning(store, entity, data, {last + 1: None}, catalogues)
    for record in whole(store, entity, data, last, after=relearning.begin):
        relearning.apply(record)
    return relearning.rebased()


def _write(
    store: AmendableStore, entity: str, data: Path, changes: Changes, since: int, snapshots: Sequence[Snapshot]
) -> None:
    files = amend_archive(data, entity, changes, store.manifest(entity))
    store.amend(entity, changes, since, snapshots, files)
    drop_files(data, files)


class Relearning:
    """A ranker learned again from the last snapshot before the first change on, with snapshots where there were some.

    State numbers fall where lessons go, so events that name a state change too: snapshots and rollbacks.
    """

    def __init__(
        self,
        store: AmendableStore,
        entity: str,
        data: Path,
        changes: Changes,
        catalogues: Mapping[str, Catalogue],
    ) -> None:
        self.entity, self.store = entity, store
        self.changes = dict(changes)
        self.since = min(changes)
        self.snapshots: list[Snapshot] = []
        self._numbers: dict[int, int] = {}  # of states with a snapshot: before, and now
        self._due = _snapshots_since(whole(store, entity, data), self.since)
        created: Any = first_record(store, entity).event
        base = self._last_before()
        session, notes = (None, {}) if base is None else loads_with_notes(base.session)
        schemas = [Schema.from_plain(plain) for plain in notes.get("schemas", ())]
        config = config_of(created.body)
        config = config.with_schemas(schemas) if schemas else config
        self.projection = Projection(config)
        self.trainer = Trainer(config, created.start, catalogues.get(config.body.problem.catalogue or ""))
        self.begin, self._restored = 0, 0
        if base is not None and session is not None:
            self.projection.restore(base.projection)
            self.trainer.restore(session, base.number, base.rejected, base.state_seq)
            self.begin, self._restored = min(base.oldest_open, base.state_seq + 1) - 1, base.state_seq

    def apply(self, record: Record) -> None:
        """One record after the other, as it is or as it becomes."""
        if record.seq <= self._restored:
            self.projection.reopen(record)
            return
        while self._due and self._due[0].state_seq < record.seq:
            self._snapshot(self._due.pop(0))
        event = self.changes.get(record.seq, record.event)
        if isinstance(event, Snapshotted) and event.state_seq >= self.since:
            number = self._numbers[event.number]
            now = digest(self._state_at(number))
            event = self.changes[record.seq] = Snapshotted(number, event.state_seq, now, event.code)
        elif isinstance(event, RolledBack) and event.to in self._numbers:
            event = self.changes[record.seq] = RolledBack(self._numbers[event.to], event.reason, event.freezes)
        if event is not None:
            step = self.projection.apply(record._replace(event=event)).step
            if step is not None:
                self.trainer.learn(step, self._state_at)

    def rebased(self) -> Rebased:
        """All that is known now, as an event."""
        trainer = self.trainer
        content = dumps(trainer.session, trainer.config.schema_notes())
        return Rebased(trainer.number, content, trainer.rejected, self.projection.saved())

    def _snapshot(self, before: Snapshotted) -> None:
        trainer, projection = self.trainer, self.projection
        self._numbers[before.number] = trainer.number
        content = dumps(trainer.session, trainer.config.schema_notes())
        where = projection.saved(), trainer.rejected, projection.oldest_open(before.state_seq)
        self.snapshots.append(Snapshot(self.entity, trainer.number, before.state_seq, content, *where))

    def _last_before(self) -> Snapshot | None:
        known = [number for number, seq, _ in self.store.snapshots(self.entity) if seq < self.since]
        return self.store.snapshot(self.entity, known[-1]) if known else None

    def _state_at(self, number: int) -> Any:
        if number == 0:
            return self.trainer.first
        taken = next((kept for kept in reversed(self.snapshots) if kept.number == number), None)
        found = taken or self.store.snapshot(self.entity, number)
        return loads(found.session).state if found else self.trainer.first


def _snapshots_since(records: Iterable[Record], since: int) -> list[Snapshotted]:
    """The snapshots whose states depend on what changes, in their order."""
    found = [record.event for record in records if isinstance(record.event, Snapshotted)]
    return sorted((event for event in found if event.state_seq >= since), key=lambda event: event.state_seq)

"""Removal of past events (an amendment): impressions are removed, or clicks retracted, and states learned again."""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rankloop import __version__
from rankloop.logs.columns import USUAL_NAMES, plain_name
from rankloop.service import records
from rankloop.service.application.rebuild import rebuild
from rankloop.service.domain.named_values import logged_values
from rankloop.service.domain.projection import Projection
from rankloop.service.domain.trainer import state_of
from rankloop.service.log.writer import kind_of
from rankloop.service.records import FeedbackReceived, Rebased, RolledBack, Snapshotted
from rankloop.service.request_bodies import ForgetBody
from rankloop.service.stores.base import Store

AFTER_ALL_EVENTS = 2**62
MAX_DELETED_EVENTS = 1_000  # old ones in one transaction, for which new events wait
BESIDE_SERVING_SECONDS = 0.002  # of work, after which learning again pauses as long, so that requests are served
Changes = Mapping[int, records.Event | None]  # new events by number; None for events that are removed


class Selection(ForgetBody):
    """Conditions on impressions to remove; all that are given must hold."""

    def impressions(self, logged: Sequence[records.Record]) -> dict[str, str]:
        """Return the names of the impressions that meet the conditions, each with the place that has the user."""
        shown = [(record.event, record.at) for record in logged if isinstance(record.event, records.Ranked)]
        sessions = {ranked.session for ranked, _ in shown if ranked.user == self.user} - {""}
        places = dict[str, str]()
        for ranked, at in shown:
            place = "" if self.user is None else _place_of(self.user, ranked, sessions)
            if (
                (self.query_id is None or ranked.query_id == self.query_id)
                and (self.user is None or place)
                and (self.shown_before is None or at < self.shown_before)
            ):
                places[ranked.impression] = place
        return places

    def changes(self, logged: Sequence[records.Record]) -> tuple[Changes, int]:
        """Return the removal of all events of such impressions, and the number of impressions."""
        names = self.impressions(logged)
        removed = [record.seq for record in logged if getattr(record.event, "impression", None) in names]
        return dict.fromkeys(removed), len(names)

    def open_impressions(self, logged: Sequence[records.Record]) -> list[str]:
        """Return the names of such impressions that are open."""
        closed = {getattr(record.event, "impression", "") for record in logged if _is_closed_by(record.event)}
        return [name for name in self.impressions(logged) if name not in closed]


def _is_closed_by(event: records.Event) -> bool:
    """Return True if the impression of an event has closed with it, or, for a late outcome, before it."""
    if isinstance(event, records.OutcomesReceived):
        return event.ranked is not None
    return isinstance(event, records.Closed) or (isinstance(event, FeedbackReceived) and event.final)


def _place_of(user: str, ranked: records.Ranked, sessions: Collection[str]) -> str:
    """Return the first field of an impression that has the user; empty if none has."""
    # A session of the user is one, also before the user was known. Of values by name those count whose name is a usual
    # one of users: a size or a year may equal the id of a user.
    if ranked.user == user:
        return "user"
    if ranked.session == user or (ranked.session in sessions and not ranked.user):
        return "session"
    parts: list[tuple[str, records.Values]] = [("tags", ranked.tags)]
    if ranked.schema:
        values = logged_values(ranked)
        parts += [("context", values.context), *(("features", row) for row in values.rows)]
    for part, fields in parts:
        for name, value in fields.items():
            names = value if isinstance(value, list) else [value]
            if plain_name(name) in USUAL_NAMES["user"] and user in map(str, names):
                return f"{part}.{name}"
    return ""


def retract_clicks(logged: Iterable[records.Record], id: str) -> tuple[Changes, int]:
    """Return the changes that remove the clicks on an item, and the number of those clicks.

    If no click is left, all feedback is removed: an impression with retracted clicks is not one without clicks.

    Args:
      logged: Of one impression.
      id: Of the item.
    """
    logged = list(logged)
    shown = next((record.event for record in logged if isinstance(record.event, records.Ranked)), None)
    item = next((i for i, each in enumerate(shown.ids) if str(each) == id), None) if shown else None
    changes = dict[int, records.Event | None]()
    for record in logged:
        event = record.event
        if isinstance(event, FeedbackReceived) and event.feedback_kind == "clicks" and item in event.items:
            left = [(i, value) for i, value in zip(event.items, event.values) if i != item]
            items, values = [i for i, _ in left], [value for _, value in left]
            changes[record.seq] = FeedbackReceived(event.impression, event.feedback_kind, items, values, event.final)
        elif isinstance(event, records.OutcomesReceived) and any(item in by_item for by_item in event.values.values()):
            changes[record.seq] = None  # the outcome of a click that was none
    count, amended = len(changes), [changes.get(record.seq, record.event) for record in logged]
    if count and not any(isinstance(event, FeedbackReceived) and event.items for event in amended):
        changes |= {record.seq: None for record in logged if isinstance(record.event, FeedbackReceived)}
    return changes, count


class Removal(NamedTuple):
    """Numbers of impressions, events and snapshots that an amendment has removed or changed."""

    impressions: int = 0
    events: int = 0
    snapshots: int = 0  # that were learned again


class Amendment:
    """A change of past events of a ranker or an experiment, and of everything that follows from them.

    A replay of the log gives the new states afterwards. State numbers fall when updates are removed, so events that
    name a state are changed too: snapshots and rollbacks.
    """

    def __init__(self, store: Store, entity: str) -> None:
        self.store, self.entity = store, entity
        self.newest: Snapshotted | None = None  # of the state after all events, for the log
        self._changes: Changes = {}  # that were prepared
        self._until: int | None = None  # the last event that was learned when they were
        self._events: dict[int, records.Event | None] = {}  # all events that change
        self._since = AFTER_ALL_EVENTS  # the event from which on it is learned again
        self._snapshots: list[records.Snapshot] = []
        self._new_states: dict[int, tuple[int, str]] = {}  # number and digest by the old number of a snapshot
        self._retained_snapshots: dict[int, records.Snapshot] = {}  # states that earlier erasures have kept
        self._needed_numbers: set[int] = set()  # old numbers of snapshots that are kept or that a rollback names
        self._projection: Projection
        self._is_paced = False  # it pauses between events, so that requests are served
        self._due: list[Snapshotted] = []  # snapshots to come, in order

    def prepare(self, changes: Changes, until: int) -> None:
        """Learn again from the events up to one of them, in pieces, while the ranker is served and learns."""
        if changes:
            self._is_paced = True
            self._learn_again(changes, until)
            self._is_paced = False

    def write(self, changes: Changes, keeps_state: bool = False) -> Removal:
        """Change events in one transaction; with `keeps_state`, what was learned from removed events stays."""
        if keeps_state:
            self._keep_state(changes)
        else:
            self._continue(changes)
            trainer, seq = self._projection.trainer, self._projection.seq
            if trainer is not None and all(each.number != trainer.number for each in self._snapshots):
                # A snapshot after all events, so that the learner worker goes on from there at once.
                self._snapshots.append(self._projection.snapshot(self.entity, seq))
                self.newest = Snapshotted(trainer.number, seq, trainer.digest(), __version__)
        rows: dict[int, records.LogRow | None] = {}
        for seq, event in self._events.items():
            name, body = getattr(event, "impression", None), b"" if event is None else records.encode(event)
            rows[seq] = None if event is None else records.LogRow(self.entity, kind_of(event), name, body, event)
        self.store.amend(self.entity, rows, self._since, self._snapshots)
        return Removal(0, len(changes), len(self._snapshots))

    def old_events(self, end_time: float) -> Changes:
        """Return the removal of the oldest events before a time, of closed impressions that a restart does not need."""
        # Reading and writing pause between events from now on, so that neither learning nor new events have to wait.
        snapshot, self._is_paced = self.store.snapshot(self.entity), True
        if snapshot is None:
            return {}
        created, until = self.store.first_record(self.entity).seq, min(snapshot.oldest_open - 1, snapshot.state_seq)
        superseded, removed = list[int](), list[int]()
        seqs = defaultdict[str, list[int]](list)  # of the events of each impression
        for record in self._records(until, created):
            event = record.event
            # After a clock that was set back, later events may be older; they wait for this one.
            if record.at >= end_time or len(removed) >= MAX_DELETED_EVENTS:
                break
            if isinstance(event, Rebased) and event.projection:
                superseded.append(record.seq)  # by the state after the last event that is removed
            name = getattr(event, "impression", None)
            if name is not None:
                seqs[name].append(record.seq)
                if _is_closed_by(event):
                    removed += seqs.pop(name)
        return dict.fromkeys(superseded + removed if removed else [])

    def _learn_again(self, changes: Changes, until: int | None) -> None:
        self._snapshots, self._new_states, self._retained_snapshots = [], {}, {}
        self._changes, self._until, self._events = dict(changes), until, dict(changes)
        self._since = self._drop_kept_states(min(changes))
        self._advance(self._begin(), until)

    def _continue(self, changes: Changes) -> None:
        """Learn from the events since `prepare`, or again from all if one concerns what was learned already."""
        until = self._until or 0
        is_same = until and {seq: event for seq, event in changes.items() if seq <= until} == self._changes
        if is_same and not self.store.changes(self.entity, until, with_snapshots=True):
            self._events |= {seq: event for seq, event in changes.items() if seq > until}
            self._advance(until, None)
        else:
            self._learn_again(changes, None)

    def _drop_kept_states(self, since: int) -> int:
        """Drop kept states learned from events that change now; return the event from which to learn again."""
        # An erasure has kept them. Everything is then learned again from the first event, so that nothing of earlier
        # erased events is left either.
        changes = self.store.changes(self.entity, with_snapshots=True)
        kept = [record for record in changes if isinstance(record.event, Rebased)]
        if not kept or kept[-1].seq < since:
            return since
        for record in kept:
            event: Any = record.event
            if event.projection:
                self._events.setdefault(record.seq, None)
            else:
                self._events[record.seq] = Snapshotted(event.number, event.state_seq, "", __version__)
        return 0

    def _keep_state(self, changes: Changes) -> None:
        """Replace the last change by the state after it, from which a replay continues, so that later states stay."""
        # A replay cannot reproduce the snapshots in between; they are kept for rollbacks.
        first, last = min(changes), max(changes)
        self._since = last + 1
        self._advance(self._begin(), last)
        self._events, self._since = dict(changes), AFTER_ALL_EVENTS
        for record in self.store.changes(self.entity, first, with_snapshots=True):
            event = record.event
            if isinstance(event, Snapshotted) and first <= event.state_seq < last:
                snapshot = self._snapshot_of(event.number)
                kept = snapshot and Rebased(event.number, snapshot.session, state_seq=event.state_seq)
                self._events[record.seq] = kept
        self._snapshots = []
        trainer, projection = self._projection.trainer, self._projection.saved()
        if trainer is None:
            self._events[last] = Rebased(self._projection.now.counters.closed, projection=projection)
        else:
            self._events[last] = Rebased(trainer.number, trainer.saved(), trainer.rejected, projection)

    def _begin(self) -> int:
        """Return to the last snapshot before the changes; return the event after which to continue."""
        rows = self.store.snapshots(self.entity)
        events = [record.event for record in self.store.changes(self.entity, with_snapshots=True)]
        targets = {event.to for event in events if isinstance(event, RolledBack)} - {0}
        self._needed_numbers = targets.union(number for number, _, _ in rows)
        numbers = [number for number, seq, _ in rows if seq < self._since]
        if len(self._needed_numbers) > len(rows):
            numbers = []  # a state of an earlier rollback was thinned: everything is learned again to have it
        snapshot = self.store.snapshot(self.entity, numbers[-1]) if numbers else None
        first = self.store.first_record(self.entity)
        projection = self._projection = rebuild(first, snapshot, self.store)
        if projection.trainer is not None:
            projection.trainer.find_state = lambda number: state_of(self._snapshot_of(number))
        due = [event for event in self._events.values() if isinstance(event, Snapshotted)]  # of retained states
        due += [event for event in events if isinstance(event, Snapshotted) and event.state_seq > projection.seq]
        self._due = sorted(due, key=lambda event: event.state_seq)
        return first.seq if snapshot is None else min(snapshot.oldest_open, snapshot.state_seq + 1) - 1

    def _advance(self, begin: int, until: int | None) -> None:
        """Apply the events after `begin`, with new versions of the snapshots on the way."""
        projection, due = self._projection, self._due
        for record in self._records(until, begin):
            if record.seq <= projection.seq:
                projection.reopen(record)
                continue
            while due and due[0].state_seq < record.seq:
                self._add_snapshot(due.pop(0))
            event = self._events.get(record.seq, record.event)
            if isinstance(event, Snapshotted) and event.state_seq >= self._since:
                number, digest = self._new_states[event.number]
                event = Snapshotted(number, event.state_seq, digest, event.rankloop_version)
                self._events[record.seq] = event
            elif isinstance(event, RolledBack) and event.to in self._new_states:
                number, _ = self._new_states[event.to]
                event = self._events[record.seq] = RolledBack(number, event.reason, event.freezes)
            elif isinstance(event, Rebased) and not event.projection:
                snapshot = records.Snapshot(self.entity, event.number, event.state_seq, event.session, b"", 0, 0)
                self._retained_snapshots[event.number] = snapshot
            if event is not None:
                projection.apply(record._replace(event=event))

    def _add_snapshot(self, old: Snapshotted) -> None:
        """Add the new version of a snapshot, of the state as it is now."""
        trainer = self._projection.trainer
        if trainer is not None:
            self._new_states[old.number] = trainer.number, trainer.digest()
            if old.number in self._needed_numbers:
                self._snapshots.append(self._projection.snapshot(self.entity, old.state_seq))

    def _snapshot_of(self, number: int) -> records.Snapshot | None:
        """Return the snapshot of a state, if possible a new one."""
        new = next((each for each in reversed(self._snapshots) if each.number == number), None)
        return new or self._retained_snapshots.get(number) or self.store.snapshot(self.entity, number)

    def _records(self, until: int | None = None, after: int = 0) -> Iterator[records.Record]:
        resumed_at = time.monotonic()
        for record in self.store.read(self.entity, after, until):
            yield record
            if self._is_paced and time.monotonic() - resumed_at > BESIDE_SERVING_SECONDS:
                time.sleep(BESIDE_SERVING_SECONDS)
                resumed_at = time.monotonic()

"""The projection of a log: open impressions, counts, and the steps that are learned, in log order.

A running service applies records as they become durable, a restart applies those after the last snapshot, and a replay
applies all. All three run this code and read no clock, so they reach the same state.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from rankloop import __version__
from rankloop.core.saved_session import loads
from rankloop.core.statistics import ERROR_PROBABILITY
from rankloop.service import records as events
from rankloop.service.domain.ab_test import CLICKS, UserTotals
from rankloop.service.domain.configuration import RankerConfig
from rankloop.service.domain.counters import LOST_TO_BASE, SavedProjection, saved_projection
from rankloop.service.domain.feedback_acceptance import ACCEPTED, CLOSED, LATE, TrackedImpression, impression_of
from rankloop.service.domain.trainer import PublishedState, Trainer, state_of
from rankloop.service.errors import Unavailable
from rankloop.service.records import Closed, FeedbackReceived, OutcomesReceived, Ranked, Record, Snapshot, Snapshotted

logger = logging.getLogger("rankloop.service")
TEAM_DRAFT = "team_draft"
LOG_BYTES_PER_SNAPSHOT_BYTE = 4  # at least, between two snapshots of a large state
EXPERIMENT_SNAPSHOT_EVERY = 1_000  # closed impressions of an experiment
MAX_EVENTS_WITHOUT_SNAPSHOT = 20_000  # of any kind, so that a restart stays quick
MAX_SNAPSHOTS, SNAPSHOT_SECONDS = 20, 40.0  # of a ranker in so many seconds, however quickly updates come
ID_BYTES = 16  # an estimate, of an item in the log without its features
FindImpression = Callable[[str, int], TrackedImpression | None]


class AppliedRecord(NamedTuple):
    """The result of applying a record."""

    verdict: str = "done"  # or a verdict of `feedback_acceptance`
    is_step: bool = False  # something was learned, or the state was replaced
    is_snapshot_due: bool = False


class Due(NamedTuple):
    """An event to write, perhaps with a snapshot."""

    event: events.Event
    snapshot: Snapshot | None = None


class Projection:
    """Everything that follows from the log of a ranker or a comparison.

    A replay keeps what is open in memory. A learner worker keeps only as much as it may, and is given `find`, which
    reads an impression from the log as it was before an event.
    """

    def __init__(self, config: RankerConfig | None, method: Any = TEAM_DRAFT, trainer: Trainer | None = None) -> None:
        self.config = config
        self.method = method  # the interleaving method
        self.trainer = trainer  # None for an experiment
        self.seq = 0  # the last event that was applied
        self.find: FindImpression | None = None
        self.first_window = 0.0  # the feedback window in seconds, unless it was changed
        self.now = SavedProjection()
        self.open: dict[str, TrackedImpression] = {}
        self.open_bytes = 0  # an estimate of the memory of open impressions
        self.users: UserTotals | None = None  # of an A/B test
        self.written = 0  # an estimate of the bytes of impressions in the log since this object was made
        self.passed = 0  # of a learner worker: impressions up to this event have closed

    def apply(self, record: Record) -> AppliedRecord:
        """Apply a record, and learn from it if it closes an impression."""
        event, self.seq = record.event, record.seq
        if isinstance(event, Ranked):
            return self._show(event, record)
        if isinstance(event, FeedbackReceived | Closed):
            return self._receive(event, record.seq)
        return self._receive_outcomes(event) if isinstance(event, OutcomesReceived) else self._change(event)

    def reopen(self, record: Record) -> None:
        """Apply a record that is in the snapshot already: only open impressions are rebuilt."""
        event = record.event
        if isinstance(event, Ranked):
            if event.impression not in self.open:
                self._open(event, record.seq)
        elif isinstance(event, FeedbackReceived | OutcomesReceived | Closed):
            impression = self.open.get(event.impression)
            if impression is not None and impression.add(event) == CLOSED:
                self._remove(event.impression)

    def make_room(self, max_bytes: int) -> None:
        """Remove the oldest open impressions from memory; they are read from the log when they close."""
        while self.open_bytes > max_bytes:
            self._remove(next(iter(self.open)))

    def saved(self) -> bytes:
        """Return counts and flags, as snapshots keep them."""
        users = b"" if self.users is None else self.users.saved()
        return msgspec.msgpack.encode(msgspec.structs.replace(self.now, user_totals=users))

    def snapshot(self, entity: str, seq: int) -> Snapshot:
        """Return the state after an event, with what a restart needs to go on from it."""
        number, session, rejected = 0, b"", 0
        if self.trainer is not None:  # else every snapshot replaces the last one: an experiment is never rolled back
            number, session, rejected = self.trainer.number, self.trainer.saved(), self.trainer.rejected
        return Snapshot(entity, number, seq, session, self.saved(), rejected, self._oldest_open(seq))

    def restore(self, content: bytes) -> None:
        """Continue from the bytes of `saved`."""
        self.now = saved_projection(content)
        if self.users is not None and self.now.user_totals:
            self.users.restore(self.now.user_totals)
        self.now.user_totals = b""  # too large to be published

    def _oldest_open(self, seq: int) -> int:
        """Return the event of the oldest open impression, or the event after `seq` if none is open."""
        if self.find is not None and self.now.n_open != len(self.open):
            return min(self.passed, seq) + 1  # some are not in memory
        first = next(iter(self.open.values()), None)  # they are in the order in which they were shown
        return first.ranked_seq if first else seq + 1

    def _open(self, ranked: Ranked, seq: int) -> None:
        self.open[ranked.impression] = TrackedImpression(ranked, seq, seq)
        self.open_bytes += _bytes_of(ranked)

    def _remove(self, name: str) -> None:
        impression = self.open.pop(name, None)
        if impression is not None:
            self.open_bytes -= _bytes_of(impression.ranked)

    def _change(self, event: events.Event) -> AppliedRecord:
        """Apply an event that belongs to no impression."""
        now, trainer = self.now, self.trainer
        if isinstance(event, events.Frozen):
            now.frozen, now.reason = True, event.reason
        elif isinstance(event, events.Resumed):
            now.frozen, now.reason = False, ""
        elif isinstance(event, events.RolledBack):
            now.counters.wins = now.counters.ties = now.counters.losses = 0
            if event.freezes:
                now.frozen, now.reason = True, event.reason
            if trainer is not None:
                trainer.roll_back(event.to)
            return AppliedRecord(is_step=True, is_snapshot_due=True)
        elif isinstance(event, events.WindowChanged):
            now.window = event.window
        elif isinstance(event, events.SchemaChanged):
            config = self.config and self.config.with_change(event)
            if config is None:
                return AppliedRecord("refused")
            self.config = config
            if trainer is not None:
                trainer.evolve(self.config)
            return AppliedRecord(is_step=True)
        elif isinstance(event, events.Rebased) and event.projection:
            self.restore(event.projection)
            if trainer is not None:
                trainer.restore(loads(event.session), event.number, event.rejected)
            return AppliedRecord(is_step=trainer is not None)
        elif isinstance(event, Snapshotted | events.Rebased) and now.counters.wins >= now.counters.losses:
            now.last_good_state = event.number
        return AppliedRecord()

    def _show(self, ranked: Ranked, record: Record) -> AppliedRecord:
        if ranked.generator_state:
            self.now.generator_state = ranked.generator_state
        if ranked.impression in self.open:
            return AppliedRecord("repeated")
        self._open(ranked, record.seq)
        counters = self.now.counters
        counters.impressions += 1
        if self.users is not None and counters.split is not None:
            self.users.show(counters.split, ranked, record.at)
        if ranked.mixed is not None:
            counters.evaluated += 1
        else:
            counters.explored_sum += ranked.explored
            counters.explorable += 1
        self.written += len(ranked.features) + len(ranked.values) + ID_BYTES * len(ranked.ids)
        return AppliedRecord()

    def _receive(self, event: FeedbackReceived | Closed, seq: int) -> AppliedRecord:
        impression = self.open.get(event.impression)
        if impression is None and self.find is not None:
            if isinstance(event, FeedbackReceived) and not event.final:
                return AppliedRecord(ACCEPTED)  # it is read again when the impression closes
            impression = self.find(event.impression, seq)
        verdict = LATE if impression is None else impression.add(event)
        return self._close(impression) if impression is not None and verdict == CLOSED else AppliedRecord(verdict)

    def _receive_outcomes(self, event: OutcomesReceived) -> AppliedRecord:
        """Count and learn outcomes of a closed impression; those of an open one wait until it closes."""
        if event.ranked is None:
            impression = self.open.get(event.impression)
            return AppliedRecord(ACCEPTED if impression is None else impression.add(event))
        counters = self.now.counters
        counters.count_outcomes(event.ranked, event.values, self.method)
        if self.users is not None and counters.split is not None:
            self.users.add(counters.split, event.ranked, event.values)
        if not event.weights or event.ranked.mixed is not None or event.ranked.variant:
            return AppliedRecord(ACCEPTED)
        feedback = FeedbackReceived(event.impression, "clicks", list(event.weights), list(event.weights.values()))
        return self._learn(event.ranked, feedback, ACCEPTED)

    def _close(self, impression: TrackedImpression) -> AppliedRecord:
        ranked, feedback, config, counters = impression.ranked, impression.feedback, self.config, self.now.counters
        self._remove(ranked.impression)
        learned = impression.learned_feedback if impression.outcome_weights else feedback
        compared, applied = ranked.mixed is not None or bool(ranked.variant), AppliedRecord(CLOSED)
        if not compared:
            if learned is None and config is not None and config.body.default_feedback == "not_clicked":
                learned = FeedbackReceived(ranked.impression, "clicks")  # shown, not clicked
                counters.default_feedback += 1
            applied = applied if learned is None else self._learn(ranked, learned, CLOSED)
        counters.close(ranked, feedback, None if config is None else config.problem.shown, self.method)
        if impression.outcomes:
            counters.count_outcomes(ranked, impression.outcomes, self.method)
        if self.users is not None and counters.split is not None:
            clicks = sum(value > 0 for value in feedback.values) if feedback is not None else 0
            self.users.add(counters.split, ranked, {CLICKS: {0: float(clicks)}, **impression.outcomes})
        is_due = compared and self.trainer is None and counters.closed % EXPERIMENT_SNAPSHOT_EVERY == 0
        return applied._replace(is_snapshot_due=True) if is_due else applied

    def _learn(self, ranked: Ranked, feedback: FeedbackReceived, verdict: str) -> AppliedRecord:
        if self.now.frozen or not ranked.trainable:
            self.now.counters.not_learned += 1
            return AppliedRecord(verdict)
        self.now.updates += 1
        if self.trainer is not None:
            self.trainer.learn(ranked, feedback, is_late_outcome=verdict == ACCEPTED)
        is_due = self.config is not None and self.now.updates % self.config.body.snapshot_every == 0
        return AppliedRecord(verdict, is_step=True, is_snapshot_due=is_due)


def _bytes_of(ranked: Ranked) -> int:
    """Return an estimate of the memory of an impression; here, so that a request enters no further file."""
    return events.IMPRESSION_BYTES + events.ITEM_BYTES * len(ranked.ids) + len(ranked.features) + len(ranked.values)


class Consumer:
    """The learned state of one ranker or experiment, fed by its log in order: it follows from the log alone."""

    def __init__(self, entity: str, log: Any, projection: Projection) -> None:
        self.entity = entity
        self.log = log  # a `ReadableLog`
        self.projection = projection
        self.trainer = projection.trainer
        self.is_guarding = False  # True while the guard's rollback is being written to the log
        self.is_broken = False  # a step failed because the log could not be read; it must be rebuilt
        self.snapshot_is_current = True
        self.snapshot_bytes = 0  # of the last snapshot
        self._written_at_snapshot = 0  # `projection.written` at the last snapshot
        self._snapshot_times = deque[float](maxlen=MAX_SNAPSHOTS)  # by the clock of the log
        self._events_since_snapshot = 0
        self._published: PublishedState | None = None  # until the state changes
        self._closing: dict[str, list[Record]] = {}  # records of impressions that the current batch closes
        self.projection.find = self._find
        if self.trainer is not None:
            self.trainer.find_state = lambda number: state_of(log.snapshot(entity, number))

    def apply(self, records: Sequence[Record]) -> list[Due]:
        """Apply a batch of records, and return the events to write: snapshots, and the guard's rollback."""
        records = [record for record in records if record.seq > self.projection.seq]
        self._look_up(records)
        due: list[Due] = []
        for record in records:
            try:
                if not isinstance(record.event, events.Created):  # a concurrent creation; the first counts
                    outcome = self.projection.apply(record)
                    self._published = None if outcome.is_step else self._published
                    due += self._due(outcome, record.at)
            except Unavailable:
                self.is_broken = True
                raise
            except Exception as error:  # later records still count, and a replay fails in the same way
                logger.error("apply", exc_info=error)
            self.projection.seq = record.seq
            self.is_guarding = self.is_guarding and not isinstance(record.event, events.RolledBack)
            is_snapshot = isinstance(record.event, Snapshotted)
            self.snapshot_is_current = self.snapshot_is_current and is_snapshot
            self._events_since_snapshot = 0 if is_snapshot else self._events_since_snapshot + 1
        self._closing = {}
        return due

    def overdue(self) -> list[Due]:
        """Return a snapshot to write if a restart would have to apply too many events."""
        if self._events_since_snapshot < MAX_EVENTS_WITHOUT_SNAPSHOT or not self._is_worth_it():
            return []
        self._events_since_snapshot = 0
        return [self.snapshot()]

    def published(self) -> PublishedState:
        """Return the current state for serving."""
        now, trainer = self.projection.now, self.trainer
        projection = msgspec.msgpack.encode(now)
        if trainer is None:
            return PublishedState(number=now.counters.closed, seq=self.projection.seq, projection=projection)
        if self._published is None:
            self._published = trainer.published()
        return self._published._replace(seq=self.projection.seq, projection=projection)

    def rollback_if_worse(self) -> list[Due]:
        """Return a rollback that freezes learning if the ranker is worse than its base."""
        # The rollback is an event of the log, so a replay does not repeat the test.
        config, now = self.projection.config, self.projection.now
        if config is None or not config.body.guard or now.frozen or self.is_guarding:
            return []
        comparison = now.counters.comparison
        # Losses must outweigh wins by more than chance explains, at whatever moment one looks.
        if comparison.losses <= comparison.wins or comparison.p_value_at_any_time >= ERROR_PROBABILITY:
            return []
        self.is_guarding = True
        # The last good state may have been thinned since: then it is the last one before it.
        kept = [number for number, _, _ in self.log.snapshots(self.entity) if number <= now.last_good_state]
        snapshot = self.log.snapshot(self.entity, kept[-1]) if kept else None
        to = 0 if snapshot is None else snapshot.number
        return [Due(events.RolledBack(to, LOST_TO_BASE, freezes=True), snapshot)]

    def _due(self, outcome: AppliedRecord, at: float) -> list[Due]:
        is_closed, times = outcome.verdict == CLOSED, self._snapshot_times
        has_many = len(times) == MAX_SNAPSHOTS and 0.0 <= at - times[0] < SNAPSHOT_SECONDS
        is_due = outcome.is_snapshot_due and not (is_closed and (has_many or not self._is_worth_it()))
        if is_due:
            times.append(at)
        return [*([self.snapshot()] if is_due else []), *(self.rollback_if_worse() if is_closed else [])]

    def _is_worth_it(self) -> bool:
        """Return True unless the state is large and the log since the last snapshot is quicker to read again."""
        config = self.projection.config
        if self.trainer is not None and (config is None or not config.encoders):
            return True
        return self.projection.written - self._written_at_snapshot >= LOG_BYTES_PER_SNAPSHOT_BYTE * self.snapshot_bytes

    def snapshot(self) -> Due:
        """Return a snapshot of the current state."""
        seq, digest = self.projection.seq, "" if self.trainer is None else self.trainer.digest()
        self.snapshot_is_current = True
        snapshot = self.projection.snapshot(self.entity, seq)
        self._written_at_snapshot = self.projection.written
        self.snapshot_bytes = len(snapshot.session or snapshot.projection)
        return Due(Snapshotted(snapshot.number, seq, digest, __version__), snapshot)

    def _look_up(self, records: Sequence[Record]) -> None:
        """Read all impressions that this batch closes and that are not in memory, in one call."""
        shown = {record.event.impression for record in records if isinstance(record.event, Ranked)}
        ends = [record.event for record in records if isinstance(record.event, FeedbackReceived | Closed)]
        closing = dict.fromkeys(end.impression for end in ends if isinstance(end, Closed) or end.final)
        names = [name for name in closing if name not in self.projection.open and name not in shown]
        self._closing = {name: [] for name in names}
        if names:
            for record in self.log.records_of_impressions(self.entity, names, records[-1].seq):
                self._closing[getattr(record.event, "impression", "")].append(record)

    def _find(self, name: str, seq: int) -> TrackedImpression | None:
        records = self._closing.get(name)
        if records is None:
            records = self.log.records_of_impression(self.entity, name)
        return impression_of(record for record in records if record.seq < seq)

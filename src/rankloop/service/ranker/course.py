"""A course: the log of one ranker or comparison, read in order; counts, and what is learned from its lessons."""

import logging
from collections.abc import Sequence
from threading import Event as Flag
from typing import Any

from rankloop import __version__
from rankloop.core.saved_session import dumps, loads
from rankloop.service.errors import Unavailable
from rankloop.service.jobs.rollback_guard import LOST, is_lost
from rankloop.service.log.events import (
    Closed,
    Created,
    Entry,
    FeedbackReceived,
    Ranked,
    Record,
    RolledBack,
    Snapshot,
    Snapshotted,
)
from rankloop.service.log.projection import Projection
from rankloop.service.log.stores.base import Store
from rankloop.service.log.writer import entry_of
from rankloop.service.ranker.impressions import Impression, impression_of
from rankloop.service.ranker.trainer import Lesson, PublishedState, Step, Trainer, digest

logger = logging.getLogger("rankloop.service")
RETRY = 0.2  # seconds, while the log cannot be read
LOG_PER_SNAPSHOT = 4  # bytes of the log for every byte of a snapshot of a large state
SNAPSHOT_EVERY = 1_000  # closed lists of a comparison
KEEP_AFTER = 20_000  # events of any kind, after which there is a snapshot though nothing was learned
CODE = __version__


class Course:
    """One entity. What it holds follows from the log up to `seq`; a ranker has a trainer, a comparison has none."""

    def __init__(
        self,
        entity: str,
        store: Store,
        projection: Projection,
        trainer: Trainer | None,
        window: float,
        stopping: Flag | None = None,
    ) -> None:
        self.entity = entity
        self.store = store
        self.projection = projection
        self.trainer = trainer
        self._first_window = window
        self.seq = 0
        self.is_guarding = False  # whether the guard's word is on its way to the log
        self.is_broken = False  # a step could not be taken, since it was told to stop
        self.is_kept = True  # whether a snapshot has all of it
        self.snapshot_size = 0  # bytes of the last snapshot
        self._written_before = 0  # bytes of the log that it made unnecessary
        self._stopping = Flag() if stopping is None else stopping  # then it waits no longer for an unreadable log
        self._unkept = 0  # events since the last snapshot
        self._known: dict[str, list[Record]] = {}
        projection.find = self._find
        projection.settled_after = store.settled_after

    @property
    def window(self) -> float:
        """Seconds in which feedback may come."""
        return self._first_window if self.projection.window is None else self.projection.window

    def apply(self, records: Sequence[Record]) -> list[Entry]:
        """Go on to the last of these; the entries are to be written, since a snapshot or the guard's word is due.

        Where the log cannot be read, it raises `Unavailable` before anything has changed.
        """
        records = [record for record in records if record.seq > self.seq]
        self._look_up(records)
        due: list[Entry] = []
        for record in records:
            try:
                due += self._applied(record)
            except Unavailable:
                self.is_broken = True
                raise
            except Exception as error:  # the records after it still count; a replay meets it again
                logger.error("apply", exc_info=error)
            self.seq = record.seq
            is_snapshot = isinstance(record.event, Snapshotted)
            self.is_kept = self.is_kept and is_snapshot
            self._unkept = 0 if is_snapshot else self._unkept + 1
        self._known = {}
        return due

    def overdue(self) -> list[Entry]:
        """A snapshot, where so much has come since the last one that a restart would take long."""
        if self.is_broken or self._unkept < KEEP_AFTER or not self._is_worth_it():
            return []
        self._unkept = 0
        return [self.snapshot()]

    def published(self) -> PublishedState:
        """What is known now."""
        projection = self.projection.saved()
        if self.trainer is None:
            return PublishedState(self.projection.counters.closed, None, 0, 0, 0, self.seq, projection)
        return self.trainer.published()._replace(seq=self.seq, projection=projection)

    def guard(self) -> list[Entry]:
        """Freeze and go back where the comparison with the base is lost; that is an event: a replay does not judge."""
        projection = self.projection
        is_guarded = projection.config is not None and projection.config.body.guard and not projection.frozen
        if not is_guarded or self.is_guarding or not is_lost(projection.counters.comparison):
            return []
        self.is_guarding = True
        return [entry_of(self.entity, RolledBack(projection.good, LOST, freezes=True))]

    def snapshot(self) -> Entry:
        """All of it, as it stands."""
        projection = self.projection
        return self._snapshot(self.seq, projection.saved(), projection.oldest_open(self.seq))

    def state_at(self, number: int) -> Any:
        """The state of a snapshot."""
        if self.trainer is None or number == 0:
            return None if self.trainer is None else self.trainer.first
        found = self.store.snapshot(self.entity, number)
        return loads(found.session).state if found else self.trainer.first

    def _applied(self, record: Record) -> list[Entry]:
        if isinstance(record.event, Created):
            return []  # somebody created it at the same moment; the first counts
        outcome = self.projection.apply(record)
        self.is_guarding = self.is_guarding and not isinstance(record.event, RolledBack)
        due: list[Entry] = []
        if outcome.step is not None and self.trainer is not None:
            self.trainer.learn(outcome.step, self._state_when_readable)
            mark = outcome.step.mark
            if mark is not None and self._is_due(outcome.step):
                due.append(self._snapshot(record.seq, mark.projection, mark.oldest_open))
        if outcome.verdict != "closed":
            return due
        if self.trainer is None and self.projection.counters.closed % SNAPSHOT_EVERY == 0:
            due.append(self._snapshot(record.seq, self.projection.saved(), self.projection.oldest_open(record.seq)))
        return due + self.guard()

    def _is_due(self, step: Step) -> bool:
        """A large state is written only when the log since the last time is larger by far: it is read again instead."""
        return not isinstance(step, Lesson) or self._is_worth_it()

    def _is_worth_it(self) -> bool:
        config = self.projection.config
        if config is None or not config.encoders:
            return True
        return self.projection.written - self._written_before >= LOG_PER_SNAPSHOT * self.snapshot_size

    def _snapshot(self, seq: int, projection: bytes, oldest_open: int) -> Entry:
        trainer, self.is_kept = self.trainer, True
        if trainer is None:
            number = self.projection.counters.closed
            kept = Snapshot(self.entity, number, seq, b"", projection, 0, oldest_open)
            return entry_of(self.entity, Snapshotted(number, seq, "", CODE), kept)
        content = dumps(trainer.session, trainer.config.schema_notes())
        self._written_before, self.snapshot_size = self.projection.written, len(content)
        kept = Snapshot(self.entity, trainer.number, seq, content, projection, trainer.rejected, oldest_open)
        return entry_of(self.entity, Snapshotted(trainer.number, seq, digest(trainer.session.state), CODE), kept)

    def _state_when_readable(self, number: int) -> Any:
        """The same as `state_at`, as often as the log cannot be read: a step that is in the log is not passed over."""
        while True:
            try:
                return self.state_at(number)
            except Unavailable:
                if self._stopping.wait(RETRY):
                    raise

    def _look_up(self, records: Sequence[Record]) -> None:
        """Read, at once, all impressions that close here and are not in memory."""
        here = {record.event.impression for record in records if isinstance(record.event, Ranked)}
        closing = [getattr(record.event, "impression", "") for record in records if _closes(record)]
        names = [name for name in dict.fromkeys(closing) if name not in self.projection.open and name not in here]
        self._known = {name: [] for name in names}
        if names:
            for record in self.store.of_impressions(self.entity, names, records[-1].seq):
                self._known[getattr(record.event, "impression", "")].append(record)

    def _find(self, name: str, seq: int) -> Impression | None:
        records = self._known.get(name)
        if records is None:
            records = self.store.of_impression(self.entity, name)
        return impression_of(record for record in records if record.seq < seq)


def _closes(record: Record) -> bool:
    event = record.event
    return isinstance(event, Closed) or (isinstance(event, FeedbackReceived) and event.final)

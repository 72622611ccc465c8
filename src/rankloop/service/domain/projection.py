"""The projection of a log: which impressions are open, what is counted, and what is learned, in which order.

A service applies records as they become durable, a restart those after the last snapshot, a replay all of them: the
same code, so the same state. No clock is read here.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from rankloop.features.schema import Schema
from rankloop.service.domain.configuration import RankerConfig
from rankloop.service.domain.counters import SavedProjection, saved_projection
from rankloop.service.domain.impression import CLOSED, IMPRESSION_BYTES, ITEM_BYTES, LATE, TAKEN, Impression
from rankloop.service.records import (
    Closed,
    Evolved,
    FeedbackReceived,
    Frozen,
    Ranked,
    Rebased,
    Record,
    Resumed,
    RolledBack,
    Snapshotted,
    Windowed,
)

TEAM_DRAFT = "team_draft"
ID_BYTES = 16  # of an item in the log beside its features, nearly
FindImpression = Callable[[str, int], Impression | None]


class SnapshotMark(NamedTuple):
    """A snapshot is due after a step; with it goes what the projection held at this very event."""

    projection: bytes
    oldest_open: int


class Update(NamedTuple):
    """A closed impression with the feedback on it: a training example."""

    seq: int
    ranked: Ranked
    feedback: FeedbackReceived
    mark: SnapshotMark | None = None


class Rollback(NamedTuple):
    """The state becomes that of an earlier snapshot."""

    seq: int
    to: int
    mark: SnapshotMark | None = None


class Evolution(NamedTuple):
    """The schema becomes its next version."""

    seq: int
    config: RankerConfig
    mark: SnapshotMark | None = None


class Rebase(NamedTuple):
    """The state becomes one that was kept, whatever led to it."""

    seq: int
    event: Rebased
    mark: SnapshotMark | None = None


Step = Update | Rollback | Evolution | Rebase


class Outcome(NamedTuple):
    """What a record did, and what was learned from it."""

    verdict: str  # shown, done, or one of an impression
    step: Step | None = None


DONE, SHOWN = Outcome("done"), Outcome("shown")


class Learns(Protocol):
    """What takes the steps of a projection."""

    def learn(self, step: Step) -> None: ...


class Projection:
    """Everything that follows from the log of a ranker or a comparison.

    A replay keeps what is open in memory. A learner worker keeps only as much as it may, and is given `find`, which
    reads an impression from the log as it was before an event.
    """

    def __init__(self, config: RankerConfig | None, method: Any = TEAM_DRAFT, trainer: Learns | None = None) -> None:
        self.config = config
        self.method = method  # of interleaving
        self.trainer = trainer  # of a ranker
        self.find: FindImpression | None = None
        self.now = SavedProjection()
        self.open: dict[str, Impression] = {}
        self.open_bytes = 0  # of memory, nearly
        self.written = 0  # bytes that impressions took in the log since this was made, nearly
        self.passed = 0  # of a learner worker: what was shown up to this event has closed

    def apply(self, record: Record) -> Outcome:
        """Go on to a record, and learn what there is to learn from it."""
        event = record.event
        if isinstance(event, Ranked):
            return self._show(event, record.seq)
        if isinstance(event, FeedbackReceived | Closed):
            outcome = self._receive(event, record.seq)
        else:
            outcome = self._change(record)
        if outcome.step is not None and self.trainer is not None:
            self.trainer.learn(outcome.step)
        return outcome

    def reopen(self, record: Record) -> None:
        """Apply a record that is in the snapshot already: only the open impressions are built again."""
        event = record.event
        if isinstance(event, Ranked):
            if event.impression not in self.open:
                self._open(event, record.seq)
        elif isinstance(event, FeedbackReceived | Closed):
            impression = self.open.get(event.impression)
            if impression is not None and impression.add(event) == CLOSED:
                self._remove(event.impression)

    def make_room(self, max_bytes: int) -> None:
        """Keep only the newest of what is open; the others are read from the log when they close."""
        while self.open_bytes > max_bytes:
            self._remove(next(iter(self.open)))

    def saved(self) -> bytes:
        """Counts and flags, as snapshots keep them."""
        return msgspec.msgpack.encode(self.now)

    def restore(self, content: bytes) -> None:
        """Go on from what `saved` gave."""
        self.now = saved_projection(content)

    def oldest_open(self, seq: int) -> int:
        """Return where the oldest open impression began; open ones are kept in the order in which they began."""
        if self.find is not None and self.now.n_open != len(self.open):
            return min(self.passed, seq) + 1  # not all of them are in memory
        first = next(iter(self.open.values()), None)
        return first.began if first else seq + 1

    def _open(self, ranked: Ranked, seq: int) -> None:
        self.open[ranked.impression] = Impression(ranked, seq, seq)
        self.open_bytes += _bytes_of(ranked)

    def _remove(self, name: str) -> None:
        impression = self.open.pop(name, None)
        if impression is not None:
            self.open_bytes -= _bytes_of(impression.ranked)

    def _change(self, record: Record) -> Outcome:
        """Apply an event that belongs to no impression."""
        event, now = record.event, self.now
        if isinstance(event, Frozen | Resumed):
            now.frozen = isinstance(event, Frozen)
            now.reason = event.reason if isinstance(event, Frozen) else ""
        elif isinstance(event, RolledBack):
            now.counters.wins = now.counters.ties = now.counters.losses = 0
            if event.freezes:
                now.frozen, now.reason = True, event.reason
            return Outcome("done", Rollback(record.seq, event.to, self._mark(record.seq)))
        elif isinstance(event, Windowed):
            now.window = event.window
        elif isinstance(event, Evolved):
            return self._evolve(event, record.seq)
        elif isinstance(event, Rebased) and event.projection:
            self.restore(event.projection)
            return Outcome("done", Rebase(record.seq, event) if event.session else None)
        elif isinstance(event, Snapshotted | Rebased) and now.counters.wins >= now.counters.losses:
            now.good = event.number
        return DONE

    def _evolve(self, event: Evolved, seq: int) -> Outcome:
        """Of two versions that were made out of one the first counts."""
        schema = Schema.from_plain(event.schema)
        if self.config is None or self.config.schema is None or schema.version != self.config.schema.version + 1:
            return Outcome("refused")
        self.config = self.config.with_schemas([schema])
        return Outcome("done", Evolution(seq, self.config))

    def _show(self, ranked: Ranked, seq: int) -> Outcome:
        if ranked.generator:
            self.now.generator = ranked.generator
        if ranked.impression in self.open:
            return Outcome("repeated")
        self._open(ranked, seq)
        counters = self.now.counters
        counters.impressions += 1
        if ranked.mixed is not None:
            counters.evaluated += 1
        else:
            counters.explored += ranked.explored
            counters.explorable += 1
        self.written += len(ranked.features) + len(ranked.values) + ID_BYTES * len(ranked.ids)
        return SHOWN

    def _receive(self, event: FeedbackReceived | Closed, seq: int) -> Outcome:
        impression = self.open.get(event.impression)
        if impression is None and self.find is not None:
            if isinstance(event, FeedbackReceived) and not event.final:
                return Outcome(TAKEN)  # it is read with the impression, when that closes
            impression = self.find(event.impression, seq)
        verdict = LATE if impression is None else impression.add(event)
        return self._close(impression, seq) if impression is not None and verdict == CLOSED else Outcome(verdict)

    def _close(self, impression: Impression, seq: int) -> Outcome:
        ranked, feedback, config, counters = impression.ranked, impression.feedback, self.config, self.now.counters
        self._remove(ranked.impression)
        counters.close(ranked, feedback, None if config is None else config.problem.shown, self.method)
        if ranked.mixed is not None:
            return Outcome(CLOSED)
        if feedback is None and config is not None and config.body.default_feedback == "not_clicked":
            feedback = FeedbackReceived(ranked.impression, "clicks")  # shown, not clicked
            counters.defaulted += 1
        if feedback is None:
            return Outcome(CLOSED)
        if self.now.frozen or not ranked.trainable:
            counters.unlearned += 1
            return Outcome(CLOSED)
        self.now.updates += 1
        due = config is not None and self.now.updates % config.body.snapshot_every == 0
        return Outcome(CLOSED, Update(seq, ranked, feedback, self._mark(seq) if due else None))

    def _mark(self, seq: int) -> SnapshotMark:
        return SnapshotMark(self.saved(), self.oldest_open(seq))


def _bytes_of(ranked: Ranked) -> int:
    """The memory that an open impression takes, nearly."""
    return IMPRESSION_BYTES + ITEM_BYTES * len(ranked.ids) + len(ranked.features) + len(ranked.values)

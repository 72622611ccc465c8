"""The projection of a log: which impressions are open, what is counted, and what there is to learn, in which order.

The service applies records as they become durable, a restart from the last snapshot on, a replay from the first: the
same code, so the same state. No clock is read here: deadlines are the service's business.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rankloop.core.plain import from_plain
from rankloop.core.types import Clicks
from rankloop.features.schema import Schema
from rankloop.interleaving import Comparison, Mixed, credit
from rankloop.measures.base import parse_measure
from rankloop.measures.dcg import MAX_EXPONENT
from rankloop.service.log.events import (
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
from rankloop.service.ranker.config import RankerConfig
from rankloop.service.ranker.impressions import Impression
from rankloop.service.ranker.trainer import Evolution, Lesson, Rebase, Rollback, SnapshotMark, Step

TEAM_DRAFT = "team_draft"
ID_SIZE = 16  # bytes of an item in the log beside its features, nearly
POSITIONS = 20  # whose clicks are counted
FAST, SLOW = 1 / 100, 1 / 1000  # how quickly the two running click rates forget


class Counters(msgspec.Struct):
    """Counts of one ranker or comparison."""

    impressions: int = 0
    closed: int = 0
    with_feedback: int = 0
    defaulted: int = 0
    unlearned: int = 0  # closed while frozen, or not meant to be learned from
    evaluated: int = 0
    shown_at: list[int] = msgspec.field(default_factory=lambda: [0] * POSITIONS)
    clicked_at: list[int] = msgspec.field(default_factory=lambda: [0] * POSITIONS)
    clicked: int = 0  # closed impressions with at least one click
    counted: int = 0  # closed impressions on which people could click
    fast: float = 0.0
    slow: float = 0.0
    ndcg: float = 0.0
    graded: int = 0
    explored: float = 0.0
    explorable: int = 0
    wins: int = 0
    ties: int = 0
    losses: int = 0

    @property
    def comparison(self) -> Comparison:
        return Comparison(self.wins, self.ties, self.losses)

    def show(self, ranked: Ranked) -> None:
        self.impressions += 1
        if ranked.mixed is not None:
            self.evaluated += 1
        else:
            self.explored += ranked.explored
            self.explorable += 1

    def close(self, ranked: Ranked, feedback: FeedbackReceived | None, seen: int | None) -> None:
        self.closed += 1
        self.with_feedback += feedback is not None
        if feedback is not None and feedback.kind == "relevances":
            self._grade(ranked, feedback)
        if feedback is None or feedback.kind == "clicks":
            self._count(ranked, feedback, seen)

    def credit(self, earned: Any) -> None:
        difference = float(earned[0] - earned[1])
        self.wins += difference > 0
        self.ties += difference == 0
        self.losses += difference < 0

    def click_position(self) -> float | None:
        """The mean position of a click, counted from 1; None before the first."""
        clicks = sum(self.clicked_at)
        return sum(position * count for position, count in enumerate(self.clicked_at, 1)) / clicks if clicks else None

    def drift(self) -> float:
        """How far the click rate of late lies from the one of longer ago, in standard errors."""
        spread = math.sqrt(max(self.slow * (1 - self.slow), 1e-4) * FAST / (2 - FAST))
        return (self.fast - self.slow) / spread if self.counted else 0.0

    def _grade(self, ranked: Ranked, feedback: FeedbackReceived) -> None:
        position = {item: i for i, item in enumerate(ranked.order)}
        relevance = np.zeros(len(ranked.order))
        for item, grade in zip(feedback.items, feedback.values):
            relevance[position[item]] = min(grade, MAX_EXPONENT)  # what is in the log must always be applicable
        self.ndcg += float(parse_measure("nDCG@10")(np.arange(len(relevance)), relevance))
        self.graded += 1

    def _count(self, ranked: Ranked, feedback: FeedbackReceived | None, seen: int | None) -> None:
        clicked = set(feedback.items) if feedback is not None else set()
        for position, item in enumerate(ranked.order[:seen][:POSITIONS]):
            self.shown_at[position] += 1
            self.clicked_at[position] += item in clicked
        any_click = float(bool(clicked))
        self.clicked += bool(clicked)
        self.counted += 1
        self.fast += max(FAST, 1 / self.counted) * (any_click - self.fast)
        self.slow += max(SLOW, 1 / self.counted) * (any_click - self.slow)


FindOpen = Callable[[str, int], Impression | None]


class Outcome(NamedTuple):
    """What a record did, and what there is to learn from it."""

    verdict: str  # shown, taken, closed, repeated, late, refused, done
    step: Step | None = None


class SavedProjection(msgspec.Struct):
    """What a snapshot keeps of a projection, beside the open impressions, which are read again from the log."""

    counters: Counters = msgspec.field(name="tally")
    frozen: bool
    reason: str
    good: int
    lessons: int
    generators: dict[int, str] = msgspec.field(name="positions")
    window: float | None = None  # where it is no longer the one of the beginning

    @property
    def n_open(self) -> int:
        """Impressions that wait for feedback."""
        return self.counters.impressions - self.counters.closed


def new_projection() -> SavedProjection:
    """Of what has no event yet."""
    return SavedProjection(Counters(), False, "", 0, 0, {})


def saved_projection(content: bytes) -> SavedProjection:
    """What `Projection.saved` gave."""
    return msgspec.msgpack.decode(content, type=SavedProjection)


class Projection:
    """Everything about a ranker or a comparison except what is learned.

    A replay keeps what is open in memory. A learner keeps only as much as it may, and is given `find`, which reads an
    impression from the log as it was before an event.
    """

    def __init__(self, config: RankerConfig | None, method: Any = TEAM_DRAFT, find: FindOpen | None = None) -> None:
        self.config = config
        self.method = method  # of interleaving
        self.find = find
        self.open: dict[str, Impression] = {}
        self.open_bytes = 0  # of memory, nearly
        self.counters = Counters()
        self.frozen = False
        self.reason = ""
        self.good = 0  # the newest snapshot at which the base did not lead
        self.lessons = 0
        self.generators: dict[int, str] = {}
        self.written = 0  # bytes that impressions took in the log since this was made, nearly
        self.passed = 0  # of a learner: what was shown up to this event has closed
        self.window: float | None = None  # where it is no longer the one of the beginning
        self.settled_after = 0  # events up to this one may be there twice

    def apply(self, record: Record) -> Outcome:
        event = record.event
        if isinstance(event, Ranked):
            return self._show(event, record.seq)
        if isinstance(event, FeedbackReceived | Closed):
            return self._receive(event, record.seq)
        if isinstance(event, Frozen | Resumed):
            self.frozen = isinstance(event, Frozen)
            self.reason = event.reason if isinstance(event, Frozen) else ""
        elif isinstance(event, RolledBack):
            self.counters.wins = self.counters.ties = self.counters.losses = 0
            if event.freezes:
                self.frozen, self.reason = True, event.reason
            return Outcome("done", Rollback(record.seq, event.to, self._mark(record.seq)))
        elif isinstance(event, Windowed):
            self.window = event.window
        elif isinstance(event, Evolved):
            return self._evolve(event, record.seq)
        elif isinstance(event, Rebased) and event.projection:
            self.restore(event.projection)
            return Outcome("done", Rebase(record.seq, event) if event.session else None)
        elif isinstance(event, Snapshotted | Rebased) and self.counters.wins >= self.counters.losses:
            self.good = event.number
        return Outcome("done")

    def reopen(self, record: Record) -> None:
        """Apply a record that is in the snapshot already: only the open impressions are built again."""
        event = record.event
        if isinstance(event, Ranked):
            if event.impression not in self.open:
                self._open(Impression(event, record.seq))
        elif isinstance(event, FeedbackReceived | Closed):
            impression = self.open.get(event.impression)
            if impression is not None and impression.add(event) == "closed":
                self._remove(event.impression)

    def make_room(self, most: int) -> None:
        """Of a learner: keep only the newest of what is open, up to so many bytes; the others are in the log."""
        while self.open_bytes > most:
            self._remove(next(iter(self.open)))

    def saved(self) -> bytes:
        flags = self.frozen, self.reason, self.good, self.lessons, self.generators, self.window
        kept = SavedProjection(self.counters, *flags)
        return msgspec.msgpack.encode(kept)

    def restore(self, content: bytes) -> None:
        kept = msgspec.msgpack.decode(content, type=SavedProjection)
        self.counters, self.frozen, self.reason = kept.counters, kept.frozen, kept.reason
        self.good, self.lessons, self.generators = kept.good, kept.lessons, kept.generators
        self.window = kept.window

    def oldest_open(self, seq: int) -> int:
        """Where the oldest open impression began; open ones are kept in the order in which they began."""
        if self.find is not None and self.counters.impressions - self.counters.closed != len(self.open):
            return min(self.passed, seq) + 1  # not all of them are in memory
        first = next(iter(self.open.values()), None)
        return first.began if first else seq + 1

    def _open(self, impression: Impression) -> None:
        self.open[impression.ranked.impression] = impression
        self.open_bytes += impression.size

    def _remove(self, name: str) -> None:
        impression = self.open.pop(name, None)
        if impression is not None:
            self.open_bytes -= impression.size

    def _evolve(self, event: Evolved, seq: int) -> Outcome:
        """Of two that were made out of one version the first counts."""
        if self.config is None or self.config.schema is None:
            return Outcome("refused")
        schema = Schema.from_plain(event.schema)
        if schema.version != self.config.schema.version + 1:
            return Outcome("refused")
        self.config = self.config.with_schemas([schema])
        return Outcome("done", Evolution(seq, self.config))

    def _show(self, ranked: Ranked, seq: int) -> Outcome:
        if ranked.generator:
            self.generators[ranked.slot] = ranked.generator
        if ranked.impression in self.open or self._is_repeated(ranked, seq):
            return Outcome("repeated")
        self._open(Impression(ranked, seq))
        self.counters.show(ranked)
        self.written += len(ranked.features) + len(ranked.values) + ID_SIZE * len(ranked.ids)
        return Outcome("shown")

    def _is_repeated(self, ranked: Ranked, seq: int) -> bool:
        """Whether it is open though it is not in memory: only in logs of 0.1 an impression can be shown twice."""
        known = self.find(ranked.impression, seq) if self.find is not None and seq <= self.settled_after else None
        return known is not None and not known.closed

    def _receive(self, event: FeedbackReceived | Closed, seq: int) -> Outcome:
        impression = self.open.get(event.impression)
        if impression is None and self.find is not None:
            if isinstance(event, FeedbackReceived) and not event.final:
                return Outcome("taken")  # it is read with the impression, when that closes
            impression = self.find(event.impression, seq)
        if impression is None or impression.closed:
            return Outcome("late")
        verdict = impression.add(event)
        return self._close(impression, seq) if verdict == "closed" else Outcome(verdict)

    def _close(self, impression: Impression, seq: int) -> Outcome:
        ranked, feedback = impression.ranked, impression.feedback
        self._remove(ranked.impression)
        self.counters.close(ranked, feedback, self.config.problem.shown if self.config else None)
        if ranked.mixed is not None:
            self._credit(ranked, feedback)
            return Outcome("closed")
        if feedback is None and self.config is not None and self.config.body.default_feedback == "not_clicked":
            feedback = FeedbackReceived(ranked.impression, "clicks")  # shown, not clicked
            self.counters.defaulted += 1
        if feedback is None:
            return Outcome("closed")
        if self.frozen or not ranked.trainable:
            self.counters.unlearned += 1
            return Outcome("closed")
        self.lessons += 1
        due = self.config is not None and self.lessons % self.config.body.snapshot_every == 0
        return Outcome("closed", Lesson(seq, ranked, feedback, self._mark(seq) if due else None))

    def _mark(self, seq: int) -> SnapshotMark:
        return SnapshotMark(self.saved(), self.oldest_open(seq))

    def _credit(self, ranked: Ranked, feedback: FeedbackReceived | None) -> None:
        mixed = from_plain(ranked.mixed, Mixed, "mixed")
        number = {item: i for i, item in enumerate(ranked.candidates or range(len(ranked.ids)))}
        pairs = [(number[i], v) for i, v in zip(feedback.items, feedback.values) if i in number] if feedback else []
        items = np.array([i for i, _ in pairs], dtype=np.int64)
        clicks = Clicks(items, np.array([value for _, value in pairs], dtype=np.float64))
        self.counters.credit(credit(self.method, mixed, clicks))


def closed_impressions(records: Iterable[Record]) -> Iterator[tuple[Record, Impression]]:
    """Every impression that has closed, with the record of its ranking, and the feedback that counted."""
    projection, shown = Projection(None), dict[str, Record]()
    for record in records:
        event = record.event
        if isinstance(event, Ranked):
            shown.setdefault(event.impression, record)
        known = projection.open.get(event.impression) if isinstance(event, FeedbackReceived | Closed) else None
        projection.reopen(record)
        if known is not None and known.ranked.impression not in projection.open:
            yield shown.pop(known.ranked.impression), known

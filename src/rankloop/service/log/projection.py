"""The fold of a log: which impressions are open, what is counted, and what there is to learn, in which order.

The service folds records as they become durable, a restart folds them from the last snapshot on, a replay folds them
all: the same code, so the same state. No clock is read here: deadlines are the service's business.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from rankloop.core.errors import IncompatibleFeedback
from rankloop.core.plain import from_plain
from rankloop.core.types import Clicks
from rankloop.interleaving import Mixed, credit
from rankloop.service.log.counters import Tally
from rankloop.service.log.events import (
    Closed,
    Experiment,
    Fed,
    Frozen,
    Ranked,
    Record,
    Resumed,
    RolledBack,
    Snapshotted,
)
from rankloop.service.ranker.config import Plan
from rankloop.service.ranker.feedback import gathered, no_clicks
from rankloop.service.ranker.trainer import Decided, GoBack, Lesson, Mark, Step

TEAM_DRAFT = "team_draft"


class Open:
    """An impression whose window is open."""

    __slots__ = ("began", "deadline", "decided", "fed", "heard", "ranked")

    def __init__(self, ranked: Ranked, began: int) -> None:
        self.ranked = ranked
        self.began = began
        self.deadline = 0.0  # on the service's monotonic clock
        self.decided: Decided | None = None  # while the process that drew it lives, to save decoding it again
        self.fed: Fed | None = None
        self.heard: list[Fed] = []


class Outcome(NamedTuple):
    """What a record did, and what there is to learn from it."""

    verdict: str  # shown, taken, closed, repeated, late, refused, done
    step: Step | None = None


class Saved(msgspec.Struct):
    """What a snapshot keeps of a view, beside the open impressions, which are read again from the log."""

    tally: Tally
    frozen: bool
    reason: str
    good: int
    lessons: int
    positions: dict[int, str]


def saved_tally(content: bytes) -> Tally:
    """The counts in what `View.saved` gave."""
    return msgspec.msgpack.decode(content, type=Saved).tally


class View:
    """Everything about a ranker or an experiment except what is learned."""

    def __init__(self, plan: Plan | None, experiment: Experiment | None = None) -> None:
        self.plan = plan
        self.method = experiment.body.method if experiment else TEAM_DRAFT
        self.open: dict[str, Open] = {}
        self.tally = Tally()
        self.frozen = False
        self.reason = ""
        self.good = 0  # the newest snapshot at which the base did not lead
        self.lessons = 0
        self.positions: dict[int, str] = {}

    def fold(self, record: Record) -> Outcome:
        event = record.event
        if isinstance(event, Ranked):
            return self._show(event, record.seq)
        if isinstance(event, Fed):
            return self._hear(event, record.seq)
        if isinstance(event, Closed):
            impression = self.open.get(event.impression)
            return self._close(impression, record.seq) if impression else Outcome("late")
        if isinstance(event, Frozen | Resumed):
            self.frozen = isinstance(event, Frozen)
            self.reason = event.reason if isinstance(event, Frozen) else ""
        elif isinstance(event, RolledBack):
            self.tally.wins = self.tally.ties = self.tally.losses = 0
            if event.freezes:
                self.frozen, self.reason = True, event.reason
            return Outcome("done", GoBack(record.seq, event.to, self._mark(record.seq)))
        elif isinstance(event, Snapshotted) and self.tally.wins >= self.tally.losses:
            self.good = event.number
        return Outcome("done")

    def reopen(self, record: Record) -> None:
        """Fold a record that is in the snapshot already: only the open impressions are built again."""
        event = record.event
        if isinstance(event, Ranked):
            self.open.setdefault(event.impression, Open(event, record.seq))
        elif isinstance(event, Fed):
            if self._gather(event) == "taken" and event.final:
                self.open.pop(event.impression, None)
        elif isinstance(event, Closed):
            self.open.pop(event.impression, None)

    def saved(self) -> bytes:
        kept = Saved(self.tally, self.frozen, self.reason, self.good, self.lessons, self.positions)
        return msgspec.msgpack.encode(kept)

    def restore(self, content: bytes) -> None:
        kept = msgspec.msgpack.decode(content, type=Saved)
        self.tally, self.frozen, self.reason = kept.tally, kept.frozen, kept.reason
        self.good, self.lessons, self.positions = kept.good, kept.lessons, kept.positions

    def oldest_open(self, seq: int) -> int:
        """Where the oldest open impression began; open ones are kept in the order in which they began."""
        first = next(iter(self.open.values()), None)
        return first.began if first else seq + 1

    def _show(self, ranked: Ranked, seq: int) -> Outcome:
        if ranked.position:
            self.positions[ranked.slot] = ranked.position
        if ranked.impression in self.open:
            return Outcome("repeated")
        self.open[ranked.impression] = Open(ranked, seq)
        self.tally.show(ranked)
        return Outcome("shown")

    def _hear(self, fed: Fed, seq: int) -> Outcome:
        impression = self.open.get(fed.impression)
        if impression is None:
            return Outcome("late")
        verdict = self._gather(fed)
        if verdict == "taken" and fed.final:
            return self._close(impression, seq)
        return Outcome(verdict)

    def _gather(self, fed: Fed) -> str:
        impression = self.open.get(fed.impression)
        if impression is None:
            return "late"
        if fed in impression.heard:
            return "repeated"
        try:
            impression.fed = gathered(impression.fed, fed)
        except IncompatibleFeedback:
            return "refused"
        impression.heard.append(fed)
        return "taken"

    def _close(self, impression: Open, seq: int) -> Outcome:
        ranked, fed = impression.ranked, impression.fed
        del self.open[ranked.impression]
        self.tally.close(ranked, fed, self.plan.problem.shown if self.plan else None)
        if ranked.mixed is not None:
            self._credit(ranked, fed)
            return Outcome("closed")
        if fed is None and self.plan is not None and self.plan.body.default_feedback == "not_clicked":
            fed = no_clicks(ranked.impression)
            self.tally.defaulted += 1
        if fed is None:
            return Outcome("closed")
        if self.frozen or not ranked.teaches:
            self.tally.unlearned += 1
            return Outcome("closed")
        self.lessons += 1
        due = self.plan is not None and self.lessons % self.plan.body.snapshot_every == 0
        return Outcome("closed", Lesson(seq, ranked, fed, self._mark(seq) if due else None, impression.decided))

    def _mark(self, seq: int) -> Mark:
        return Mark(self.saved(), self.oldest_open(seq))

    def _credit(self, ranked: Ranked, fed: Fed | None) -> None:
        mixed = from_plain(ranked.mixed, Mixed, "mixed")
        position = {item: i for i, item in enumerate(ranked.asked or range(len(ranked.ids)))}
        pairs = [(position[i], v) for i, v in zip(fed.items, fed.values) if i in position] if fed else []
        items = np.array([i for i, _ in pairs], dtype=np.int64)
        clicks = Clicks(items, np.array([value for _, value in pairs], dtype=np.float64))
        self.tally.credit(credit(self.method, mixed, clicks))

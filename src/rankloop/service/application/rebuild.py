"""Rebuild rankers and experiments from their log: after a restart, in a replay, and after an amendment."""

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec

from rankloop import __version__
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.saved_session import loads, loads_with_notes
from rankloop.features.schema import Schema
from rankloop.service.domain.ab_test import CLICKS, SplitCounts, UserTotals
from rankloop.service.domain.configuration import config_of
from rankloop.service.domain.projection import Consumer, Projection
from rankloop.service.domain.trainer import Trainer, digest
from rankloop.service.records import Created, Deleted, ExperimentCreated, Rebased, Record, Snapshot, Snapshotted
from rankloop.service.stores.base import Store
from rankloop.service.stores.open import log_at

MAX_OPEN_BYTES = 12_000_000  # of open impressions that a consumer keeps in memory
MAX_RECORDS_AT_ONCE = 1_000  # that are applied at a time
MAX_RECENT_STATES = 10_000  # with which a snapshot is compared that was written late


def rebuild(first: Record, snapshot: Snapshot | None = None, store: Store | None = None) -> Projection:
    """Build a ranker or an experiment from its first record, or from a snapshot of it.

    Args:
      first: The record of its creation; another one raises `InvalidInput`.
      snapshot: To continue from; its open impressions have to be read from the log.
      store: In which the rankers of an experiment are looked up.
    """
    event = first.event
    if isinstance(event, ExperimentCreated):
        # Lists are counted by the configuration of the first ranker.
        names = [variant.ranker for variant in (event.body.a, event.body.b) if variant.ranker is not None]
        created = store.first_record(f"ranker/{names[0]}").event if store is not None and names else None
        config = config_of(created.body) if isinstance(created, Created) else None
        projection = Projection(config, event.body.interleaving)
        if event.body.method == "split":
            salt = f"{first.entity} {event.body.seed} {first.seq}"
            projection.users = UserTotals(salt, [CLICKS, *event.body.outcomes])
    elif isinstance(event, Created):
        config = config_of(event.body)
        session, notes = loads_with_notes(snapshot.session) if snapshot is not None else (None, {})
        if notes.get("schemas"):
            config = config.with_schemas([Schema.from_plain(plain) for plain in notes["schemas"]])
        trainer = Trainer(config, event.start)
        if snapshot is not None and session is not None:
            trainer.restore(session, snapshot.number, snapshot.rejected)
        projection = Projection(config, trainer=trainer)
    else:
        raise InvalidInput(f"the log of {first.entity} does not begin with its creation")
    if snapshot is not None:
        projection.restore(snapshot.projection)
        projection.passed = snapshot.oldest_open - 1
    if projection.users is not None and projection.now.counters.split is None:
        projection.now.counters.split = SplitCounts()
    projection.first_window = event.body.window
    projection.seq = first.seq if snapshot is None else snapshot.state_seq
    return projection


def restored_consumer(entity: str, store: Store, until: int, first: Record | None = None) -> Consumer:
    """Rebuild a ranker or an experiment from its newest snapshot and the log after it.

    Args:
      entity: The ranker or experiment.
      store: Of the log.
      until: The last event that is applied.
      first: The record of its creation, if it was read already.
    """
    first = store.first_record(entity) if first is None else first
    snapshot = store.snapshot(entity)
    if snapshot is not None and not first.seq <= snapshot.state_seq <= until:
        snapshot = None
    consumer = Consumer(entity, store, rebuild(first, snapshot, store))
    consumer.snapshot_bytes = 0 if snapshot is None else len(snapshot.session or snapshot.projection)
    logged = store.read(entity, consumer.projection.seq, until)
    while piece := list(islice(logged, MAX_RECORDS_AT_ONCE)):
        consumer.apply(piece)  # events that are due were written when these were learned first
        consumer.projection.make_room(MAX_OPEN_BYTES)
    return consumer


def check_kinds(store: Store) -> None:
    """Raise `InvalidInput` if a ranker of the log needs a learner that is not imported."""
    with suppress(msgspec.MsgspecError):  # damaged records are reported when they are read
        for first in store.first_records():
            try:
                if isinstance(first.event, Created):
                    build(first.event.body.learner, "learner")
            except InvalidInput as error:
                advice = "for your own kind start with --import MODULE"
                raise InvalidInput(f"{first.entity.replace('/', ' ')}: {error}; {advice}") from None


class ReplayResult(NamedTuple):
    """The result of a replay, as `rankloop replay --json` prints it."""

    entity: str  # "ranker/name"
    events: int
    learned: int
    refused: int
    state: int
    digest: str
    checked: int  # snapshots that agree bit for bit
    differing: tuple[int, ...]  # state numbers of those that do not
    versions: tuple[str, ...] = ()  # of rankloop that learned those, if it is not this one

    @property
    def verdict(self) -> str:
        """A sentence on the snapshots: another version may give other bits, the same version never does."""
        if not self.differing:
            return "the same bit for bit"
        many = f"{len(self.differing)} snapshots DIFFER"
        if not self.versions:
            return f"{many}, though this version learned them: the log is damaged, or the CPU is of another kind"
        learned = " and ".join(self.versions)
        advice = f"this is {__version__}: replay them with the version that learned them"
        return f"{many}; they were learned by rankloop {learned}, {advice}"


class Replay:
    """A ranker that is learned again from its first record and compared with every snapshot."""

    def __init__(self, first: Record) -> None:
        self.entity = first.entity
        self.projection = rebuild(first)
        self.trainer: Trainer = self.projection.trainer  # type: ignore[assignment]  # a ranker has one
        self.trainer.find_state = lambda number: self._snapshot_states.get(number)
        self.events = 1
        self.checked = 0
        self.differing: list[int] = []
        self.versions: set[str] = set()  # of rankloop that learned the differing snapshots
        self.recent_states: OrderedDict[int, Any] = OrderedDict({0: self.trainer.session.state})  # by number
        self._snapshot_states: dict[int, Any] = {0: self.trainer.session.state}  # as the replay computed them

    def apply(self, record: Record) -> None:
        """Apply a record; a snapshot is compared with the state of the replay."""
        if isinstance(record.event, Created):  # two requests created it at the same moment; the first counts
            return
        self.events += 1
        if self.projection.apply(record).is_step:
            self.recent_states[self.trainer.number] = self.trainer.session.state
            if len(self.recent_states) > MAX_RECENT_STATES:
                self.recent_states.popitem(last=False)
        event = record.event
        if isinstance(event, Snapshotted):
            state = self.recent_states.get(event.number, self._snapshot_states.get(event.number))
            if state is not None:
                self._snapshot_states[event.number] = state
            if state is not None and digest(state) == event.digest:
                self.checked += 1
            else:
                self.differing.append(event.number)
                self.versions.add(event.rankloop_version)
        elif isinstance(event, Rebased) and not event.projection:
            self._snapshot_states[event.number] = loads(event.session).state

    def result(self) -> ReplayResult:
        """Return the counts, the digest and the comparison with snapshots."""
        session = self.trainer.session
        return ReplayResult(
            entity=self.entity,
            events=self.events,
            learned=session.learned,
            refused=session.refused,
            state=self.trainer.number,
            digest=digest(session.state),
            checked=self.checked,
            differing=tuple(self.differing),
            versions=() if __version__ in self.versions else tuple(sorted(self.versions)),
        )


def replay_log(where: str) -> list[ReplayResult]:
    """Learn every ranker of a log again, at a folder, file or PostgreSQL address, and compare it with its snapshots."""
    with log_at(where) as log:
        return replay_records(chain.from_iterable(map(log.read, log.entities())))


def replay_records(records: Iterable[Record]) -> list[ReplayResult]:
    """Learn every ranker of a log again from its first event."""
    replays: dict[str, Replay] = {}
    for record in records:
        if not record.entity.startswith("ranker/"):
            continue
        if isinstance(record.event, Deleted):
            replays.pop(record.entity, None)
        elif record.entity in replays:
            replays[record.entity].apply(record)
        elif getattr(record.event, "impression", None) is None:  # else a process had not noticed the deletion yet
            replays[record.entity] = Replay(record)
    return [replay.result() for replay in replays.values()]

"""A ranker from its log: the last snapshot, then what came after it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping

from rankloop.core.saving import loads
from rankloop.service.events import Created, Entry, Experiment, Record, Snapshot
from rankloop.service.experiments import LiveExperiment
from rankloop.service.live import Live
from rankloop.service.plan import plan_of
from rankloop.service.stores.port import Store
from rankloop.service.view import Outcome, View


def first_record(store: Store, stream: str) -> Record:
    """How a stream began."""
    return next(store.read(stream))


def live_from(created: Created, stream: str, store: Store, due: asyncio.Queue[Entry], slot: int = 0) -> Live:
    """A ranker at its beginning."""
    return Live(stream, plan_of(created.body), created.start, store, due, slot)


def restored(stream: str, store: Store, due: asyncio.Queue[Entry], until: int, slot: int = 0) -> Live:
    """A ranker as it was after the event `until`."""
    event = first_record(store, stream).event
    if not isinstance(event, Created):
        raise TypeError(f"{stream} does not begin with its creation")
    live = live_from(event, stream, store, due, slot)
    snapshot = store.snapshot(stream)
    if snapshot is not None:
        live.learning.restore(loads(snapshot.session), snapshot.number, snapshot.unfit, snapshot.state_seq)
    for outcome in _folded(live.view, snapshot, store, stream, until):
        if outcome.step is not None:
            live.learning.take(outcome.step, live.state_at)
    set_deadlines(live.view, store, stream, live.plan.body.window)
    live.start_serving()
    return live


def restored_experiment(stream: str, store: Store, until: int, rankers: Mapping[str, Live]) -> LiveExperiment:
    """An experiment as it was after the event `until`."""
    event = first_record(store, stream).event
    if not isinstance(event, Experiment):
        raise TypeError(f"{stream} does not begin with its creation")
    live = LiveExperiment(stream, event, rankers)
    for _ in _folded(live.view, store.snapshot(stream), store, stream, until):
        pass
    set_deadlines(live.view, store, stream, event.body.window)
    return live


def _folded(view: View, snapshot: Snapshot | None, store: Store, stream: str, until: int) -> Iterator[Outcome]:
    """What came after the snapshot, folded; before it only the impressions that were open are looked for."""
    seq, begin = 0, 0
    if snapshot is not None:
        view.restore(snapshot.view)
        seq, begin = snapshot.state_seq, min(snapshot.oldest_open, snapshot.state_seq + 1) - 1
    for record in store.read(stream, begin, until):
        if record.seq <= seq:
            view.reopen(record)
        else:
            yield view.fold(record)


def set_deadlines(view: View, store: Store, stream: str, window: float) -> None:
    """What is left of each window: never more than all of it, whatever the wall clock did meanwhile."""
    if not view.open:
        return
    first = next(iter(view.open.values())).began
    began = {record.seq: record.at for record in store.read(stream, first - 1)}
    for impression in view.open.values():
        left = began[impression.began] + window - time.time()
        impression.deadline = time.monotonic() + min(max(left, 0.0), window)

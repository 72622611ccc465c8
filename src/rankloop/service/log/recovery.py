"""A ranker from its log: the last snapshot, then what came after it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import entries
from rankloop.core.saved_session import loads
from rankloop.service.log.events import Created, Entry, Experiment, Record, Snapshot
from rankloop.service.log.projection import Outcome, View
from rankloop.service.log.stores.base import Store
from rankloop.service.ranker.comparison import LiveExperiment
from rankloop.service.ranker.config import plan_of
from rankloop.service.ranker.runtime import Live


def first_record(store: Store, stream: str) -> Record:
    """How a stream began."""
    return next(store.read(stream))


def check_kinds(store: Store) -> None:
    """Refuse to start where a ranker of the log needs what is not imported; what cannot be read is told later."""
    known = {entry.kind for entry in entries()}
    for stream in store.streams():
        with suppress(msgspec.MsgspecError):
            event = first_record(store, stream).event
            spec = event.body.learner if isinstance(event, Created) else {}
            missing = next((kind for kind in _kinds(spec) if kind not in known), None)
            if missing is not None:
                name = stream.partition("/")[2]
                raise InvalidInput(f"ranker {name!r} needs the learner {missing!r}: start with --import its_module")


def _kinds(spec: Any) -> Iterator[str]:
    """The kinds that a spec in its normal form names, its own first."""
    if isinstance(spec, list):
        for part in spec:
            yield from _kinds(part)
    if isinstance(spec, dict):
        if isinstance(spec.get("kind"), str):
            yield spec["kind"]
        yield from _kinds(list(spec.values()))


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

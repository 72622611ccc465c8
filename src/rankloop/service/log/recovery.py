"""Rankers and comparisons from their log: the last snapshot, then what came after it."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import entries
from rankloop.core.saved_session import loads_with_notes
from rankloop.features.schema import Schema
from rankloop.service.log.catalogue import Catalogue, catalogue_of
from rankloop.service.log.events import ComparisonCreated, Created, Entry, Record, Snapshot, catalogue_entity
from rankloop.service.log.projection import Outcome, Projection
from rankloop.service.log.stores.base import Store
from rankloop.service.ranker.comparison import ComparisonRuntime
from rankloop.service.ranker.config import config_of
from rankloop.service.ranker.runtime import RankerRuntime
from rankloop.service.ranker.trainer import Evolution

Catalogues = Mapping[str, Catalogue]
NO_CATALOGUES: Catalogues = {}


def restored_catalogue(name: str, store: Store, until: int) -> Catalogue:
    """A catalogue as it was after the event `until`, with every row that was ever replaced."""
    return catalogue_of(store.read(catalogue_entity(name), 0, until), catalogue_reader(name, store))


def catalogue_reader(name: str, store: Store) -> Callable[[int], Iterator[Record]]:
    """How a catalogue reads what it has forgotten."""
    return lambda until: store.read(catalogue_entity(name), 0, until)


def first_record(store: Store, entity: str) -> Record:
    """How an entity began."""
    return next(store.read(entity))


def check_kinds(store: Store) -> None:
    """Refuse to start where a ranker of the log needs what is not imported; what cannot be read is told later."""
    known = {entry.kind for entry in entries()}
    for entity in store.entities():
        with suppress(msgspec.MsgspecError):
            event = first_record(store, entity).event
            spec = event.body.learner if isinstance(event, Created) else {}
            missing = next((kind for kind in _kinds(spec) if kind not in known), None)
            if missing is not None:
                name = entity.partition("/")[2]
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


def new_runtime(
    created: Created,
    entity: str,
    store: Store,
    due: asyncio.Queue[Entry],
    slot: int = 0,
    catalogues: Catalogues = NO_CATALOGUES,
    schemas: Sequence[Schema] = (),
) -> RankerRuntime:
    """A ranker at its beginning; `schemas` are later versions of its schema that are known already."""
    config = config_of(created.body)
    config = config.with_schemas(schemas) if schemas else config
    catalogue = catalogues.get(config.body.problem.catalogue or "")
    return RankerRuntime(entity, config, created.start, store, due, slot, catalogue)


def restored_runtime(
    entity: str,
    store: Store,
    due: asyncio.Queue[Entry],
    until: int,
    slot: int = 0,
    catalogues: Catalogues = NO_CATALOGUES,
) -> RankerRuntime:
    """A ranker as it was after the event `until`."""
    event = first_record(store, entity).event
    if not isinstance(event, Created):
        raise TypeError(f"{entity} does not begin with its creation")
    snapshot = store.snapshot(entity)
    session, notes = loads_with_notes(snapshot.session) if snapshot is not None else (None, {})
    schemas = [Schema.from_plain(plain) for plain in notes.get("schemas", ())]
    runtime = new_runtime(event, entity, store, due, slot, catalogues, schemas)
    if snapshot is not None and session is not None:
        runtime.trainer.restore(session, snapshot.number, snapshot.rejected, snapshot.state_seq)
        runtime.snapshot_size = len(snapshot.session)
    for outcome in _applied(runtime.projection, snapshot, store, entity, until):
        if isinstance(outcome.step, Evolution):
            runtime.evolve(outcome.step)
        if outcome.step is not None:
            runtime.trainer.learn(outcome.step, runtime.state_at)
    for impression in runtime.projection.open.values():
        runtime.note(impression)
    set_deadlines(runtime.projection, store, entity, runtime.config.body.window)
    runtime.start_serving()
    return runtime


def restored_comparison(
    entity: str, store: Store, until: int, rankers: Mapping[str, RankerRuntime]
) -> ComparisonRuntime:
    """A comparison as it was after the event `until`."""
    event = first_record(store, entity).event
    if not isinstance(event, ComparisonCreated):
        raise TypeError(f"{entity} does not begin with its creation")
    runtime = ComparisonRuntime(entity, event.body, rankers)
    for _ in _applied(runtime.projection, store.snapshot(entity), store, entity, until):
        pass
    set_deadlines(runtime.projection, store, entity, event.body.window)
    return runtime


def _applied(
    projection: Projection, snapshot: Snapshot | None, store: Store, entity: str, until: int
) -> Iterator[Outcome]:
    """What came after the snapshot, applied; before it only the impressions that were open are looked for."""
    seq, begin = 0, 0
    if snapshot is not None:
        projection.restore(snapshot.projection)
        seq, begin = snapshot.state_seq, min(snapshot.oldest_open, snapshot.state_seq + 1) - 1
    for record in store.read(entity, begin, until):
        if record.seq <= seq:
            projection.reopen(record)
        else:
            yield projection.apply(record)


def set_deadlines(projection: Projection, store: Store, entity: str, window: float) -> None:
    """What is left of each window: never more than all of it, whatever the wall clock did meanwhile.

    While an impression is open and the service runs, something is logged within its window, at the latest that it
    closes. So the longest time without an event, if it is longer than the window, was one in which the service did not
    run or its clock was set: it does not count.
    """
    if not projection.open:
        return
    began = {impression.began: impression for impression in projection.open.values()}
    times = [(record.seq, record.at) for record in store.read(entity, min(began) - 1)]
    now, later, spent, longest = time.monotonic(), time.time(), 0.0, 0.0
    for seq, at in reversed(times):
        gap, later = max(later - at, 0.0), at
        spent, longest = spent + gap, max(longest, gap)
        if seq in began:
            elapsed = spent - longest if longest > window else spent
            began[seq].deadline = now + max(window - elapsed, 0.0)

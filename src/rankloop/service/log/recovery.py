"""Rankers and comparisons from their log: the last snapshot, then what came after it."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event as Flag
from typing import Any

import msgspec

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.registry import entries
from rankloop.core.saved_session import loads_with_notes
from rankloop.features.schema import Schema
from rankloop.service.log.catalogue import Catalogue
from rankloop.service.log.events import (
    ComparisonCreated,
    Created,
    Deleted,
    Record,
    Snapshot,
    catalogue_entity,
    ranker_entity,
)
from rankloop.service.log.projection import Projection
from rankloop.service.log.stores.base import Store
from rankloop.service.ranker.config import config_of
from rankloop.service.ranker.course import Course
from rankloop.service.ranker.trainer import Trainer
from rankloop.service.requests import ExperimentBody

FindCatalogue = Callable[[str], Catalogue | None]


def catalogue_reader(name: str, store: Store) -> Callable[[int], Iterator[Record]]:
    """How a catalogue reads what came after an event."""
    return lambda after: iter(store.changes(catalogue_entity(name), after))


def first_record(store: Store, entity: str) -> Record:
    """How an entity began."""
    for record in store.changes(entity):
        if not isinstance(record.event, Deleted):
            return record
    raise NotFound(f"there is no {entity} in the log")


def check_kinds(store: Store) -> None:
    """Refuse to start where a ranker of the log needs what is not imported; what cannot be read is told later."""
    known = {entry.kind for entry in entries()}
    with suppress(msgspec.MsgspecError):
        for first in store.beginnings():
            spec = first.event.body.learner if isinstance(first.event, Created) else {}
            missing = next((kind for kind in _kinds(spec) if kind not in known), None)
            if missing is not None:
                name = first.entity.partition("/")[2]
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


def new_course(first: Record, store: Store, find_catalogue: FindCatalogue, stopping: Flag | None = None) -> Course:
    """A ranker or a comparison at its beginning; it waits for a log that cannot be read until `stopping` is set."""
    return _course(first, store, find_catalogue, None, stopping)


def restored_course(
    entity: str,
    store: Store,
    until: int,
    find_catalogue: FindCatalogue,
    first: Record | None = None,
    stopping: Flag | None = None,
) -> Course:
    """A ranker or a comparison as it was after the event `until`."""
    first = first_record(store, entity) if first is None else first
    snapshot = store.snapshot(entity)
    if snapshot is not None and not first.seq <= snapshot.state_seq <= until:
        snapshot = None
    course = _course(first, store, find_catalogue, snapshot, stopping)
    records: list[Record] = []
    for record in store.read(entity, course.seq, until):
        records.append(record)
        if len(records) == AT_ONCE:
            course.apply(records)  # what it finds due was written by the learner before
            course.projection.make_room(MAX_OPEN_BYTES)
            records = []
    course.apply(records)
    course.projection.make_room(MAX_OPEN_BYTES)
    return course


AT_ONCE = 1_000  # events
MAX_OPEN_BYTES = 12_000_000  # of impressions that a course keeps in memory


def _course(
    first: Record,
    store: Store,
    find_catalogue: FindCatalogue,
    snapshot: Snapshot | None,
    stopping: Flag | None,
) -> Course:
    event = first.event
    if isinstance(event, ComparisonCreated):
        projection = Projection(config_of_side(event.body, store), event.body.method)
        course = Course(first.entity, store, projection, None, event.body.window, stopping)
    elif isinstance(event, Created):
        session, notes = loads_with_notes(snapshot.session) if snapshot is not None else (None, {})
        config = config_of(event.body)
        schemas = [Schema.from_plain(plain) for plain in notes.get("schemas", ())]
        config = config.with_schemas(schemas) if schemas else config
        trainer = Trainer(config, event.start, find_catalogue(config.body.problem.catalogue or ""))
        if snapshot is not None and session is not None:
            trainer.restore(session, snapshot.number, snapshot.rejected, snapshot.state_seq)
        course = Course(first.entity, store, Projection(config), trainer, event.body.window, stopping)
    else:
        raise TypeError(f"{first.entity} does not begin with its creation")
    course.seq = first.seq
    if snapshot is not None:
        course.projection.restore(snapshot.projection)
        course.projection.passed = snapshot.oldest_open - 1
        course.seq, course.snapshot_size = snapshot.state_seq, len(snapshot.session)
    return course


def config_of_side(body: ExperimentBody, store: Store) -> Any:
    """The configuration by which the lists of a comparison are counted: that of the first ranker in it."""
    for side in (body.a, body.b):
        if side.ranker is not None:
            event = first_record(store, ranker_entity(side.ranker)).event
            return config_of(event.body) if isinstance(event, Created) else None
    return None

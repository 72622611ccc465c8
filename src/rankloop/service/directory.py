"""What there is: rankers, comparisons and catalogues, as a worker knows them from their configuration and states."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rankloop.core.saved_session import loads_with_notes
from rankloop.features.schema import Schema
from rankloop.service.log.catalogue import Catalogue
from rankloop.service.log.events import (
    AliasSet,
    CatalogueChanged,
    ComparisonCreated,
    Created,
    Deleted,
    Evolved,
    Record,
    Snapshotted,
    catalogue_entity,
)
from rankloop.service.log.recovery import catalogue_reader
from rankloop.service.log.stores.base import Publication, SharedStore, Store
from rankloop.service.ranker.comparison import ComparisonRuntime
from rankloop.service.ranker.config import config_of
from rankloop.service.ranker.runtime import RankerRuntime
from rankloop.service.ranker.trainer import PublishedState

MAX_LED = 8  # rankers that an alias led to, in which feedback is looked for
Runtime = RankerRuntime | ComparisonRuntime


class Findings(NamedTuple):
    """What the log and the published states say of an entity after what is known of it."""

    entity: str
    changes: list[Record]
    published: PublishedState | None = None


class Directory:
    """Everything that has a name. `find` reads and may be called on any thread; the rest belongs to the event loop."""

    def __init__(self, store: Store, learns: Callable[[str], bool]) -> None:
        self.store = store
        self.rankers: dict[str, RankerRuntime] = {}
        self.comparisons: dict[str, ComparisonRuntime] = {}
        self.catalogues: dict[str, Catalogue] = {}
        self.aliases: dict[str, tuple[str, ...]] = {}  # where they lead and led, the newest first
        self._learns = learns
        self._early: dict[str, PublishedState] = {}  # states that were learned here before the ranker was known

    def load(self) -> None:
        """All that is there; nothing else uses this object yet."""
        firsts = sorted(self.store.beginnings(), key=lambda first: _order(first.entity))
        states = self.store.published() if isinstance(self.store, SharedStore) else {}
        for first in firsts:
            entity, has_schema = first.entity, isinstance(first.event, Created) and first.event.body.problem.schema
            if isinstance(first.event, AliasSet):
                self.take(self.find(entity))
                continue
            if isinstance(first.event, CatalogueChanged):
                self._catalogue(entity.partition("/")[2])
                continue
            changes = self.store.changes(entity) if has_schema else [first]
            self.take(Findings(entity, changes, self._state(entity) if self.store.shared or entity in states else None))

    def find(self, entity: str) -> Findings:
        """What is new of an entity."""
        runtime, kind = self.runtime(entity), entity.partition("/")[0]
        if kind == "alias":
            return Findings(entity, self.store.changes(entity))
        if kind == "catalogue":
            catalogue = self.catalogues.get(entity.partition("/")[2])
            if catalogue is not None:
                catalogue.catch_up()
                return Findings(entity, [])
            return Findings(entity, self.store.changes(entity)[:1])
        changes = self.store.changes(entity, runtime.changed_after if runtime is not None else 0)
        for record in changes:
            if isinstance(record.event, Created):
                self.catalogue(record.event.body.problem.catalogue or "")
        known = runtime is not None or bool(changes)
        return Findings(entity, changes, self._state(entity) if known and self.store.shared else None)

    def take(self, found: Findings) -> None:
        """Go by what was found."""
        if found.entity.startswith("alias/"):
            self._lead(found)
            return
        for record in found.changes:
            self._change(record)
        if found.published is not None and not self._learns(found.entity):
            self.publish(found.entity, found.published)

    def publish(self, entity: str, published: PublishedState) -> None:
        """A newer state; one that is not newer changes nothing."""
        runtime = self.runtime(entity)
        if runtime is None:
            self._early[entity] = published
        elif published.seq > runtime.published.seq or not runtime.published.projection:
            runtime.publish(published)

    def recount(self, entity: str, seq: int, projection: bytes) -> None:
        """Newer counts of the state that is served, or of the one that is about to come."""
        runtime = self.runtime(entity)
        if runtime is not None and seq > runtime.published.seq:
            now = runtime.published._replace(projection=projection)
            if isinstance(runtime, RankerRuntime):
                runtime.published = now
            else:
                runtime.publish(now._replace(seq=seq))

    def replace(self, entity: str, published: PublishedState) -> None:
        """A state that was learned again, newer or not."""
        runtime = self.runtime(entity)
        if runtime is not None:
            runtime.publish(published)

    def runtime(self, entity: str) -> Runtime | None:
        kind, _, name = entity.partition("/")
        return self.rankers.get(name) if kind == "ranker" else self.comparisons.get(name)

    def targets(self, name: str) -> tuple[str, ...]:
        """The rankers that a name means, now and before; its own first where there is one."""
        return (name,) if name in self.rankers else self.aliases.get(name, (name,))

    def _lead(self, found: Findings) -> None:
        name = found.entity.partition("/")[2]
        led = [record.event.ranker for record in found.changes if isinstance(record.event, AliasSet)]
        if led and led[-1]:
            self.aliases[name] = tuple(dict.fromkeys(filter(None, reversed(led))))[:MAX_LED]
        else:
            self.aliases.pop(name, None)

    def drop(self, entity: str) -> None:
        """It is gone."""
        kind, _, name = entity.partition("/")
        known: dict[str, Any] = self.rankers if kind == "ranker" else self.comparisons
        known.pop(name, None)
        self._early.pop(entity, None)

    def learn_here(self, entity: str) -> None:
        """This process learns it, so its draws go on where those in the log ended."""
        runtime = self.runtime(entity)
        if isinstance(runtime, RankerRuntime):
            runtime.draw_line(runtime.projection.generators.get(0, ""))

    def learn_elsewhere(self, entity: str) -> None:
        runtime = self.runtime(entity)
        if isinstance(runtime, RankerRuntime):
            runtime.is_line = False

    def catalogue(self, name: str) -> Catalogue | None:
        """The catalogue of this name; it is read where it is not known yet. For any thread."""
        if not name:
            return None
        if name not in self.catalogues and self.store.changes(catalogue_entity(name))[:1]:
            return self._catalogue(name)
        return self.catalogues.get(name)

    def _change(self, record: Record) -> None:
        entity, event = record.entity, record.event
        kind, _, name = entity.partition("/")
        if isinstance(event, Created) and name not in self.rankers:
            config = config_of(event.body)
            catalogue = self.catalogue(config.body.problem.catalogue or "")
            runtime = RankerRuntime(entity, config, event.start, self.store, catalogue)
            self.rankers[name] = runtime
            self._begin(runtime)
        elif isinstance(event, ComparisonCreated) and name not in self.comparisons:
            self.comparisons[name] = ComparisonRuntime(entity, event.body, self.rankers)
            self._begin(self.comparisons[name])
        elif isinstance(event, CatalogueChanged):
            self._catalogue(name)
        elif isinstance(event, Deleted):
            self.drop(entity)
        elif isinstance(event, Evolved) and kind == "ranker":
            runtime, schema = self.rankers[name], Schema.from_plain(event.schema)
            known = runtime.config.schema
            if known is not None and schema.version == known.version + 1:
                runtime.evolve(runtime.config.with_schemas([schema]))
        runtime_now = self.runtime(entity)
        if runtime_now is not None and (not isinstance(event, Snapshotted) or record.seq <= self.store.settled_after):
            runtime_now.changed_after = max(runtime_now.changed_after, record.seq)

    def _begin(self, runtime: Runtime) -> None:
        early = self._early.pop(runtime.entity, None)
        if early is not None:
            runtime.publish(early)
        if self._learns(runtime.entity):
            self.learn_here(runtime.entity)

    def _catalogue(self, name: str) -> Catalogue:
        if name not in self.catalogues:
            catalogue = Catalogue(catalogue_reader(name, self.store))
            catalogue.catch_up()
            self.catalogues.setdefault(name, catalogue)
        return self.catalogues[name]

    def _state(self, entity: str) -> PublishedState | None:
        """The newest state that was published, or kept where none was."""
        store = self.store
        found = store.publication(entity) if isinstance(store, SharedStore) else None
        if found is None:
            kept = store.snapshot(entity)
            if kept is None:
                return None
            found = Publication(entity, kept.number, kept.state_seq, kept.rejected, kept.session, kept.projection)
        if not found.session:
            return PublishedState(found.number, None, 0, 0, 0, found.seq, found.projection)
        session, notes = loads_with_notes(found.session)
        schemas = tuple(Schema.from_plain(plain) for plain in notes.get("schemas", ()))
        counts = session.learned, session.refused, found.rejected
        return PublishedState(found.number, session.state, *counts, found.seq, found.projection, schemas)


def _order(entity: str) -> int:
    """Catalogues before the rankers that use them, and those before the comparisons of them."""
    kinds: Mapping[str, int] = {"catalogue": 0, "ranker": 1}
    return kinds.get(entity.partition("/")[0], 2)

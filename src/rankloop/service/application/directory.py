"""The directory of a process: rankers, experiments, catalogues and aliases by name, with their newest states."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from rankloop.core.errors import NotFound, Rejected
from rankloop.core.saved_session import loads_with_notes
from rankloop.features.schema import Schema
from rankloop.service.application.served_rankers import ServedRanker
from rankloop.service.domain.catalogue import ItemCatalogue
from rankloop.service.domain.configuration import config_of
from rankloop.service.domain.experiment import ServedExperiment
from rankloop.service.domain.trainer import PublishedState
from rankloop.service.errors import Unavailable
from rankloop.service.records import (
    AliasSet,
    CatalogueChanged,
    Created,
    Deleted,
    ExperimentCreated,
    Record,
    RulesChanged,
    SchemaChanged,
    alias_entity,
    catalogue_entity,
    experiment_entity,
    ranker_entity,
)
from rankloop.service.stores.base import ANY_ENTITY, Publication, SharedStore, Store

MAX_ALIAS_TARGETS = 8  # rankers that an alias has pointed to, whose impressions still get feedback through it
REFRESH_SECONDS = 2.0  # between two looks for changes without a notification
LOAD_ORDER: Mapping[str, int] = {"catalogue": 0, "ranker": 1}  # then experiments and aliases, which refer to rankers
Runtime = ServedRanker | ServedExperiment


class EntityUpdate(NamedTuple):
    """Changes of an entity since it was last read, and its published state."""

    entity: str
    changes: list[Record]
    published: PublishedState | None = None


class Directory:
    """All entities by name. `read_update` and `catalogue` may be called on any thread, all else on the event loop.

    Args:
      store: Of the log.
      learns: Returns whether this process learns an entity.
    """

    def __init__(self, store: Store, learns: Callable[[str], bool]) -> None:
        self.store = store
        self.rankers: dict[str, ServedRanker] = {}
        self.experiments: dict[str, ServedExperiment] = {}
        self.catalogues: dict[str, ItemCatalogue] = {}
        self.aliases: dict[
            str, tuple[str, ...]
        ] = {}  # rankers that they point to and have pointed to, the newest first
        self.entities: dict[str, Runtime] = {}  # rankers and experiments by entity
        self.early: dict[str, PublishedState] = {}  # states that were learned before the directory had the ranker
        self._learns = learns
        self._refreshing: dict[str, bool] = {}  # entities that are being read: whether they must be read once more

    def load(self) -> None:
        """Read all entities; nothing else uses this object yet."""
        for entity in sorted(self.store.entities(), key=lambda entity: LOAD_ORDER.get(entity.partition("/")[0], 2)):
            self.apply_update(self.read_update(entity))

    def ranker(self, name: str) -> ServedRanker:
        """Return the ranker of this name, or raise `NotFound`."""
        if name not in self.rankers:
            raise NotFound(f"there is no ranker {name!r}")
        return self.rankers[name]

    def experiment(self, name: str) -> ServedExperiment:
        """Return the experiment of this name, or raise `NotFound`."""
        if name not in self.experiments:
            raise NotFound(f"there is no experiment {name!r}")
        return self.experiments[name]

    async def find_ranker(self, name: str) -> ServedRanker:
        """Return the ranker of this name, which another process may just have created."""
        if self.store.shared and name not in self.rankers:
            await self.refresh(ranker_entity(name))
        return self.ranker(name)

    async def find_experiment(self, name: str) -> ServedExperiment:
        """Return the experiment of this name, which another process may just have created."""
        if self.store.shared and name not in self.experiments:
            await self.refresh(experiment_entity(name))
        return self.experiment(name)

    async def find_catalogue(self, name: str, field: str = "") -> ItemCatalogue:
        """Return the catalogue of this name.

        Args:
          name: Of the catalogue.
          field: Of the request that names it, for the error.

        Raises:
          NotFound: If there is none; `Rejected` if a field names it.
        """
        if self.store.shared and name not in self.catalogues:
            await self.refresh(catalogue_entity(name))
        if name not in self.catalogues and field:
            raise Rejected(field, f"there is no catalogue {name!r}; PUT /catalogues/{name} first")
        if name not in self.catalogues:
            raise NotFound(f"there is no catalogue {name!r}")
        return self.catalogues[name]

    async def find_targets(self, name: str) -> tuple[str, ...]:
        """Return the rankers of a name: itself, or those that it points to and has pointed to as an alias."""
        if self.store.shared and name not in self.rankers and name not in self.aliases:
            await self.refresh(ranker_entity(name))
            if name not in self.rankers:
                await self.refresh(alias_entity(name))
        return (name,) if name in self.rankers else self.aliases.get(name, (name,))

    async def refresh(self, entity: str) -> None:
        """Read and apply the changes of an entity."""
        update = await asyncio.to_thread(self.read_update, entity)
        for record in update.changes:
            if isinstance(record.event, ExperimentCreated):
                for variant in (record.event.body.a, record.event.body.b):
                    if variant.ranker is not None and variant.ranker not in self.rankers:
                        await self.refresh(ranker_entity(variant.ranker))
        self.apply_update(update)

    def read_update(self, entity: str) -> EntityUpdate:
        """Read the changes of an entity from the store."""
        runtime, (kind, _, name) = self.entities.get(entity), entity.partition("/")
        if kind == "alias":
            return EntityUpdate(entity, self.store.changes(entity))
        if kind == "catalogue":
            catalogue = self.catalogues.get(name)
            if catalogue is not None:
                catalogue.catch_up()
                return EntityUpdate(entity, [])
            return EntityUpdate(entity, self.store.changes(entity)[:1])
        changes = self.store.changes(entity, runtime.changed_after if runtime is not None else 0)
        for record in changes:
            if isinstance(record.event, Created):
                self.catalogue(record.event.body.problem.catalogue or "")
        is_there = runtime is not None or bool(changes)
        return EntityUpdate(entity, changes, self._state(entity) if is_there and self.store.shared else None)

    def apply_update(self, update: EntityUpdate) -> None:
        """Apply changes of an entity."""
        entity, published = update.entity, update.published
        if entity.startswith("alias/"):
            self._set_alias(update)
            return
        for record in update.changes:
            self._change(record)
        if published is not None and not self._learns(entity):
            if entity in self.entities:
                self.entities[entity].swap_in(published)
            else:
                self.early[entity] = published

    def drop(self, entity: str) -> None:
        """Remove an entity that was deleted."""
        name = entity.partition("/")[2]
        if isinstance(self.entities.pop(entity, None), ServedRanker):
            del self.rankers[name]
        elif entity.startswith("experiment/"):
            self.experiments.pop(name, None)
        self.early.pop(entity, None)

    def learn_here(self, entity: str) -> None:
        """Let a ranker that this process learns draw from one generator, from the last ranking in the log on."""
        runtime = self.entities.get(entity)
        if isinstance(runtime, ServedRanker):
            runtime.draw_in_sequence()

    def learn_elsewhere(self, entity: str) -> None:
        """Let a ranker that another process learns draw each ranking from a generator of its own."""
        runtime = self.entities.get(entity)
        if isinstance(runtime, ServedRanker):
            runtime.draws_in_sequence = False

    def catalogue(self, name: str) -> ItemCatalogue | None:
        """Return the catalogue of this name; it is read from the store if it is new."""
        if name and name not in self.catalogues and self.store.changes(catalogue_entity(name))[:1]:
            return self._add_catalogue(name)
        return self.catalogues.get(name)

    def notice(self, entity: str, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        """Start to refresh an entity, or all; many calls at the same moment are one refresh.

        Args:
          entity: Its name, or `ANY_ENTITY`.
          spawn: Starts work on the event loop.
        """
        if entity in self._refreshing:
            self._refreshing[entity] = True
        else:
            self._refreshing[entity] = False
            spawn(self._refresh_until_quiet(entity))

    async def refresh_regularly(self, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        """Refresh everything every few seconds, in case a notification was lost."""
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            self.notice(ANY_ENTITY, spawn)

    async def _refresh_until_quiet(self, entity: str) -> None:
        try:
            while True:
                self._refreshing[entity] = False
                with suppress(Unavailable, NotFound):
                    await (self._refresh_all() if entity == ANY_ENTITY else self.refresh(entity))
                if not self._refreshing[entity]:
                    return
        finally:
            del self._refreshing[entity]

    async def _refresh_all(self) -> None:
        """Refresh every entity that has changed."""
        store: Any = self.store
        published, entities = await asyncio.to_thread(lambda: (store.published_seqs(), store.entities()))
        for entity in set(self.entities).difference(entities):
            self.drop(entity)
        for entity in entities:
            runtime = self.entities.get(entity)
            is_listed = runtime is not None or entity.startswith("catalogue/")
            is_behind = runtime is not None and published.get(entity, 0) > runtime.published.seq
            if not is_listed or (is_behind and not self._learns(entity)):
                await self.refresh(entity)

    def _set_alias(self, update: EntityUpdate) -> None:
        name = update.entity.partition("/")[2]
        targets = [record.event.ranker for record in update.changes if isinstance(record.event, AliasSet)]
        if targets and targets[-1]:
            self.aliases[name] = tuple(dict.fromkeys(filter(None, reversed(targets))))[:MAX_ALIAS_TARGETS]
        else:
            self.aliases.pop(name, None)

    def _change(self, record: Record) -> None:
        entity, event = record.entity, record.event
        name = entity.partition("/")[2]
        if isinstance(event, Created) and name not in self.rankers:
            config = config_of(event.body)
            catalogue = self.catalogue(config.body.problem.catalogue or "")
            self.rankers[name] = ServedRanker(entity, config, event.start, catalogue)
            self._add(self.rankers[name])
        elif isinstance(event, ExperimentCreated) and name not in self.experiments:
            self.experiments[name] = ServedExperiment(entity, event.body, self.rankers)
            self._add(self.experiments[name])
        elif isinstance(event, CatalogueChanged):
            self._add_catalogue(name)
        elif isinstance(event, Deleted):
            self.drop(entity)
        elif isinstance(event, SchemaChanged) and name in self.rankers:
            ranker, schema = self.rankers[name], Schema.from_plain(event.schema)
            if ranker.config.schema is not None and schema.version == ranker.config.schema.version + 1:
                ranker.change_config(ranker.config.with_schemas([schema]))
        elif isinstance(event, RulesChanged) and name in self.rankers:
            self.rankers[name].config = self.rankers[name].config.with_rules(event.rules)
        runtime = self.entities.get(entity)
        if runtime is not None:
            runtime.changed_after = max(runtime.changed_after, record.seq)

    def _add(self, runtime: Runtime) -> None:
        self.entities[runtime.entity] = runtime
        early = self.early.pop(runtime.entity, None)
        if early is not None:
            runtime.swap_in(early, replaces_any=True)
        if self._learns(runtime.entity):
            self.learn_here(runtime.entity)

    def _add_catalogue(self, name: str) -> ItemCatalogue:
        if name not in self.catalogues:
            catalogue = ItemCatalogue(lambda after: self.store.changes(catalogue_entity(name), after))
            catalogue.catch_up()
            self.catalogues.setdefault(name, catalogue)
        return self.catalogues[name]

    def _state(self, entity: str) -> PublishedState | None:
        """Return the newest published state, or that of the newest snapshot."""
        store = self.store
        newest = store.publication(entity) if isinstance(store, SharedStore) else None
        if newest is None:
            snapshot = store.snapshot(entity)
            if snapshot is None:
                return None
            newest = Publication(
                entity, snapshot.number, snapshot.state_seq, snapshot.rejected, snapshot.session, snapshot.projection
            )
        if not newest.session:
            return PublishedState(number=newest.number, seq=newest.seq, projection=newest.projection)
        session, notes = loads_with_notes(newest.session)
        return PublishedState(
            number=newest.number,
            state=session.state,
            learned=session.learned,
            refused=session.refused,
            rejected=newest.rejected,
            seq=newest.seq,
            projection=newest.projection,
            schemas=tuple(Schema.from_plain(plain) for plain in notes.get("schemas", ())),
        )

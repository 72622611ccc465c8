"""The directory of a process: rankers, experiments, catalogues and aliases by name, with their newest states."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rankloop.core.errors import NotFound, Rejected
from rankloop.core.saved_session import loads_with_notes
from rankloop.features.schema import Schema
from rankloop.service import records
from rankloop.service.application.served_ranker import ServedRanker
from rankloop.service.domain.catalogue import ItemCatalogue
from rankloop.service.domain.configuration import config_of
from rankloop.service.domain.experiment import ServedExperiment
from rankloop.service.domain.trainer import PublishedState
from rankloop.service.errors import Unavailable
from rankloop.service.stores.base import ANY_ENTITY, Publication, Store, is_shared

MAX_ALIAS_TARGETS = 8  # rankers that an alias has pointed to, whose impressions still get feedback through it
REFRESH_SECONDS = 2.0  # between two looks for changes without a notification
LOAD_ORDER: Mapping[str, int] = {"catalogue": 0, "ranker": 1}  # then experiments and aliases, which refer to rankers
Runtime = ServedRanker | ServedExperiment


class Directory:
    """All entities by name. `read_update` and `catalogue` may be called on any thread, all else on the event loop.

    `learns` returns whether this process learns an entity, `spawn` starts work on the event loop.
    """

    def __init__(
        self, store: Store, learns: Callable[[str], bool], spawn: Callable[[Coroutine[Any, Any, None]], None]
    ) -> None:
        self.store = store
        self.rankers: dict[str, ServedRanker] = {}
        self.experiments: dict[str, ServedExperiment] = {}
        self.catalogues: dict[str, ItemCatalogue] = {}
        self.aliases: dict[str, tuple[str, ...]] = {}  # rankers that they point to and have pointed to, newest first
        self.entities: dict[str, Runtime] = {}  # rankers and experiments by entity
        self.early: dict[str, PublishedState] = {}  # states that were learned before the directory had the ranker
        self._learns, self._spawn = learns, spawn
        self._refreshing: dict[str, bool] = {}  # entities that are being read: whether they must be read once more

    def load(self) -> None:
        """Read all entities; nothing else uses this object yet."""
        for entity in sorted(self.store.entities(), key=lambda entity: LOAD_ORDER.get(entity.partition("/")[0], 2)):
            changes, published = self.read_update(entity)
            self.apply_update(entity, changes, published)

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
            await self.refresh(f"ranker/{name}")
        return self.ranker(name)

    async def find_experiment(self, name: str) -> ServedExperiment:
        """Return the experiment of this name, which another process may just have created."""
        if self.store.shared and name not in self.experiments:
            await self.refresh(f"experiment/{name}")
        return self.experiment(name)

    async def find_catalogue(self, name: str, field: str = "") -> ItemCatalogue:
        """Return the catalogue of this name; raise `NotFound`, or `Rejected` if a field of the request names it."""
        if self.store.shared and name not in self.catalogues:
            await self.refresh(f"catalogue/{name}")
        if name not in self.catalogues and field:
            raise Rejected(field, f"there is no catalogue {name!r}; PUT /catalogues/{name} first")
        if name not in self.catalogues:
            raise NotFound(f"there is no catalogue {name!r}")
        return self.catalogues[name]

    async def find_targets(self, name: str) -> tuple[str, ...]:
        """Return the rankers of a name: itself, or those that it points to and has pointed to as an alias."""
        if self.store.shared and name not in self.rankers and name not in self.aliases:
            await self.refresh(f"ranker/{name}")
            if name not in self.rankers:
                await self.refresh(f"alias/{name}")
        return (name,) if name in self.rankers else self.aliases.get(name, (name,))

    async def refresh(self, entity: str) -> None:
        """Read and apply the changes of an entity."""
        changes, published = await asyncio.to_thread(self.read_update, entity)
        for record in changes:
            if isinstance(record.event, records.ExperimentCreated):
                for variant in (record.event.body.a, record.event.body.b):
                    if variant.ranker is not None and variant.ranker not in self.rankers:
                        await self.refresh(f"ranker/{variant.ranker}")
        self.apply_update(entity, changes, published)

    def read_update(self, entity: str) -> tuple[list[records.Record], PublishedState | None]:
        """Return the changes of an entity since it was last read, and its state as another process published it."""
        runtime, (kind, _, name) = self.entities.get(entity), entity.partition("/")
        if kind == "alias":
            return self.store.changes(entity), None
        if kind == "catalogue":
            catalogue = self.catalogue(name)
            if catalogue is not None:
                catalogue.catch_up()
            return [], None
        changes = self.store.changes(entity, runtime.changed_after if runtime is not None else 0)
        for record in changes:
            if isinstance(record.event, records.Created):
                self.catalogue(record.event.body.problem.catalogue or "")
        return changes, self._published_state(entity) if runtime is not None or changes else None

    def apply_update(self, entity: str, changes: Sequence[records.Record], published: PublishedState | None) -> None:
        """Apply the result of `read_update`."""
        if entity.startswith("alias/"):
            alias, newest_first = entity.removeprefix("alias/"), [record.event for record in reversed(changes)]
            targets = [event.ranker for event in newest_first if isinstance(event, records.AliasSet)]
            self.aliases.pop(alias, None)
            if targets and targets[0]:
                self.aliases[alias] = tuple(dict.fromkeys(filter(None, targets)))[:MAX_ALIAS_TARGETS]
            return
        for record in changes:
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

    def set_learned(self, entity: str, is_learned_here: bool) -> None:
        """Let a ranker draw its rankings from one generator where it is learned, elsewhere each from its own."""
        runtime = self.entities.get(entity)
        if isinstance(runtime, ServedRanker):
            runtime.draw_in_sequence(is_learned_here)

    def catalogue(self, name: str) -> ItemCatalogue | None:
        """Return the catalogue of this name; it is read from the store if it is new."""
        if name and name not in self.catalogues:
            catalogue = ItemCatalogue(lambda after: self.store.changes(f"catalogue/{name}", after))
            catalogue.catch_up()
            if catalogue.version:
                self.catalogues.setdefault(name, catalogue)
        return self.catalogues.get(name)

    def notice(self, entity: str) -> None:
        """Start to refresh an entity, or all after `ANY_ENTITY`; many calls at the same moment are one refresh."""
        if entity in self._refreshing:
            self._refreshing[entity] = True
        else:
            self._refreshing[entity] = False
            self._spawn(self._refresh_until_quiet(entity))

    async def refresh_regularly(self) -> None:
        """Refresh everything every few seconds, in case a notification was lost."""
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            self.notice(ANY_ENTITY)

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

    def _change(self, record: records.Record) -> None:
        entity, event = record.entity, record.event
        name = entity.partition("/")[2]
        if isinstance(event, records.Created) and name not in self.rankers:
            catalogue = self.catalogue(event.body.problem.catalogue or "")
            self.rankers[name] = ServedRanker(entity, config_of(event.body), event.start, catalogue)
            self._add(self.rankers[name])
        elif isinstance(event, records.ExperimentCreated) and name not in self.experiments:
            self.experiments[name] = ServedExperiment(entity, event.body, self.rankers)
            self._add(self.experiments[name])
        elif isinstance(event, records.Deleted):
            self.drop(entity)
        elif isinstance(event, records.SchemaChanged) and name in self.rankers:
            config = self.rankers[name].config.with_change(event)
            if config is not None:
                self.rankers[name].change_config(config)
        elif isinstance(event, records.RulesChanged) and name in self.rankers:
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
            self.set_learned(runtime.entity, True)

    def _published_state(self, entity: str) -> PublishedState | None:
        """Return the newest published state of a store that several processes share, or that of the newest snapshot."""
        if not is_shared(self.store):
            return None
        newest = self.store.publication(entity) or self.store.snapshot(entity)
        if newest is None:
            return None
        seq = newest.seq if isinstance(newest, Publication) else newest.state_seq
        published = PublishedState(newest.number, rejected=newest.rejected, seq=seq, projection=newest.projection)
        if not newest.session:
            return published
        session, notes = loads_with_notes(newest.session)
        schemas = tuple(Schema.from_plain(plain) for plain in notes.get("schemas", ()))
        learned, refused = session.learned, session.refused
        return published._replace(state=session.state, learned=learned, refused=refused, schemas=schemas)

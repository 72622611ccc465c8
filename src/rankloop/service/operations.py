"""What the people who run a service ask for: create, look, change, freeze, go back, copy, forget."""

import asyncio
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

from rankloop.adapter import MAX_ID_LENGTH
from rankloop.core.errors import Conflict, NotFound, Rejected
from rankloop.core.saved_session import dumps, loads_with_notes
from rankloop.service.errors import Unavailable
from rankloop.service.log.archive import drop_files, unlisted, whole
from rankloop.service.log.catalogue import Catalogue
from rankloop.service.log.events import (
    AliasSet,
    Amended,
    AnyEvent,
    CatalogueChanged,
    ComparisonCreated,
    Created,
    Deleted,
    Evolved,
    Frozen,
    Ranked,
    Record,
    Resumed,
    RolledBack,
    Windowed,
    alias_entity,
    catalogue_entity,
    comparison_entity,
    ranker_entity,
)
from rankloop.service.log.recovery import first_record
from rankloop.service.log.stores.base import SharedStore
from rankloop.service.log.writer import entry_of
from rankloop.service.ranker.base import check_booster_file
from rankloop.service.ranker.comparison import ComparisonRuntime, check_comparison
from rankloop.service.ranker.config import (
    RankerConfig,
    check_new,
    check_seed_and_window,
    config_of,
    config_of_session,
    next_schema,
)
from rankloop.service.ranker.explanation import explanation_of, recent_weights
from rankloop.service.ranker.named_requests import catalogue_changes
from rankloop.service.ranker.state_size import check_file_fits, check_fits
from rankloop.service.requests import CatalogueBody, CreateBody, ExperimentBody, SchemaBody
from rankloop.service.upkeep.amendment import Changes, Forgotten, amend, retracted
from rankloop.service.worker import Worker

MAX_TRIES = 10  # to be the next to change something
MAX_WAIT = 60.0  # seconds until a change is served, where it is learned here
SERVED = 5.0  # seconds until an answer does not wait any longer for what another process learns
LOOK_AGAIN = 0.02  # seconds
NOTICED = 10.0  # seconds after which every worker knows that something was deleted
RECENT = 20  # impressions whose names the weights are told of


class Operations(Worker):
    """The calls of operators: the half of `Service` that does not come with every page view."""

    async def create(self, name: str, body: CreateBody, start: bytes = b"", source: str = "") -> bool:
        """Whether the ranker is new; the same again changes nothing, another under the same name is a `Conflict`."""
        if body.base is not None and body.base.booster is not None:
            await asyncio.to_thread(check_booster_file, body)
        config = config_of(body)
        if config.body.problem.catalogue is not None:
            await self.find_catalogue(config.body.problem.catalogue, "problem.catalogue")
        if name in self.directory.aliases:
            raise Conflict(f"{name!r} is an alias of the ranker {self.directory.aliases[name][0]!r}")
        if name not in self.rankers:
            await asyncio.to_thread(_check_new, config, self.settings.max_state, bool(start))
            if len(self.rankers) >= self.settings.max_rankers:
                raise Conflict(f"there are {len(self.rankers)} rankers already, which is the limit")
            if await self._begin(ranker_entity(name), Created(config.body, start, source)):
                return True
        if self.rankers[name].config.body != config.body or (start and start != await self._start_of(name)):
            raise Conflict(f"the ranker {name!r} exists already, with other settings")
        return False

    async def create_from_file(self, name: str, content: bytes) -> bool:
        """A ranker that goes on from what `save` wrote, of a `Session` or a `Ranker`, with the default settings."""
        await asyncio.to_thread(check_file_fits, content, self.settings.max_state, self.settings.max_body)
        session, notes = await asyncio.to_thread(loads_with_notes, content)
        return await self.create(name, config_of_session(session, notes), content, "a file")

    async def create_comparison(self, name: str, body: ExperimentBody) -> bool:
        """Whether the comparison is new; as for rankers."""
        check_comparison(body)
        for side in (body.a, body.b):
            if side.ranker is not None:
                await self.find_ranker(side.ranker)
        ComparisonRuntime(comparison_entity(name), body, self.rankers)
        if name not in self.comparisons and await self._begin(comparison_entity(name), ComparisonCreated(body)):
            return True
        if self.comparisons[name].body != body:
            raise Conflict(f"the experiment {name!r} exists already, with other settings")
        return False

    async def clone(self, name: str, new: str) -> bool:
        """A new ranker that begins with the state of this one."""
        runtime = await self.find_ranker(name)
        start = await asyncio.to_thread(dumps, runtime.serving)
        await self.find(ranker_entity(new))
        if new in self.rankers:
            raise Conflict(f"the ranker {new!r} exists already")
        return await self.create(new, runtime.config.body_now(), start, name)

    async def evolve(self, name: str, body: SchemaBody) -> None:
        """Fields and crosses are added to the schema of a ranker, or taken from it; the same again changes nothing."""
        runtime = await self.find_ranker(name)
        for _ in range(MAX_TRIES):
            await self.find(runtime.entity)
            schema = next_schema(runtime.config, body)
            if schema is None:
                return
            config = runtime.config.with_schemas([schema])
            await asyncio.to_thread(check_fits, config.body.learner, config.problem, self.settings.max_state)
            if await self._change(runtime.entity, Evolved(schema.to_plain()), runtime.changed_after):
                return
        raise Conflict("others change this schema at the same moment; try again")

    async def put_catalogue(self, name: str, body: CatalogueBody) -> int:
        """How many rows are new, other than before, or gone."""
        entity = catalogue_entity(name)
        for _ in range(MAX_TRIES):
            await self.find(entity)
            if name not in self.catalogues and len(self.catalogues) >= self.settings.max_rankers:
                raise Conflict(f"there are {len(self.catalogues)} catalogues already, which is the limit")
            named = [runtime.config for runtime in self.rankers.values() if runtime.body.problem.catalogue == name]
            known = self.catalogues.get(name, Catalogue())
            changes = await asyncio.to_thread(catalogue_changes, body.rows, known, named)
            if not changes and name in self.catalogues:
                return 0
            if await self._change(entity, CatalogueChanged(changes), known.version):
                return len(changes)
        raise Conflict("others change this catalogue at the same moment; try again")

    async def set_window(self, name: str, window: float) -> None:
        """Another window of feedback, also for what is open."""
        check_seed_and_window(0, window)
        runtime = await self.find_ranker(name)
        if (runtime.projection.window or runtime.body.window) != window:
            await self._steer(runtime.entity, Windowed(window))

    async def set_alias(self, name: str, ranker: str) -> None:
        """Let a name lead to a ranker; an empty one takes the alias away."""
        if ranker:
            await self.find_ranker(ranker)
            await self.find(ranker_entity(name))
            if name in self.rankers:
                raise Conflict(f"there is a ranker {name!r}, so that this cannot be an alias")
        await self.find(alias_entity(name))
        if not ranker and name not in self.directory.aliases:
            raise NotFound(f"there is no alias {name!r}")
        if self.directory.aliases.get(name, ("",))[0] != ranker:
            await self._change(alias_entity(name), AliasSet(ranker))

    async def freeze(self, name: str, reason: str) -> None:
        """Stop learning; ranking goes on."""
        await self._steer((await self.find_ranker(name)).entity, Frozen(reason))

    async def resume(self, name: str) -> None:
        """Learn again."""
        await self._steer((await self.find_ranker(name)).entity, Resumed())

    async def rollback(self, name: str, number: int | None) -> int:
        """Go back to a snapshot (the newest, unless said); the generator goes on from where it is."""
        runtime = await self.find_ranker(name)
        known = [0] + [row[0] for row in await asyncio.to_thread(self.store.snapshots, runtime.entity)]
        to = known[-1] if number is None else number
        if to not in known:
            raise NotFound(f"there is no snapshot of state {to}; there are those of {', '.join(map(str, known))}")
        await self._steer(runtime.entity, RolledBack(to, "asked for"))
        return to

    async def forget(
        self,
        name: str,
        *,
        query_id: str | None = None,
        user: str | None = None,
        before: float | None = None,
    ) -> int:
        """Forget impressions: of a query, of a user, or shown before a time; how many. What they taught goes too."""
        what = Forgotten(query_id, user, before)
        if what == Forgotten():
            raise Rejected("forget", "say what: a query, a user, or a time before which all is forgotten")
        entity = (await self.find_ranker(name)).entity
        return await self.change_past(entity, lambda: what.changes(whole(self.store, entity, self.settings.data)))

    async def retract(self, name: str, impression: str, id: str) -> bool:
        """Take back the clicks on an item; whether there were any. What was learned since is learned without them."""
        entity, impression = (await self.find_ranker(name)).entity, impression[:MAX_ID_LENGTH]
        if not await asyncio.to_thread(self.store.of_impression, entity, impression):
            raise NotFound(f"there is no impression {impression!r}")
        return bool(await self.change_past(entity, lambda: retracted(self.store.of_impression(entity, impression), id)))

    async def saved(self, name: str) -> bytes:
        """The model as a file that `rankloop.load` opens."""
        runtime = await self.find_ranker(name)
        return await asyncio.to_thread(dumps, runtime.serving, runtime.config.notes())

    async def explain(self, name: str, impression: str, id: str) -> dict[str, Any]:
        """What each value of an item adds to its score now, by name."""
        runtime = await self.find_ranker(name)
        for field, given in (("impression", impression), ("id", id)):
            if not given:
                raise Rejected(field, "say which, as in explain?impression=…&id=…")
        ranked = await self._ranked_before(runtime, impression[:MAX_ID_LENGTH])
        if ranked is None:
            raise NotFound(f"there is no impression {impression[:MAX_ID_LENGTH]!r}")
        return await asyncio.to_thread(explanation_of, runtime, ranked, id)

    async def weights(self, name: str) -> dict[str, Any]:
        """The largest weights by name, of the names in recent impressions where there is a schema."""
        runtime = await self.find_ranker(name)
        if runtime.config.schema is None:
            return await asyncio.to_thread(recent_weights, runtime, [])
        newest = await asyncio.to_thread(self.store.newest, runtime.entity, RECENT)
        recent = [record.event for record in newest if isinstance(record.event, Ranked)]
        return await asyncio.to_thread(recent_weights, runtime, recent)

    async def find_catalogue(self, name: str, field: str = "") -> Catalogue:
        """The catalogue of this name, or `NotFound`; `Rejected` where a field names it."""
        if self.store.shared and name not in self.catalogues:
            await self.find(catalogue_entity(name))
        if name not in self.catalogues and field:
            raise Rejected(field, f"there is no catalogue {name!r}; PUT /catalogues/{name} first")
        if name not in self.catalogues:
            raise NotFound(f"there is no catalogue {name!r}")
        return self.catalogues[name]

    async def _begin(self, entity: str, event: AnyEvent) -> bool:
        """Whether this is how the entity begins; either way it is known here afterwards."""
        before = [each.seq for each in await asyncio.to_thread(self.store.changes, entity) if _ends(each)]
        is_new = await self._change(entity, event, max(before, default=0))
        if not is_new:
            await self.find(entity)
        return is_new

    async def _change(self, entity: str, event: AnyEvent, unless_after: int | None = None) -> bool:
        """Log a change of an entity, unless there was another after the one that is known; it is served afterwards."""
        entry = entry_of(entity, event)._replace(unless_after=unless_after)
        written = await self._append(entry)
        if written.verdict == "changed":
            return False
        await self.find(entity)
        await self.served(entity, written.seq, MAX_WAIT)
        return True

    async def _steer(self, entity: str, event: AnyEvent) -> None:
        """Log how learning is to go on; whoever looks here afterwards sees it, if a learner runs."""
        written = await self.append(entity, event)
        await self.find(entity)
        await self.served(entity, written.seq, MAX_WAIT)
        await self._published(entity, written.seq)

    async def change_past(self, entity: str, find: Callable[[], tuple[Changes, int]], how: Any = amend) -> int:
        """Change the past of an entity while nobody learns it, and go on from what it then amounts to."""
        while entity in self._held:
            await self._held[entity].wait()
        done = self._held[entity] = asyncio.Event()
        try:
            await self.log.append(None)
            last = await asyncio.to_thread(self.store.last)
            await self.served(entity, last, MAX_WAIT)
            changes, count = await asyncio.to_thread(self._changed, entity, find, how)
            if changes:
                self.log.forget_impressions()
        finally:
            del self._held[entity]
            done.set()
        if changes:
            written = await self.append(entity, Amended(len(changes)))
            await self._published(entity, written.seq)
        return count

    async def _published(self, entity: str, seq: int) -> None:
        """Wait a while until an event is in what is served here, whoever learns it; it is durable already."""
        deadline = time.monotonic() + SERVED
        while time.monotonic() < deadline:
            runtime = self.directory.runtime(entity)
            if runtime is None or runtime.published.seq >= seq:
                return
            if not self.learner.learns(entity):
                await self.find(entity)
            self.learner.wake()
            await asyncio.sleep(LOOK_AGAIN)

    def _changed(self, entity: str, find: Callable[[], tuple[Changes, int]], how: Any) -> tuple[Changes, int]:
        """On a thread; another process that learns the entity stops meanwhile."""
        store = self.store
        with store.standstill(entity, MAX_WAIT) if isinstance(store, SharedStore) else nullcontext():
            changes, count = find()
            if changes:
                how(store, entity, self.settings.data, changes, self.catalogues)
            return changes, count

    async def delete(self, entity: str) -> None:
        """Delete a ranker or an experiment with all that there is of it; its name may be used again."""
        users = [name for name, each in self.comparisons.items() if _uses(each, entity)]
        if users:
            raise Conflict(f"the experiment{'s' * (len(users) > 1)} {', '.join(users)} use it: delete them first")
        led = [name for name, targets in self.directory.aliases.items() if ranker_entity(targets[0]) == entity]
        if led:
            raise Conflict(f"the alias {led[0]} leads to it: let it lead elsewhere first")
        written = await self.append(entity, Deleted())
        await self.find(entity)
        self.directory.drop(entity)
        await asyncio.to_thread(self._erase, entity, written.seq)
        self.spawn(self._erase_later(entity, written.seq + 1))

    def _erase(self, entity: str, before: int) -> None:
        names = [file.name for file in self.store.manifest(entity) if file.last < before]
        self.store.erase(entity, before)
        drop_files(self.settings.data, names)
        left = unlisted(self.settings.data, entity, [])[0]
        drop_files(self.settings.data, [path.name for path in left if entity not in self._live()])

    def _live(self) -> set[str]:
        return {first.entity for first in self.store.beginnings()}

    async def _erase_later(self, entity: str, before: int) -> None:
        """Once every worker has noticed: what one of them wrote meanwhile goes too, and so does the word of it."""
        await asyncio.sleep(NOTICED)
        with suppress(Unavailable):  # then at the next start
            await asyncio.to_thread(self._erase, entity, before)

    async def finish_deletions(self) -> None:
        """What was deleted before this process began, and perhaps not to the end."""
        for record in await asyncio.to_thread(self.store.deletions):
            await self._erase_later(record.entity, record.seq + 1)

    async def _start_of(self, name: str) -> bytes:
        """The saved session that a ranker began with."""
        event = (await asyncio.to_thread(first_record, self.store, ranker_entity(name))).event
        return event.start if isinstance(event, Created) else b""


def _ends(record: Record) -> bool:
    return isinstance(record.event, Deleted)


def _uses(comparison: ComparisonRuntime, entity: str) -> bool:
    """Whether a ranker is one of the sides of a comparison."""
    sides = (comparison.body.a, comparison.body.b)
    return entity in [ranker_entity(side.ranker) for side in sides if side.ranker is not None]


def _check_new(config: RankerConfig, max_state: int, is_copy: bool) -> None:
    """On a thread: a learner may take its time to begin."""
    check_fits(config.body.learner, config.problem, max_state)
    check_new(config, is_copy)

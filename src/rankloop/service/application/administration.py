"""Administration: what operators ask for. Create, look, change, freeze, go back, copy, delete, erase."""

import asyncio
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from rankloop.adapter import MAX_ID_LENGTH
from rankloop.core.errors import Conflict, NotFound, Rejected
from rankloop.core.saved_session import dumps, loads_with_notes
from rankloop.service.application.amendment import (
    Amendment,
    Changes,
    Selection,
    left_open,
    retracted,
)
from rankloop.service.application.rebuild import first_record
from rankloop.service.domain.base_score import check_booster_file
from rankloop.service.domain.catalogue import ItemCatalogue
from rankloop.service.domain.configuration import (
    RankerConfig,
    check_new,
    check_seed_and_window,
    config_of,
    config_of_session,
    next_schema,
)
from rankloop.service.domain.experiment import ServedExperiment
from rankloop.service.domain.health import explanation_of, recent_weights
from rankloop.service.domain.named_values import catalogue_changes
from rankloop.service.domain.state_size import check_file_fits, check_fits
from rankloop.service.errors import Unavailable
from rankloop.service.log.archive import drop_files, files_of, read_records
from rankloop.service.log.writer import Written, entry_of
from rankloop.service.records import (
    AliasSet,
    Amended,
    AnyEvent,
    CatalogueChanged,
    Closed,
    Created,
    Deleted,
    ExperimentCreated,
    Frozen,
    Ranked,
    Rebased,
    Record,
    Resumed,
    RolledBack,
    SchemaChanged,
    WindowChanged,
    alias_entity,
    catalogue_entity,
    experiment_entity,
    ranker_entity,
)
from rankloop.service.requests import CatalogueBody, CreateBody, ExperimentBody, SchemaBody
from rankloop.service.stores.base import SharedStore

if TYPE_CHECKING:
    from rankloop.service.application.node import Node

MAX_TRIES = 10  # to be the next to change something
MAX_WAIT_SECONDS = 60.0  # until a change is served, where it is learned here
MAX_PUBLISHED_SECONDS = 5.0  # until an answer does not wait any longer for what another process learns
LOOK_AGAIN_SECONDS = 0.02
NOTICED_SECONDS = 10.0  # after which every worker knows that something was deleted
N_RECENT = 20  # impressions whose names the weights are told of


class Erased(NamedTuple):
    """How many impressions were erased, by ranker and by experiment; whether what they taught is gone too."""

    rankers: dict[str, int]
    experiments: dict[str, int]
    relearned: bool

    @property
    def impressions(self) -> int:
        return sum([*self.rankers.values(), *self.experiments.values()])


class Administration:
    """The calls of operators, which do not come with every page view."""

    def __init__(self, node: "Node") -> None:
        self.node = node

    async def create(self, name: str, body: CreateBody, start: bytes = b"", source: str = "") -> bool:
        """Whether the ranker is new; the same again changes nothing, another under the same name is a `Conflict`."""
        if body.base is not None and body.base.booster is not None:
            await asyncio.to_thread(check_booster_file, body)
        config = config_of(body)
        if config.body.problem.catalogue is not None:
            await self.node.directory.find_catalogue(config.body.problem.catalogue, "problem.catalogue")
        if name in self.node.directory.aliases:
            raise Conflict(f"{name!r} is an alias of the ranker {self.node.directory.aliases[name][0]!r}")
        if name not in self.node.directory.rankers:
            await asyncio.to_thread(_check_new, config, self.node.settings.max_state, bool(start))
            if len(self.node.directory.rankers) >= self.node.settings.max_rankers:
                raise Conflict(f"there are {len(self.node.directory.rankers)} rankers already, which is the limit")
            if await self._begin(ranker_entity(name), Created(config.body, start, source)):
                return True
        if self.node.directory.rankers[name].config.body != config.body or (
            start and start != await self._start_of(name)
        ):
            raise Conflict(f"the ranker {name!r} exists already, with other settings")
        return False

    async def create_from_file(self, name: str, content: bytes) -> bool:
        """A ranker that goes on from what `save` wrote, of a `Session` or a `Ranker`, with the default settings."""
        await asyncio.to_thread(check_file_fits, content, self.node.settings.max_state, self.node.settings.max_body)
        session, notes = await asyncio.to_thread(loads_with_notes, content)
        return await self.create(name, config_of_session(session, notes), content, "a file")

    async def create_experiment(self, name: str, body: ExperimentBody) -> bool:
        """Whether the comparison is new; as for rankers."""
        check_seed_and_window(body.seed, body.window)
        for side in (body.a, body.b):
            if side.ranker is not None:
                await self.node.directory.find_ranker(side.ranker)
        ServedExperiment(experiment_entity(name), body, self.node.directory.rankers)
        if name not in self.node.directory.experiments and await self._begin(
            experiment_entity(name), ExperimentCreated(body)
        ):
            return True
        if self.node.directory.experiments[name].body != body:
            raise Conflict(f"the experiment {name!r} exists already, with other settings")
        return False

    async def clone(self, name: str, new: str) -> bool:
        """A new ranker that begins with the state of this one."""
        runtime = await self.node.directory.find_ranker(name)
        start = await asyncio.to_thread(dumps, runtime.serving)
        await self.node.directory.refresh(ranker_entity(new))
        if new in self.node.directory.rankers:
            raise Conflict(f"the ranker {new!r} exists already")
        return await self.create(new, runtime.config.body_now(), start, name)

    async def evolve(self, name: str, body: SchemaBody) -> None:
        """Fields and crosses are added to the schema of a ranker, or taken from it; the same again changes nothing."""
        runtime = await self.node.directory.find_ranker(name)
        for _ in range(MAX_TRIES):
            await self.node.directory.refresh(runtime.entity)
            schema = next_schema(runtime.config, body)
            if schema is None:
                return
            config = runtime.config.with_schemas([schema])
            await asyncio.to_thread(check_fits, config.body.learner, config.problem, self.node.settings.max_state)
            if await self._change(runtime.entity, SchemaChanged(schema.to_plain()), runtime.changed_after):
                return
        raise Conflict("others change this schema at the same moment; try again")

    async def put_catalogue(self, name: str, body: CatalogueBody) -> int:
        """How many rows are new, other than before, or gone."""
        entity = catalogue_entity(name)
        for _ in range(MAX_TRIES):
            await self.node.directory.refresh(entity)
            if (
                name not in self.node.directory.catalogues
                and len(self.node.directory.catalogues) >= self.node.settings.max_rankers
            ):
                raise Conflict(
                    f"there are {len(self.node.directory.catalogues)} catalogues already, which is the limit"
                )
            named = [
                runtime.config
                for runtime in self.node.directory.rankers.values()
                if runtime.body.problem.catalogue == name
            ]
            known = self.node.directory.catalogues.get(name, ItemCatalogue())
            changes = await asyncio.to_thread(catalogue_changes, body.rows, known, named)
            if not changes and name in self.node.directory.catalogues:
                return 0
            if await self._change(entity, CatalogueChanged(changes), known.version):
                return len(changes)
        raise Conflict("others change this catalogue at the same moment; try again")

    async def set_window(self, name: str, window: float) -> None:
        """Another window of feedback, also for what is open."""
        check_seed_and_window(0, window)
        runtime = await self.node.directory.find_ranker(name)
        if (runtime.projection.window or runtime.body.window) != window:
            await self._steer(runtime.entity, WindowChanged(window))

    async def set_alias(self, name: str, ranker: str) -> None:
        """Let a name lead to a ranker; an empty one takes the alias away."""
        if ranker:
            await self.node.directory.find_ranker(ranker)
            await self.node.directory.refresh(ranker_entity(name))
            if name in self.node.directory.rankers:
                raise Conflict(f"there is a ranker {name!r}, so that this cannot be an alias")
        await self.node.directory.refresh(alias_entity(name))
        if not ranker and name not in self.node.directory.aliases:
            raise NotFound(f"there is no alias {name!r}")
        if self.node.directory.aliases.get(name, ("",))[0] != ranker:
            await self._change(alias_entity(name), AliasSet(ranker))

    async def freeze(self, name: str, reason: str) -> None:
        """Stop learning; ranking goes on."""
        await self._steer((await self.node.directory.find_ranker(name)).entity, Frozen(reason))

    async def resume(self, name: str) -> None:
        """Learn again."""
        await self._steer((await self.node.directory.find_ranker(name)).entity, Resumed())

    async def rollback(self, name: str, number: int | None) -> int:
        """Go back to a snapshot (the newest, unless said); the generator goes on from where it is."""
        runtime = await self.node.directory.find_ranker(name)
        known = [0] + [row[0] for row in await asyncio.to_thread(self.node.store.snapshots, runtime.entity)]
        to = known[-1] if number is None else number
        if to not in known:
            raise NotFound(f"there is no snapshot of state {to}; there are those of {', '.join(map(str, known))}")
        await self._steer(runtime.entity, RolledBack(to, "asked for"))
        return to

    async def forget(
        self, name: str, *, query_id: str | None = None, user: str | None = None, before: float | None = None
    ) -> int:
        """Forget impressions and what they taught; of several conditions all must hold.

        Args:
          name: Of the ranker.
          query_id: Those of a query.
          user: Those of a user.
          before: Those that were shown before a time, in seconds since 1970.

        Returns:
          How many impressions were forgotten.
        """
        selection = Selection(query_id, user, before)
        if selection == Selection():
            raise Rejected("forget", "say what: a query, a user, or a time before which all is forgotten")
        entity = (await self.node.directory.find_ranker(name)).entity
        return await self._amend(entity, lambda: selection.changes(self._records(entity)))

    async def retract(self, name: str, impression: str, id: str) -> bool:
        """Take back the clicks on an item; what was learned since is learned without them.

        Returns:
          Whether there were any.
        """
        store, impression = self.node.store, impression[:MAX_ID_LENGTH]
        entity = (await self.node.directory.find_ranker(name)).entity
        if not await asyncio.to_thread(store.records_of_impression, entity, impression):
            raise NotFound(f"there is no impression {impression!r}")
        return bool(await self._amend(entity, lambda: retracted(store.records_of_impression(entity, impression), id)))

    async def erase_user(self, user: str, relearn: bool = False) -> Erased:
        """Erase a user's events from log, archive and snapshots of every ranker and experiment.

        Args:
          user: The user's id.
          relearn: Learn every ranker again without them; else what they taught stays as weights, and the log says so.
            Counts of experiments stay either way.
        """
        if not 0 < len(user) <= MAX_ID_LENGTH:
            raise Rejected("user", f"is 1 to {MAX_ID_LENGTH} characters long")
        directory, selection = self.node.directory, Selection(user=user)
        if relearn:
            for name in sorted(directory.rankers):
                await asyncio.to_thread(self._relearnable, ranker_entity(name), selection)
        rankers, experiments = {}, {}
        for name in sorted(directory.rankers):
            rankers[name] = await self._erase_user_in(ranker_entity(name), selection, relearn)
        for name in sorted(directory.experiments):
            experiments[name] = await self._erase_user_in(experiment_entity(name), selection, False)
        erased = [{name: count for name, count in counts.items() if count} for counts in (rankers, experiments)]
        return Erased(erased[0], erased[1], relearn)

    async def _erase_user_in(self, entity: str, selection: Selection, relearn: bool) -> int:
        if relearn:
            return await self._amend(entity, lambda: self._relearnable(entity, selection))
        for impression in await asyncio.to_thread(lambda: left_open(self._records(entity), selection)):
            await self._append(entity, Closed(impression))  # as its window would, so that counts end even
        return await self._amend(entity, lambda: selection.changes(self._records(entity)), keeps_state=True)

    def _relearnable(self, entity: str, selection: Selection) -> tuple[Changes, int]:
        """The events that go; refused where they cannot be unlearned."""
        records = self._records(entity)
        changes, count = selection.changes(records)
        if changes and any(isinstance(each.event, Rebased) and each.seq > min(changes) for each in records):
            raise Conflict(
                f"{entity}: what was learned before somebody else was erased cannot be learned again, since "
                "those events are gone; erase without relearn"
            )
        return changes, count

    def _records(self, entity: str) -> list[Record]:
        return list(read_records(self.node.store, entity, self.node.settings.data))

    async def saved(self, name: str) -> bytes:
        """The model as a file that `rankloop.load` opens."""
        runtime = await self.node.directory.find_ranker(name)
        return await asyncio.to_thread(dumps, runtime.serving, runtime.config.notes())

    async def explain(self, name: str, impression: str, id: str) -> dict[str, Any]:
        """What each value of an item adds to its score now, by name."""
        runtime = await self.node.directory.find_ranker(name)
        for field, given in (("impression", impression), ("id", id)):
            if not given:
                raise Rejected(field, "say which, as in explain?impression=…&id=…")
        ranked = await self.node.ranking.shown_before(runtime.entity, impression[:MAX_ID_LENGTH])
        if ranked is None:
            raise NotFound(f"there is no impression {impression[:MAX_ID_LENGTH]!r}")
        return await asyncio.to_thread(
            explanation_of, runtime.config, runtime.published.state, runtime.catalogue, ranked, id
        )

    async def weights(self, name: str) -> dict[str, Any]:
        """The largest weights by name, of the names in recent impressions where there is a schema."""
        runtime = await self.node.directory.find_ranker(name)
        recent: list[Ranked] = []
        if runtime.config.schema is not None:
            newest = await asyncio.to_thread(self.node.store.newest_rankings, runtime.entity, N_RECENT)
            recent = [record.event for record in newest if isinstance(record.event, Ranked)]
        state, catalogue = runtime.published.state, runtime.catalogue
        return await asyncio.to_thread(recent_weights, runtime.config, state, catalogue, recent)

    async def _append(self, entity: str, event: AnyEvent, unless_after: int | None = None) -> Written:
        """Log an event, unless its entity has changed after the event `unless_after`."""
        return await self.node.log.append(entry_of(entity, event)._replace(unless_after=unless_after))

    async def _begin(self, entity: str, event: AnyEvent) -> bool:
        """Whether this is how the entity begins; either way it is known here afterwards."""
        changes = await asyncio.to_thread(self.node.store.changes, entity)
        ends = [record.seq for record in changes if isinstance(record.event, Deleted)]
        is_new = await self._change(entity, event, max(ends, default=0))
        if not is_new:
            await self.node.directory.refresh(entity)
        return is_new

    async def _change(self, entity: str, event: AnyEvent, unless_after: int | None = None) -> bool:
        """Log a change of an entity, unless there was another after the one that is known; it is served afterwards."""
        written = await self._append(entity, event, unless_after)
        if written.verdict == "changed":
            return False
        await self.node.directory.refresh(entity)
        await self.node.learning.served(entity, written.seq, MAX_WAIT_SECONDS)
        return True

    async def _steer(self, entity: str, event: AnyEvent) -> None:
        """Log how learning is to go on; whoever looks here afterwards sees it, if a learner worker runs."""
        written = await self._append(entity, event)
        await self.node.directory.refresh(entity)
        await self.node.learning.served(entity, written.seq, MAX_WAIT_SECONDS)
        await self._published(entity, written.seq)

    async def _amend(self, entity: str, find: Callable[[], tuple[Changes, int]], keeps_state: bool = False) -> int:
        """Change the past of an entity while nobody learns it, and go on from what it then amounts to.

        Args:
          entity: Nothing is logged for it meanwhile.
          find: Gives the changes and how many impressions they are about.
          keeps_state: What was learned from the events stays.

        Returns:
          How many impressions have changed.
        """
        node, store = self.node, self.node.store

        def change() -> tuple[Changes, int]:
            # Another process that learns the entity stops meanwhile.
            with store.pause_learning(entity, MAX_WAIT_SECONDS) if isinstance(store, SharedStore) else nullcontext():
                changes, count = find()
                if changes:
                    Amendment(store, entity, node.settings.data, node.directory.catalogue).write(changes, keeps_state)
                return changes, count

        async with node.log.holding(entity):
            await node.learning.served(entity, await asyncio.to_thread(store.last), MAX_WAIT_SECONDS)
            changes, count = await asyncio.to_thread(change)
            if changes:
                node.log.forget_impressions()
        if changes:
            written = await self._append(entity, Amended(len(changes)))
            await self._published(entity, written.seq)
        return count

    async def _published(self, entity: str, seq: int) -> None:
        """Wait a while until an event is in what is served here, whoever learns it; it is durable already."""
        deadline = time.monotonic() + MAX_PUBLISHED_SECONDS
        while time.monotonic() < deadline:
            runtime = self.node.directory.entities.get(entity)
            if runtime is None or runtime.published.seq >= seq:
                return
            if not self.node.learning.learns(entity):
                await self.node.directory.refresh(entity)
            self.node.learning.worker.wake()
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def delete(self, entity: str) -> None:
        """Delete a ranker or an experiment with all that there is of it; its name may be used again."""
        users = [name for name, each in self.node.directory.experiments.items() if _uses(each, entity)]
        if users:
            raise Conflict(f"the experiment{'s' * (len(users) > 1)} {', '.join(users)} use it: delete them first")
        led = [name for name, targets in self.node.directory.aliases.items() if ranker_entity(targets[0]) == entity]
        if led:
            raise Conflict(f"the alias {led[0]} leads to it: let it lead elsewhere first")
        written = await self._append(entity, Deleted())
        await self.node.directory.refresh(entity)
        self.node.directory.drop(entity)
        await asyncio.to_thread(self._erase, entity, written.seq)
        self.node.spawn(self._erase_later(entity, written.seq + 1))

    def _erase(self, entity: str, before: int) -> None:
        store, data = self.node.store, self.node.settings.data
        names = [file.name for file in store.manifest(entity) if file.last < before]
        store.erase(entity, before)
        drop_files(data, names)
        if entity not in {first.entity for first in store.first_records()}:
            drop_files(data, [path.name for path in files_of(data, entity)])

    async def _erase_later(self, entity: str, before: int) -> None:
        """Once every worker has noticed: what one of them wrote meanwhile goes too, and so does the word of it."""
        await asyncio.sleep(NOTICED_SECONDS)
        with suppress(Unavailable):  # then at the next start
            await asyncio.to_thread(self._erase, entity, before)

    async def finish_deletions(self) -> None:
        """What was deleted before this process began, and perhaps not to the end."""
        for record in await asyncio.to_thread(self.node.store.deletions):
            await self._erase_later(record.entity, record.seq + 1)

    async def _start_of(self, name: str) -> bytes:
        """The saved session that a ranker began with."""
        event = (await asyncio.to_thread(first_record, self.node.store, ranker_entity(name))).event
        return event.start if isinstance(event, Created) else b""


def _uses(comparison: ServedExperiment, entity: str) -> bool:
    """Whether a ranker is one of the sides of a comparison."""
    sides = (comparison.body.a, comparison.body.b)
    return entity in [ranker_entity(side.ranker) for side in sides if side.ranker is not None]


def _check_new(config: RankerConfig, max_state: int, is_copy: bool) -> None:
    """On a thread: a learner may take its time to begin."""
    check_fits(config.body.learner, config.problem, max_state)
    check_new(config, is_copy)

"""Administration: the calls of operators. Create, change, freeze, roll back, copy, delete and erase."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import msgspec

from rankloop.adapter import MAX_ID_LENGTH
from rankloop.core.errors import Conflict, NotFound, Rejected
from rankloop.core.saved_session import HEADER_NAME, READ_ERRORS, dumps, loads, loads_with_notes, starts_within
from rankloop.rules import Rules
from rankloop.service import records, request_bodies
from rankloop.service.application.event_removal import Amendment, Changes, Removal, Selection, retract_clicks
from rankloop.service.application.export import plain_record
from rankloop.service.application.served_ranker import ServedRanker
from rankloop.service.domain import configuration
from rankloop.service.domain.base_score import check_booster_file
from rankloop.service.domain.catalogue import ItemCatalogue
from rankloop.service.domain.experiment import ServedExperiment
from rankloop.service.domain.rollback import StateList
from rankloop.service.domain.trainer import Trainer, logged_query
from rankloop.service.errors import TooLarge, Unavailable
from rankloop.service.log.writer import Written, entry_of

if TYPE_CHECKING:
    from rankloop.service.application.directory import Directory
    from rankloop.service.application.node import Node

COLUMN_BYTES = 16  # of a hashed column in a weight table
MAX_TRIES = 10  # of a change that others make at the same moment
MAX_WAIT_SECONDS = 60.0  # until a change is served, if it is learned here
MAX_PUBLISHED_SECONDS = 5.0  # for which a response waits until another process has learned a change
PUBLISHED_CHECK_SECONDS = 0.02  # between two looks whether it has
DELETION_NOTICED_SECONDS = 10.0  # after which every process has noticed a deletion
MAX_PREVIEW_LISTS = 100  # recent ones, on which a rollback is previewed
N_RECENT = 20  # impressions from which the names of weights are taken
ERASURE_CHECKS = (
    "GET /users/{id} finds no impression",
    "rankloop replay reproduces every state from the events that are left; counts of experiments stay",
    "older backups and exported files still hold the events: delete them",
)


class Administration:
    """The calls of operators; a change is served when its call returns."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self._amending = asyncio.Lock()  # past events change in one place at a time

    @property
    def _directory(self) -> "Directory":
        return self.node.directory

    async def create(self, name: str, body: request_bodies.CreateBody, start: bytes = b"", source: str = "") -> bool:
        """Create a ranker; return whether it is new: the same request again changes nothing.

        It continues from the saved session `start`, of which the log names the `source`. A name that is in use with
        other settings raises `Conflict`.
        """
        directory, max_rankers = self._directory, self.node.settings.max_rankers
        if body.base is not None and body.base.booster is not None:
            await asyncio.to_thread(check_booster_file, body)
        config = configuration.config_of(body)
        if config.body.problem.catalogue is not None:
            await directory.find_catalogue(config.body.problem.catalogue, "problem.catalogue")
        if name in directory.aliases:
            raise Conflict(f"{name!r} is an alias of the ranker {directory.aliases[name][0]!r}")
        if name not in directory.rankers:
            await self._check_size(config)
            await asyncio.to_thread(config.check_new, bool(start))
            if len(directory.rankers) >= max_rankers:
                raise Conflict(f"there are {len(directory.rankers)} rankers already, which is the limit")
            if await self._create(f"ranker/{name}", records.Created(config.body, start, source)):
                return True
        first: Any = await asyncio.to_thread(self.node.store.first_record, f"ranker/{name}")
        if directory.rankers[name].config.body != config.body or (start and start != first.event.start):
            raise Conflict(f"the ranker {name!r} exists already, with other settings")
        return False

    async def create_from_file(self, name: str, content: bytes, settings: Mapping[str, Any] | None = None) -> bool:
        """Create a ranker that continues from a saved `Session` or `Ranker`; return whether it is new.

        `settings` are fields of `CreateBody` that do not follow from the file.
        """
        max_body = self.node.settings.max_body
        with suppress(*READ_ERRORS), ZipFile(BytesIO(content)) as archive:  # of a damaged one; loading it reports them
            size = archive.getinfo(HEADER_NAME).file_size
            if max_body < size <= len(content):  # decoding it would block other requests
                raise TooLarge(f"the file has a header of {size} bytes; the limit for a body is {max_body}")
        max_hashed = self.node.settings.max_state // COLUMN_BYTES
        session, notes = await asyncio.to_thread(loads_with_notes, content, "the file", max_hashed)
        return await self.create(name, configuration.body_of_file(session, notes, settings or {}), content, "a file")

    async def create_experiment(self, name: str, body: request_bodies.ExperimentBody) -> bool:
        """Create an experiment; return whether it is new."""
        directory, entity = self._directory, f"experiment/{name}"
        declared: dict[str, request_bodies.OutcomeBody] = {}
        for variant in (body.b, body.a):
            if variant.ranker is not None:
                declared |= (await directory.find_ranker(variant.ranker)).body.outcomes
        body = msgspec.structs.replace(body, outcomes=body.outcomes or declared)
        ServedExperiment(entity, body, directory.rankers)  # raises what is wrong
        if name not in directory.experiments and await self._create(entity, records.ExperimentCreated(body)):
            return True
        if directory.experiments[name].body != body:
            raise Conflict(f"the experiment {name!r} exists already, with other settings")
        return False

    async def clone(self, name: str, new: str) -> bool:
        """Create a ranker that starts with the state of another one."""
        runtime = await self._directory.find_ranker(name)
        start = await asyncio.to_thread(dumps, runtime.serving)
        await self._directory.refresh(f"ranker/{new}")
        if new in self._directory.rankers:
            raise Conflict(f"the ranker {new!r} exists already")
        return await self.create(new, runtime.config.body_now(), start, name)

    async def change_schema(self, name: str, body: request_bodies.SchemaBody) -> None:
        """Add fields and crosses to the schema of a ranker, or remove them; the same request again changes nothing."""
        runtime = await self._directory.find_ranker(name)
        for _ in range(MAX_TRIES):
            await self._directory.refresh(runtime.entity)
            schema = runtime.config.next_schema(body)
            if schema is None:
                return
            await self._check_size(runtime.config.with_schemas([schema]))
            if await self._change(runtime.entity, records.SchemaChanged(schema.to_plain()), runtime.changed_after):
                return
        raise Conflict("other requests change this schema at the same moment; try again")

    async def set_rules(self, name: str, rules: Rules) -> None:
        """Replace the rules of a ranker."""
        runtime = await self._directory.find_ranker(name)
        await self._directory.refresh(runtime.entity)
        if runtime.config.with_rules(rules).rules != runtime.config.rules:
            await self._change(runtime.entity, records.RulesChanged(rules))

    async def put_catalogue(self, name: str, body: request_bodies.CatalogueBody) -> int:
        """Change rows of a catalogue; return the number of rows that were added, changed or deleted."""
        entity = f"catalogue/{name}"
        for _ in range(MAX_TRIES):
            await self._directory.refresh(entity)
            catalogues = self._directory.catalogues
            if name not in catalogues and len(catalogues) >= self.node.settings.max_rankers:
                raise Conflict(f"there are {len(catalogues)} catalogues already, which is the limit")
            rankers = self._directory.rankers.values()
            schemas = [ranker.config.schema for ranker in rankers if ranker.body.problem.catalogue == name]
            catalogue = catalogues.get(name, ItemCatalogue())
            changes = await asyncio.to_thread(catalogue.changes_of, body.rows, filter(None, schemas))
            if not changes and name in catalogues:
                return 0
            if await self._change(entity, records.CatalogueChanged(changes), catalogue.version):
                return len(changes)
        raise Conflict("other requests change this catalogue at the same moment; try again")

    async def set_window(self, name: str, window: float) -> None:
        """Change the feedback window of a ranker, also for open impressions."""
        runtime = await self._directory.find_ranker(name)
        if (runtime.projection.window or runtime.body.window) != window:
            await self._change(runtime.entity, records.WindowChanged(window), controls_learning=True)

    async def set_alias(self, name: str, ranker: str) -> None:
        """Point an alias to a ranker; an empty ranker name removes the alias."""
        if ranker:
            await self._directory.find_ranker(ranker)
            await self._directory.refresh(f"ranker/{name}")
            if name in self._directory.rankers:
                raise Conflict(f"{name!r} is the name of a ranker and cannot be an alias")
        await self._directory.refresh(f"alias/{name}")
        if not ranker and name not in self._directory.aliases:
            raise NotFound(f"there is no alias {name!r}")
        if self._directory.aliases.get(name, ("",))[0] != ranker:
            await self._change(f"alias/{name}", records.AliasSet(ranker))

    async def freeze(self, name: str, reason: str) -> None:
        """Stop learning; ranking continues."""
        entity = (await self._directory.find_ranker(name)).entity
        await self._change(entity, records.Frozen(reason), controls_learning=True)

    async def resume(self, name: str) -> None:
        """Start learning again."""
        await self._change((await self._directory.find_ranker(name)).entity, records.Resumed(), controls_learning=True)

    async def states(self, name: str) -> StateList:
        """Return the states that a rollback can restore, the initial one first."""
        entity, store = (await self._directory.find_ranker(name)).entity, self.node.store
        changes = await asyncio.to_thread(store.changes, entity)
        return StateList(changes, await asyncio.to_thread(store.snapshots, entity))

    async def rollback(self, name: str, number: int | None) -> int:
        """Set the state back to an earlier one, by its number or one step; return its number."""
        runtime, to = await self._directory.find_ranker(name), await self._target(name, number)
        entity, store = runtime.entity, self.node.store
        snapshot = await asyncio.to_thread(store.snapshot, entity, to) if to else None
        if to and snapshot is None:
            raise NotFound(f"the snapshot of state {to} was deleted just now: list the states again")
        event = records.RolledBack(to, "requested")
        written_seq = await self._change(entity, event, snapshot=snapshot, controls_learning=True)

        async def is_kept() -> bool:  # in a snapshot, from which the next step back counts
            return any(seq >= written_seq for _, seq, _ in await asyncio.to_thread(store.snapshots, entity))

        await self._wait_until(is_kept)
        return to

    async def preview_rollback(self, name: str, number: int | None) -> dict[str, Any]:
        """Return the difference that a rollback would make to recent lists; nothing is changed."""
        runtime, to = await self._directory.find_ranker(name), await self._target(name, number)
        store, config, entity = self.node.store, runtime.config, runtime.entity

        def difference() -> dict[str, Any]:
            snapshot = store.snapshot(entity, to) if to else None
            if snapshot is None:
                first: Any = store.first_record(entity).event
                state = Trainer(configuration.config_of(first.body), first.start).first
            else:
                state = loads(snapshot.session).state
            newest: list[Any] = [record.event for record in store.newest_rankings(entity, MAX_PREVIEW_LISTS)]
            queries = {ranked.impression: logged_query(ranked, config) for ranked in newest}
            return runtime.view().difference(state, queries)

        return {"state": to} | await asyncio.to_thread(difference)

    async def _target(self, name: str, number: int | None) -> int:
        await self.node.learning.catch_up(name)
        states = await self.states(name)
        if number is None:
            return states.before(self._directory.ranker(name).published.number)
        numbers = [row.state for row in states.rows]
        if number not in numbers:
            listed = ", ".join(map(str, numbers))
            raise NotFound(f"there is no snapshot of state {number}; there are snapshots of {listed}")
        return number

    async def forget(self, name: str, selection: Selection) -> int:
        """Remove impressions and unlearn them; return their number."""
        if selection == Selection():
            raise Rejected("forget", "give query_id, user or shown_before: the impressions to remove")
        entity = (await self._directory.find_ranker(name)).entity
        return (await self._amend(entity, partial(self._selected, entity, selection))).impressions

    async def retract(self, name: str, impression: str, id: str) -> bool:
        """Remove the clicks on an item, and learn again without them; return whether there were any."""
        store, impression = self.node.store, impression[:MAX_ID_LENGTH]
        entity = (await self._directory.find_ranker(name)).entity
        if not await asyncio.to_thread(store.records_of_impression, entity, impression):
            raise NotFound(f"there is no impression {impression!r}")
        changed = await self._amend(entity, lambda: retract_clicks(store.records_of_impression(entity, impression), id))
        return bool(changed.impressions)

    async def find_user(self, user: str) -> dict[str, Any]:
        """Return everything that is stored of a user: events by impression, with the field that has the user."""
        places, impressions = Counter[str](), []
        async for entity, logged, place_of in self._logs_with(user):
            places.update(place_of.values())
            events: dict[str, list[Any]] = {impression: [] for impression in place_of}
            for record in logged:
                if (impression := getattr(record.event, "impression", "")) in events:
                    events[impression].append(plain_record(record))
            kind, _, name = entity.partition("/")
            impressions += [{kind: name, "place": place_of[each], "events": events[each]} for each in events]
        return {"user": user, "places": dict(places), "impressions": impressions}

    async def erase_user(self, user: str, relearn: bool = False) -> dict[str, Any]:
        """Erase a user's events from log and snapshots of every ranker and experiment, and return the proof.

        With `relearn` every ranker is learned again without them; else the weights learned from them stay, and the log
        says so. Counts of experiments stay either way.
        """
        places, removed, n_events, n_snapshots = Counter[str](), Counter[tuple[str, str]](), 0, 0
        async for entity, logged, place_of in self._logs_with(user):
            places.update(place_of.values())
            selection = Selection(user=user)
            keeps_state = not relearn or not isinstance(self._directory.entities[entity], ServedRanker)
            if keeps_state:
                for impression in selection.open_impressions(logged):
                    # As its window would, so that counts stay consistent.
                    await self._append(entity, records.Closed(impression))
            removal = await self._amend(entity, partial(self._selected, entity, selection), keeps_state)
            kind, _, name = entity.partition("/")
            removed[kind, name] = removal.impressions
            n_events, n_snapshots = n_events + removal.events, n_snapshots + removal.snapshots
        return {
            "user": user,
            "impressions": removed.total(),
            "rankers": {name: count for (kind, name), count in removed.items() if kind == "ranker" and count},
            "experiments": {name: count for (kind, name), count in removed.items() if kind == "experiment" and count},
            "places": dict(places),  # impressions by the field that had the user
            "events": n_events,
            "snapshots": n_snapshots,  # learned again
            "relearned": relearn,
            "left": len((await self.find_user(user))["impressions"]),
            "checks": ERASURE_CHECKS,
        }

    async def _logs_with(self, user: str) -> AsyncIterator[tuple[str, list[records.Record], dict[str, str]]]:
        """Yield every ranker and experiment with its records, and the impressions that have the user."""
        if not 0 < len(user) <= MAX_ID_LENGTH:
            raise Rejected("user", f"must have 1 to {MAX_ID_LENGTH} characters")
        for entity in sorted(self._directory.entities):
            logged = await asyncio.to_thread(list, self.node.store.read(entity))
            yield entity, logged, await asyncio.to_thread(Selection(user=user).impressions, logged)

    def _selected(self, entity: str, selection: Selection) -> tuple[Changes, int]:
        return selection.changes(list(self.node.store.read(entity)))

    async def saved(self, name: str) -> bytes:
        """Return the model as a file that `rankloop.load` opens."""
        runtime = await self._directory.find_ranker(name)
        return await asyncio.to_thread(dumps, runtime.serving, runtime.config.notes())

    async def explain(self, name: str, impression: str, id: str) -> dict[str, Any]:
        """Return the contribution of each value of an item to its score, by name."""
        runtime = await self._directory.find_ranker(name)
        for field, value in (("impression", impression), ("id", id)):
            if not value:
                raise Rejected(field, "is missing: use explain?impression=…&id=…")
        ranked = await self.node.ranking.logged_ranking(runtime.entity, impression[:MAX_ID_LENGTH])
        if ranked is None:
            raise NotFound(f"there is no impression {impression[:MAX_ID_LENGTH]!r}")
        return await asyncio.to_thread(runtime.view().explanation, ranked, id)

    async def weights(self, name: str) -> dict[str, Any]:
        """Return the largest weights by name; with a schema, of the names in recent impressions."""
        runtime = await self._directory.find_ranker(name)
        recent: list[records.Ranked] = []
        if runtime.config.schema is not None:
            newest = await asyncio.to_thread(self.node.store.newest_rankings, runtime.entity, N_RECENT)
            recent = [record.event for record in newest if isinstance(record.event, records.Ranked)]
        return await asyncio.to_thread(runtime.view().recent_weights, recent)

    async def _append(self, entity: str, event: records.Event) -> Written:
        return await self.node.log.append(entry_of(entity, event))

    async def _create(self, entity: str, event: records.Event) -> bool:
        """Log the creation of an entity; return whether it is new. Either way the directory has it afterwards."""
        changes = await asyncio.to_thread(self.node.store.changes, entity)
        ends = [record.seq for record in changes if isinstance(record.event, records.Deleted)]
        is_new = bool(await self._change(entity, event, max(ends, default=0)))
        if not is_new:
            await self._directory.refresh(entity)
        return is_new

    async def _change(
        self,
        entity: str,
        event: records.Event,
        unless_after: int | None = None,
        snapshot: records.Snapshot | None = None,
        controls_learning: bool = False,
    ) -> int:
        """Log a change of an entity, which is served afterwards, and return its number."""
        # It is 0 if the entity changed after the event `unless_after`; then nothing is written. An event that controls
        # learning is waited for, also where another process learns the entity.
        written = await self.node.log.append(entry_of(entity, event, snapshot)._replace(unless_after=unless_after))
        if written.verdict != "changed":
            await self._directory.refresh(entity)
            await self.node.learning.wait_until_served(entity, written.seq, MAX_WAIT_SECONDS)
            if controls_learning:
                await self._published(entity, written.seq)
        return written.seq

    async def _amend(self, entity: str, find: Callable[[], tuple[Changes, int]], keeps_state: bool = False) -> Removal:
        """Change the past events of an entity, one change at a time; return what has changed."""
        # It is learned again on a copy while it is served. Only the events since then are learned, and the changes
        # written, while its log waits.
        node, store = self.node, self.node.store

        def prepare() -> Amendment:
            amendment, until = Amendment(store, entity), store.last()
            if not keeps_state:
                amendment.prepare(find()[0], until)
            return amendment

        def change(amendment: Amendment) -> Removal:
            with store.pause_learning(entity, MAX_WAIT_SECONDS):
                changes, count = find()
                removal = amendment.write(changes, keeps_state) if changes else Removal()
                return removal._replace(impressions=count)

        async with self._amending:
            amendment = await asyncio.to_thread(prepare)
            async with node.log.holding(entity):
                await node.learning.wait_until_served(entity, await asyncio.to_thread(store.last), MAX_WAIT_SECONDS)
                await node.log.append(None)  # a snapshot that was due with the last event is in the log now
                removal = await asyncio.to_thread(change, amendment)
                if removal.events:
                    node.log.clear_recent()
        if removal.events:
            if amendment.newest is not None:
                await self._append(entity, amendment.newest)
            written = await self._append(entity, records.Amended(removal.events))
            await self._published(entity, written.seq)
        return removal

    async def drop_old_events(self, entity: str, end_time: float) -> int:
        """Delete old events of closed impressions, but not what was learned from them; return their number."""
        store, outcomes = self.node.store, self._directory.entities[entity].config.outcomes.values()
        # An impression stays as long as an outcome of it may come.
        end_time = min([end_time, *(time.time() - outcome.window for outcome in outcomes)])

        def drop() -> int:
            n_deleted = 0
            if Amendment(store, entity).old_events(end_time):
                with store.pause_learning(entity, MAX_WAIT_SECONDS):
                    while changes := (amendment := Amendment(store, entity)).old_events(end_time):
                        n_deleted += amendment.write(changes, keeps_state=True).events
            return n_deleted

        async with self._amending:
            return await asyncio.to_thread(drop)

    async def _published(self, entity: str, seq: int) -> None:
        """Wait a while until an event is in the served state, also where another process learns it."""

        async def is_served() -> bool:
            runtime = self._directory.entities.get(entity)
            if runtime is None or runtime.published.seq >= seq:
                return True
            if not self.node.learning.learns(entity):
                await self._directory.refresh(entity)
            self.node.learning.worker.wake()
            return False

        await self._wait_until(is_served)

    async def _wait_until(self, is_reached: Callable[[], Awaitable[bool]]) -> None:
        deadline = time.monotonic() + MAX_PUBLISHED_SECONDS
        while not await is_reached() and time.monotonic() < deadline:
            await asyncio.sleep(PUBLISHED_CHECK_SECONDS)

    async def _check_size(self, config: configuration.RankerConfig) -> None:
        """Refuse a learner that would start with too large a state; on a thread, since that may take long."""
        problem, max_bytes = config.problem, self.node.settings.max_state
        if problem.n_hashed and (size := COLUMN_BYTES * problem.n_features) > max_bytes:
            advice = "use fewer bits, or start the service with a larger --limit state"
            reason = f"such a table takes {size} bytes, the limit is {max_bytes}: {advice}"
            raise Rejected("problem.schema.bits", reason)
        if not await asyncio.to_thread(starts_within, config.body.learner, problem, max_bytes):
            raise Rejected("learner", f"would start with more than {max_bytes} bytes, the limit of a state")

    async def delete(self, entity: str) -> None:
        """Delete a ranker or an experiment with its events and snapshots; its name may be used again."""
        ranker, experiments = entity.removeprefix("ranker/"), self._directory.experiments.items()
        users = [name for name, each in experiments if ranker in (each.body.a.ranker, each.body.b.ranker)]
        if users:
            raise Conflict(f"used by experiments: {', '.join(users)}; delete those first")
        aliases = [name for name, targets in self._directory.aliases.items() if targets[0] == ranker]
        if aliases:
            raise Conflict(f"the alias {aliases[0]} points to it: point the alias elsewhere first")
        written = await self._append(entity, records.Deleted())
        await self._directory.refresh(entity)
        self._directory.drop(entity)
        await asyncio.to_thread(self.node.store.erase, entity, written.seq)
        self.node.spawn(self._erase_later(entity, written.seq + 1))

    async def _erase_later(self, entity: str, end_seq: int) -> None:
        """Once every process has noticed the deletion, erase what one of them wrote meanwhile, and the deletion."""
        await asyncio.sleep(DELETION_NOTICED_SECONDS)
        with suppress(Unavailable):  # it is repeated at the next start
            await asyncio.to_thread(self.node.store.erase, entity, end_seq)

    async def finish_deletions(self) -> None:
        """Complete deletions that an earlier process may not have finished."""
        for record in await asyncio.to_thread(self.node.store.deletions):
            await self._erase_later(record.entity, record.seq + 1)

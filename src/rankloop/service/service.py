"""The service: rankers and comparisons over one log. What HTTP asks for is a method here."""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

import numpy as np

from rankloop.core.adapter import INVALID_ID, MAX_ID_LENGTH, MAX_STEP, Id, QueryRequest, are_valid_ids
from rankloop.core.errors import Conflict, NotFound, Rejected
from rankloop.core.saved_session import dumps, loads_with_notes
from rankloop.core.session import n_items_of
from rankloop.core.types import Floats
from rankloop.service.errors import Late, TooLarge, Unavailable
from rankloop.service.jobs.expiry import close_windows
from rankloop.service.jobs.history import sample
from rankloop.service.jobs.leader_election import LeaderElection
from rankloop.service.jobs.retention import move_old_events
from rankloop.service.jobs.rollback_guard import guard
from rankloop.service.jobs.snapshots import write_last_snapshot, write_snapshots
from rankloop.service.log.amendment import Changes, Forgotten, amend, retracted
from rankloop.service.log.archive import whole
from rankloop.service.log.catalogue import Catalogue
from rankloop.service.log.events import (
    CatalogueChanged,
    ComparisonCreated,
    Created,
    Entry,
    Evolved,
    Frozen,
    Ranked,
    Record,
    Resumed,
    RolledBack,
    catalogue_entity,
    comparison_entity,
    ranker_entity,
)
from rankloop.service.log.projection import OpenImpression, Outcome, Projection
from rankloop.service.log.recovery import (
    catalogue_reader,
    first_record,
    new_runtime,
    restored_catalogue,
    restored_comparison,
    restored_runtime,
)
from rankloop.service.log.stores.base import AmendableStore, SharedStore, Store
from rankloop.service.log.writer import LogWriter, entry_of
from rankloop.service.ranker.comparison import ComparisonRuntime, check_comparison
from rankloop.service.ranker.config import RankerConfig, check_new, config_of, config_of_session, named_model
from rankloop.service.ranker.explanation import explanation_of, recent_weights
from rankloop.service.ranker.feedback import check_complete, fingerprint, merged, received_feedback
from rankloop.service.ranker.named_requests import catalogue_changes, named_request, same_values
from rankloop.service.ranker.runtime import RankerRuntime
from rankloop.service.ranker.schema_changes import next_schema
from rankloop.service.ranker.state_size import check_file_fits, check_fits
from rankloop.service.ranker.trainer import Evolution
from rankloop.service.requests import (
    CatalogueBody,
    CreateBody,
    ExperimentBody,
    FeedbackAnswer,
    FeedbackBody,
    PackedRankBody,
    RankAnswer,
    RankBody,
    SchemaBody,
    check_tags,
)
from rankloop.service.settings import Settings

MAX_NAME_LENGTH = 64
MAX_TRIES = 10  # to be the next to change a schema
MAX_REPLACED = 10_000  # rows of a catalogue that are kept as they were, without asking who needs them
NUMBERS = {float, int}
Runtime = RankerRuntime | ComparisonRuntime


class Applied(NamedTuple):
    """What a record did, and when what is learned from it is served."""

    outcome: Outcome
    learned: asyncio.Future[None] | None = None


class Service:
    """Everything behind the HTTP calls; `open` it on a running event loop. Every event goes through `append`."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.slot = store.slot if isinstance(store, SharedStore) else 0
        self.rankers: dict[str, RankerRuntime] = {}
        self.comparisons: dict[str, ComparisonRuntime] = {}
        self.catalogues: dict[str, Catalogue] = {}
        self.late: dict[str, int] = {}  # feedback that came after the window, by entity
        self.unknown: dict[str, int] = {}  # feedback for impressions that nobody knows, by entity
        self.ready = False
        self.is_leader = not store.shared
        self.due: asyncio.Queue[Entry] = asyncio.Queue()
        self.open_bytes = 0  # of memory that open impressions take
        self._unlogged_bytes = 0  # the same of rankings on their way to the log
        self._held: dict[str, asyncio.Event] = {}  # entities whose past is being changed, until it is done
        self._tasks: list[asyncio.Task[None]] = []
        self._spawned: set[asyncio.Task[None]] = set()
        self.log: LogWriter

    async def open(self) -> None:
        last = await asyncio.to_thread(self._load)
        self.log = LogWriter(self.store, self._apply, last)
        jobs = [close_windows(self), write_snapshots(self), sample(self)]
        if isinstance(self.store, SharedStore):
            jobs.append(LeaderElection(self, self.store).run())
        if self.settings.keep_days is not None:
            jobs.append(move_old_events(self, self.settings.keep_days))
        self._tasks = [asyncio.create_task(job) for job in jobs]
        self.ready = True

    async def close(self) -> None:
        """Finish what has begun, keep a snapshot of every ranker, and stop."""
        self.ready = False
        for task in [*self._tasks, *self._spawned]:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for runtime in self.rankers.values():
            runtime.give_up()
            await runtime.drained()
            if self.is_leader and not runtime.catching_up:
                await write_last_snapshot(self, runtime)
        await self.log.stop()
        for runtime in self.rankers.values():
            runtime.stop()
        await asyncio.to_thread(self.store.close)

    # What visitors ask for.

    async def rank(self, name: str, body: RankBody, key: str | None = None, compared: bool | None = None) -> RankAnswer:
        """The order to show; a request with the same `key` gets the same answer.

        `compared` shows the predicted order mixed with the base order, and teaches nobody; None leaves it to chance.
        """
        return await self._rank(await self.find_ranker(name), body, key, compared)

    async def rank_comparison(self, name: str, body: RankBody, key: str | None = None) -> RankAnswer:
        """One list from both sides; a request with the same `key` gets the same answer."""
        return await self._rank(await self.find_comparison(name), body, key)

    async def feedback(self, name: str, body: FeedbackBody) -> FeedbackAnswer:
        """What came back for a ranking."""
        runtime = await self.find_ranker(name)
        verdict: Any = await self._receive(runtime, body)
        return FeedbackAnswer(body.impression, verdict, runtime.published.number)

    async def feedback_comparison(self, name: str, body: FeedbackBody) -> FeedbackAnswer:
        """The clicks on such a list."""
        verdict: Any = await self._receive(await self.find_comparison(name), body)
        return FeedbackAnswer(body.impression, verdict, 0)

    async def _rank(
        self, runtime: Runtime, body: RankBody, key: str | None, compared: bool | None = None
    ) -> RankAnswer:
        request = await self._request(runtime, body)
        impression = _new_impression(key)
        if key is not None:
            before = await self._ranked_before(runtime, impression)
            if before is not None:
                return _answer(_same_request(before, request))
        if len(runtime.projection.open) >= self.settings.max_open:
            waiting = len(runtime.projection.open)
            raise Unavailable(f"{waiting} impressions wait for feedback, which is the limit; try again later")
        size = 2 * request.features.nbytes  # most of what it will take
        self._check_memory(size)
        if isinstance(runtime, RankerRuntime):
            ranked = runtime.rank(request, impression, compared)
        else:
            ranked = runtime.rank(request, impression)
        ranked.user, ranked.session, ranked.tags = body.user, body.session, body.tags
        self._unlogged_bytes += size
        try:
            applied = await self.append(runtime.entity, ranked, once=key is not None)
        finally:
            self._unlogged_bytes -= size
            if isinstance(runtime, RankerRuntime):
                runtime.unlogged.pop(impression, None)
        if applied.outcome.verdict == "repeated":  # the same request, twice at the same moment
            ranked = _same_request(await self._ranked_before(runtime, impression) or ranked, request)
        return _answer(ranked)

    def _check_memory(self, size: int) -> None:
        """Refuse what would take too much memory, together with all that waits for feedback or for the log."""
        taken = self.open_bytes + self._unlogged_bytes
        if taken + size > self.settings.max_open_bytes:
            raise Unavailable(f"impressions that wait for feedback take {taken} bytes, near the limit; try again later")

    async def _request(self, runtime: Runtime, body: RankBody) -> QueryRequest:
        """What is asked; a field or a row that is not known here may be a moment old, and known to another worker."""
        asked = body, runtime.config, self.settings.max_items, runtime.catalogue
        try:
            if _is_large(body) and not runtime.config.encoders:
                return await asyncio.to_thread(query_request, *asked)
            return query_request(*asked)
        except Rejected:
            if not self.store.shared or not runtime.config.encoders:
                raise
        await self.log.append(None)
        return query_request(*asked)

    async def _ranked_before(self, runtime: Runtime, impression: str) -> Ranked | None:
        """What was shown for a request that came before with the same key."""
        known = runtime.projection.open.get(impression)
        if known is not None:
            return known.ranked
        records = await asyncio.to_thread(self.store.of_impression, runtime.entity, impression)
        return next((record.event for record in records if isinstance(record.event, Ranked)), None)

    async def _receive(self, runtime: Runtime, body: FeedbackBody) -> str:
        """The verdict, once what is learned from the feedback is served."""
        impression = runtime.projection.open.get(body.impression)
        if impression is None and self.store.shared:
            await self.log.append(None)  # another worker may have shown it a moment ago
            impression = runtime.projection.open.get(body.impression)
        if impression is None:
            return await self._no_longer_open(runtime, body)
        feedback = received_feedback(body, impression.ranked, runtime.config)
        if fingerprint(feedback) in impression.received:
            return "repeated"
        if time.monotonic() > impression.deadline:
            self._refuse_late(runtime.entity, body.impression)
        check_complete(merged(impression.feedback, feedback), impression.ranked, runtime.config.problem)
        applied = await self.append(runtime.entity, feedback)
        if applied.outcome.verdict == "late":  # it was closed at this very moment
            return await self._no_longer_open(runtime, body)
        if applied.outcome.verdict == "refused":
            raise Rejected(feedback.kind, "this impression already has feedback of another kind")
        if applied.learned is not None:
            await applied.learned
        return applied.outcome.verdict

    async def _no_longer_open(self, runtime: Runtime, body: FeedbackBody) -> str:
        """Was it closed, and perhaps by this very feedback, whose answer was lost? Then it is not learned again."""
        entity, name = runtime.entity, body.impression[:MAX_NAME_LENGTH]
        impression = await asyncio.to_thread(lambda: _before_closing(self.store.of_impression(entity, name)))
        if impression is None:
            self.unknown[entity] = self.unknown.get(entity, 0) + 1
            raise NotFound(f"there is no impression {name!r}")
        if fingerprint(received_feedback(body, impression.ranked, runtime.config)) in impression.received:
            return "repeated"
        return self._refuse_late(entity, name)

    def _refuse_late(self, entity: str, impression: str) -> NoReturn:
        self.late[entity] = self.late.get(entity, 0) + 1
        raise Late(f"the window of the impression {impression!r} has closed; nothing was learned from this")

    # What the people who run it ask for.

    async def create(self, name: str, body: CreateBody, start: bytes = b"", source: str = "") -> bool:
        """Whether the ranker is new; the same again changes nothing, another under the same name is a `Conflict`."""
        config = config_of(body)
        if config.body.problem.catalogue is not None:
            await self.find_catalogue(config.body.problem.catalogue, "problem.catalogue")
        if name not in self.rankers:
            await asyncio.to_thread(_check_new, config, self.settings.max_state, bool(start))
            if len(self.rankers) >= self.settings.max_rankers:
                raise Conflict(f"there are {len(self.rankers)} rankers already, which is the limit")
            applied = await self.append(ranker_entity(name), Created(config.body, start, source))
            if applied.outcome.verdict == "created":
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
            await self.catch_up(side.ranker or "")
        ComparisonRuntime(comparison_entity(name), body, self.rankers)
        if name not in self.comparisons:
            applied = await self.append(comparison_entity(name), ComparisonCreated(body))
            if applied.outcome.verdict == "created":
                return True
        if self.comparisons[name].body != body:
            raise Conflict(f"the experiment {name!r} exists already, with other settings")
        return False

    async def clone(self, name: str, new: str) -> bool:
        """A new ranker that begins with the state of this one."""
        runtime = await self.find_ranker(name)
        start = await asyncio.to_thread(dumps, runtime.serving)
        await self.catch_up(new)
        if new in self.rankers:
            raise Conflict(f"the ranker {new!r} exists already")
        return await self.create(new, runtime.config.body_now(), start, name)

    async def evolve(self, name: str, body: SchemaBody) -> None:
        """Fields and crosses are added to the schema of a ranker, or taken from it; the same again changes nothing."""
        runtime = await self.find_ranker(name)
        for _ in range(MAX_TRIES):
            if self.store.shared:
                await self.log.append(None)
            schema = next_schema(runtime.config, body)
            if schema is None:
                return
            config = runtime.config.with_schemas([schema])
            await asyncio.to_thread(check_fits, config.body.learner, config.problem, self.settings.max_state)
            applied = await self.append(runtime.entity, Evolved(schema.to_plain()))
            if applied.outcome.verdict == "done":
                if applied.learned is not None:
                    await applied.learned
                return
        raise Conflict("others change this schema at the same moment; try again")

    async def put_catalogue(self, name: str, body: CatalogueBody) -> int:
        """How many rows are new, other than before, or gone."""
        await self.log.append(None)
        if name not in self.catalogues and len(self.catalogues) >= self.settings.max_rankers:
            raise Conflict(f"there are {len(self.catalogues)} catalogues already, which is the limit")
        named = [runtime.config for runtime in self.rankers.values() if runtime.body.problem.catalogue == name]
        known = self.catalogues.get(name, Catalogue())
        changes = await asyncio.to_thread(catalogue_changes, body.rows, known, named)
        if changes or name not in self.catalogues:
            await self.append(catalogue_entity(name), CatalogueChanged(changes))
        return len(changes)

    async def freeze(self, name: str, reason: str) -> None:
        """Stop learning; ranking goes on."""
        await self.append((await self.find_ranker(name)).entity, Frozen(reason))

    async def resume(self, name: str) -> None:
        """Learn again."""
        await self.append((await self.find_ranker(name)).entity, Resumed())

    async def rollback(self, name: str, number: int | None) -> int:
        """Go back to a snapshot (the newest, unless said); the generator goes on from where it is."""
        runtime = await self.find_ranker(name)
        known = [0] + [row[0] for row in await asyncio.to_thread(self.store.snapshots, runtime.entity)]
        to = known[-1] if number is None else number
        if to not in known:
            raise NotFound(f"there is no snapshot of state {to}; there are those of {', '.join(map(str, known))}")
        applied = await self.append(runtime.entity, RolledBack(to, "asked for"))
        if applied.learned is not None:
            await applied.learned
        return to

    async def forget(
        self, name: str, *, query_id: str | None = None, user: str | None = None, before: float | None = None
    ) -> int:
        """Forget impressions: of a query, of a user, or shown before a time; how many. What they taught goes too."""
        what = Forgotten(query_id, user, before)
        if what == Forgotten():
            raise Rejected("forget", "say what: a query, a user, or a time before which all is forgotten")
        entity = (await self.find_ranker(name)).entity
        return await self.change_past(entity, lambda: what.changes(whole(self.store, entity, self.settings.data)))

    async def retract(self, name: str, impression: str, id: str) -> bool:
        """Take back the clicks on an item; whether there were any. What was learned since is learned without them."""
        entity, impression = (await self.find_ranker(name)).entity, impression[:MAX_NAME_LENGTH]
        if not await asyncio.to_thread(self.store.of_impression, entity, impression):
            raise NotFound(f"there is no impression {impression!r}")
        return bool(await self.change_past(entity, lambda: retracted(self.store.of_impression(entity, impression), id)))

    async def change_past(self, entity: str, find: Callable[[], tuple[Changes, int]], how: Any = amend) -> int:
        """Change the past of an entity while it stands still, and go on from what it then amounts to."""
        store, (kind, _, name) = self.store, entity.partition("/")
        if not isinstance(store, AmendableStore):
            raise Conflict("what several processes write cannot be changed while they run")
        while entity in self._held:
            await self._held[entity].wait()
        done = self._held[entity] = asyncio.Event()
        try:
            await self.log.append(None)
            if kind == "ranker":
                await self.rankers[name].drained()
            changes, count = await asyncio.to_thread(find)
            if changes:
                await asyncio.to_thread(how, store, entity, self.settings.data, changes, self.catalogues)
            if changes and kind == "ranker":
                await self._restart(name, self.rankers[name])
            return count
        finally:
            del self._held[entity]
            done.set()

    async def _restart(self, name: str, before: RankerRuntime) -> None:
        """A ranker as its log has it now; its generator goes on from where it was."""
        how = before.entity, self.store, self.due, self.log.last, self.slot, self.catalogues
        runtime = await asyncio.to_thread(restored_runtime, *how)
        runtime.trains, runtime.curve = before.trains, before.curve
        runtime.publish(runtime.published, before.serving.snapshot()[1])
        self.rankers[name] = runtime
        self.open_bytes += runtime.projection.open_bytes - before.projection.open_bytes
        for comparison in self.comparisons.values():
            comparison.replace(before, runtime)
        await asyncio.to_thread(before.stop)

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
        ranked = await self._ranked_before(runtime, impression[:MAX_NAME_LENGTH])
        if ranked is None:
            raise NotFound(f"there is no impression {impression[:MAX_NAME_LENGTH]!r}")
        return await asyncio.to_thread(explanation_of, runtime, ranked, id)

    async def weights(self, name: str) -> dict[str, Any]:
        """The largest weights by name, of the names in recent impressions where there is a schema."""
        runtime = await self.find_ranker(name)
        return await asyncio.to_thread(recent_weights, runtime, list(runtime.recent))

    async def _start_of(self, name: str) -> bytes:
        """The saved session that a ranker began with."""
        event = (await asyncio.to_thread(first_record, self.store, ranker_entity(name))).event
        return event.start if isinstance(event, Created) else b""

    # How it holds together.

    def ranker(self, name: str) -> RankerRuntime:
        """The ranker of this name, or `NotFound`."""
        if name not in self.rankers:
            raise NotFound(f"there is no ranker {name!r}")
        return self.rankers[name]

    def comparison(self, name: str) -> ComparisonRuntime:
        """The comparison of this name, or `NotFound`."""
        if name not in self.comparisons:
            raise NotFound(f"there is no experiment {name!r}")
        return self.comparisons[name]

    async def find_ranker(self, name: str) -> RankerRuntime:
        """The same, though another worker may have made it a moment ago."""
        await self.catch_up(name)
        return self.ranker(name)

    async def find_comparison(self, name: str) -> ComparisonRuntime:
        await self.catch_up(name)
        return self.comparison(name)

    async def find_catalogue(self, name: str, field: str = "") -> Catalogue:
        """The catalogue of this name, or `NotFound`; `Rejected` where a field names it."""
        if self.store.shared and name not in self.catalogues:
            await self.log.append(None)
        if name not in self.catalogues and field:
            raise Rejected(field, f"there is no catalogue {name!r}; PUT /catalogues/{name} first")
        if name not in self.catalogues:
            raise NotFound(f"there is no catalogue {name!r}")
        return self.catalogues[name]

    async def catch_up(self, name: str) -> None:
        """Read what other workers have logged, if the name is not known here: it may be a moment old."""
        if self.store.shared and name not in self.rankers and name not in self.comparisons:
            await self.log.append(None)

    def is_held(self, entity: str) -> bool:
        """Whether nothing is to be logged for it now."""
        return entity in self._held

    async def append(self, entity: str, event: Any, once: bool = False) -> Applied:
        """Log an event, and wait until it is durable and applied; `once`: unless the log has its impression already."""
        while entity in self._held:
            await self._held[entity].wait()
        applied: Applied | None = await self.log.append(entry_of(entity, event, once=once))
        return applied or Applied(Outcome("repeated"))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Work that nobody waits for; it is cancelled when the service closes."""
        task = asyncio.create_task(work)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)

    def _apply(self, record: Record) -> Applied:
        entity, event = record.entity, record.event
        kind, _, name = entity.partition("/")
        if isinstance(event, Created):
            if name in self.rankers:
                return Applied(Outcome("repeated"))
            self.rankers[name] = new_runtime(event, entity, self.store, self.due, self.slot, self.catalogues)
            self.rankers[name].trains = self.is_leader
            return Applied(Outcome("created"))
        if isinstance(event, ComparisonCreated):
            if name in self.comparisons:
                return Applied(Outcome("repeated"))
            self.comparisons[name] = ComparisonRuntime(entity, event.body, self.rankers)
            return Applied(Outcome("created"))
        if isinstance(event, CatalogueChanged):
            return self._change_catalogue(name, record.seq, event)
        runtime: Runtime = self.comparisons[name] if kind == "experiment" else self.rankers[name]
        before = runtime.projection.open_bytes
        outcome = runtime.projection.apply(record)
        self.open_bytes += runtime.projection.open_bytes - before
        if isinstance(event, Ranked) and outcome.verdict == "shown":
            runtime.projection.open[event.impression].deadline = time.monotonic() + runtime.body.window
        if isinstance(runtime, ComparisonRuntime):
            return Applied(outcome)
        if isinstance(event, Ranked) and outcome.verdict == "shown":
            runtime.note(runtime.projection.open[event.impression])
        if isinstance(outcome.step, Evolution):
            runtime.evolve(outcome.step)
        if outcome.verdict == "closed" and runtime.body.guard:
            guard(self, runtime)
        return Applied(outcome, runtime.learn(outcome.step) if outcome.step is not None else None)

    def _change_catalogue(self, name: str, seq: int, event: CatalogueChanged) -> Applied:
        catalogue = self.catalogues.setdefault(name, Catalogue(catalogue_reader(name, self.store)))
        catalogue.put(seq, event.rows)
        if catalogue.replaced > max(len(catalogue), MAX_REPLACED):
            self._thin_out(catalogue)
        return Applied(Outcome("done"))

    def _thin_out(self, catalogue: Catalogue) -> None:
        """Forget rows that were replaced before the oldest impression that waits for feedback."""
        runtimes = [runtime for runtime in self.rankers.values() if runtime.catalogue is catalogue]
        open_now = [known.ranked.catalogue for runtime in runtimes for known in runtime.projection.open.values()]
        catalogue.keep_since(min(open_now, default=catalogue.version))

    def _load(self) -> int:
        last = self.store.last()
        names = [entity.partition("/") for entity in self.store.entities()]
        for kind, _, name in names:
            if kind == "catalogue":
                self.catalogues[name] = restored_catalogue(name, self.store, last)
        for kind, _, name in names:
            if kind == "ranker":
                how = ranker_entity(name), self.store, self.due, last, self.slot, self.catalogues
                self.rankers[name] = restored_runtime(*how)
                self.rankers[name].trains = self.is_leader
        for catalogue in self.catalogues.values():
            self._thin_out(catalogue)
        for kind, _, name in names:
            if kind == "experiment":
                entity = comparison_entity(name)
                self.comparisons[name] = restored_comparison(entity, self.store, last, self.rankers)
        runtimes: list[Runtime] = [*self.rankers.values(), *self.comparisons.values()]
        self.open_bytes = sum(runtime.projection.open_bytes for runtime in runtimes)
        return last


def query_request(
    body: RankBody, config: RankerConfig, max_items: int, catalogue: Catalogue | None = None
) -> QueryRequest:
    """What a request asks of the learner, or `Rejected` with the field that is wrong."""
    if len(body.items) + len(body.ids) > max_items:
        raise TooLarge(f"items: {len(body.items) + len(body.ids)} items, the limit is {max_items}")
    for field in ("query_id", "user", "session"):
        if len(getattr(body, field)) > MAX_ID_LENGTH:
            raise Rejected(field, f"longer than {MAX_ID_LENGTH} characters")
    if body.tags:
        check_tags(body.tags)
    base_model = config.base_model if body.base_model is None else named_model(body.base_model, config)
    packed = body if type(body) is PackedRankBody and body.features else None
    if config.encoders and packed is not None:
        raise Rejected("features", "this ranker has a schema; give values by name")
    if config.encoders:
        return named_request(body, config, catalogue)._replace(base_model=base_model)
    rows: list[Any] | Floats = [item.features for item in body.items]
    ids = [item.id for item in body.items]
    if packed is not None:
        ids, rows = packed.ids, packed.rows(config.adapter.n_features)
    if not are_valid_ids(ids):
        raise Rejected("items", INVALID_ID)
    if body.ids and packed is None:
        raise Rejected("ids", "items by id alone need a catalogue and a schema; give items with their features")
    check_numbers(ids, rows)
    try:
        request = config.adapter.query(ids, rows, body.context, body.query_id, body.pinned, body.excluded)
    except OverflowError:
        raise Rejected("items", "a number is beyond 1e308") from None
    if config.base_weights is None:
        return request._replace(base_model=base_model) if base_model else request
    query = request.query
    return request._replace(query=query._replace(features=config.with_base_score(query.features)))


def _is_large(body: RankBody) -> bool:
    """Whether there is so much of it that others should not wait until it is an array."""
    return bool(body.items) and len(body.items) * len(body.items[0].features) > MAX_STEP


def check_numbers(ids: list[Id], rows: list[Any] | Floats) -> None:
    """Refuse what is no number, where features are numbers: the body of a request may hold any value."""
    if isinstance(rows, np.ndarray) or {list} == set(map(type, rows)):
        return
    for position, (id, row) in enumerate(zip(ids, rows)):
        if isinstance(row, dict) and not NUMBERS.issuperset(map(type, row.values())):
            name, value = next((name, value) for name, value in row.items() if type(value) not in NUMBERS)
            where = f"items[{position}].features.{name:.80}"
            raise Rejected(where, f"item {id!r:.80}: {name} must be a number, got {value!r:.60}")


def _check_new(config: RankerConfig, max_state: int, is_copy: bool) -> None:
    """On a thread: a learner may take its time to begin."""
    check_fits(config.body.learner, config.problem, max_state)
    check_new(config, is_copy)


def _new_impression(key: str | None) -> str:
    """A name for an impression that sorts by time; for a request with a key always the same one."""
    if key is not None:
        return f"k{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    return f"{time.time_ns():016x}{secrets.token_hex(8)}"


def _same_request(before: Ranked, request: QueryRequest) -> Ranked:
    """What was shown before, if the same was asked; else `Conflict`."""
    query, pinned = request.query, request.pinned
    to_show = sorted(request.shown_order(np.arange(n_items_of(query.features))))
    given = (request.ids, request.features.tobytes(), query.id, query.context.tolist(), pinned, to_show)
    pins = before.order[: len(pinned)]
    if given != (before.ids, before.features, before.query_id, before.context, pins, sorted(before.order)):
        raise Conflict("this Idempotency-Key was used for another ranking")
    if before.base_model != request.base_model:
        raise Conflict("this Idempotency-Key was used for a base score of another model")
    if request.values is not None and not same_values(before, request.values):
        raise Conflict("this Idempotency-Key was used for another ranking")
    return before


def _before_closing(records: list[Record]) -> OpenImpression | None:
    """An impression as it was when it closed: what came later is in the log too, but was not received."""
    projection, impression = Projection(None), None
    for record in records:
        projection.reopen(record)
        impression = next(iter(projection.open.values()), impression)
    return impression


def _answer(ranked: Ranked) -> RankAnswer:
    ids: list[Id] = ranked.ids
    order = [ids[i] for i in ranked.order]
    return RankAnswer(ranked.impression, order, ranked.state_number, ranked.log_propensity)

"""A worker: a process on the log. What it knows, how it hears of what others did, how it writes and learns."""

import asyncio
import secrets
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from rankloop.core.errors import NotFound
from rankloop.service.directory import Directory, Runtime
from rankloop.service.errors import Unavailable
from rankloop.service.jobs.history import sample
from rankloop.service.jobs.learner import Learner, News
from rankloop.service.jobs.retention import move_old_events
from rankloop.service.log.catalogue import Catalogue
from rankloop.service.log.events import (
    AnyEvent,
    ComparisonCreated,
    Entry,
    Ranked,
    alias_entity,
    comparison_entity,
    ranker_entity,
)
from rankloop.service.log.stores.base import MISSED, SharedStore, Store
from rankloop.service.log.writer import LogWriter, Written, entry_of
from rankloop.service.ranker.comparison import ComparisonRuntime
from rankloop.service.ranker.runtime import RankerRuntime
from rankloop.service.settings import Settings

PATIENCE = 2.0  # seconds for which an answer to feedback waits until what was learned is served
COPIES = 4  # of an impression in memory on its way to the log, nearly
SWEEP_EVERY = 0.25  # seconds
LOOK_EVERY = 2.0  # seconds between two looks for states of which no news has come


class Worker:
    """The ground of a service; `open` it on a running event loop. Every event goes through `append`.

    It knows configurations and the newest published states, and nothing else of what others log. A `Learner` on a
    thread of its own makes the states of those partitions that this process has a lease for.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.slot = secrets.token_hex(4) if store.shared else "0"  # which worker it is
        self.late: dict[str, int] = {}  # feedback that came after the window, by entity
        self.unknown: dict[str, int] = {}  # feedback for impressions that nobody knows, by entity
        self.ready = False
        self.is_leader = False  # whether everything is learned in this process
        self.loop_lag = 0.0  # seconds by which the event loop was late last
        self.holders: dict[int, str] = {}  # who learns the partitions, when somebody last watched
        self.learner_lag = 0.0  # seconds by which what is served was behind the log then
        self.log: LogWriter
        self.learner: Learner
        self.directory: Directory
        self._held: dict[str, asyncio.Event] = {}  # entities whose past is being changed, until it is done
        self._learned = 0  # everything up to this event is served, of what is learned here
        self._waiting: list[tuple[str, int, float, asyncio.Future[None]]] = []
        self._begun = asyncio.Event()
        self._finding: dict[str, bool] = {}  # entities that are looked at now: whether there is news meanwhile
        self._tasks: list[asyncio.Task[None]] = []
        self._spawned: set[asyncio.Task[None]] = set()

    @property
    def rankers(self) -> dict[str, RankerRuntime]:
        return self.directory.rankers

    @property
    def comparisons(self) -> dict[str, ComparisonRuntime]:
        return self.directory.comparisons

    @property
    def catalogues(self) -> dict[str, Catalogue]:
        return self.directory.catalogues

    async def open(self) -> None:
        loop = asyncio.get_running_loop()

        def told(entity: str) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._take_news_of, entity)

        self.directory = Directory(self.store, lambda entity: self.learner.learns(entity))
        self.log = LogWriter(self.store, most=self.settings.max_open_bytes // COPIES)
        partitions = self.settings.partitions_of(self.store.partitions)
        tell: Any = partial(loop.call_soon_threadsafe, self._take)  # type: ignore[arg-type]
        self.learner = Learner(self.store, self.log, partitions, self.directory.catalogue, tell)
        await asyncio.to_thread(self.directory.load)
        self.learner.start()
        if not isinstance(self.store, SharedStore) and partitions:
            await self._begun.wait()
        jobs = [sample(self), self._sweep()]
        if isinstance(self.store, SharedStore):
            self.store.listen(told)
            jobs.append(self._look())
        if self.settings.keep_days is not None:
            jobs.append(move_old_events(self, self.settings.keep_days))
        self._tasks = [asyncio.create_task(job) for job in jobs]
        self.ready = True
        self.spawn(self.finish_deletions())

    async def finish_deletions(self) -> None:
        """What was deleted before this process began, and perhaps not to the end."""

    async def close(self) -> None:
        """Finish what has begun, keep a snapshot of every ranker, and stop."""
        self.ready = False
        await _cancelled([*self._tasks, *self._spawned])
        await asyncio.to_thread(self.learner.stop)
        await self.log.stop()
        self._release(2**63)
        await asyncio.to_thread(self.store.close)
        await _cancelled([*self._spawned])  # for news that came meanwhile

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
        if self.store.shared and name not in self.rankers:
            await self.find(ranker_entity(name))
        return self.ranker(name)

    async def find_targets(self, name: str) -> tuple[str, ...]:
        """The rankers that a name means: itself, or where it leads and led as an alias."""
        if self.store.shared and name not in self.rankers and name not in self.directory.aliases:
            await self.find(ranker_entity(name))
            if name not in self.rankers:
                await self.find(alias_entity(name))
        return self.directory.targets(name)

    async def find_comparison(self, name: str) -> ComparisonRuntime:
        if self.store.shared and name not in self.comparisons:
            await self.find(comparison_entity(name))
        return self.comparison(name)

    async def find(self, entity: str) -> None:
        """Look into the store for what is new of an entity."""
        found = await asyncio.to_thread(self.directory.find, entity)
        for record in found.changes:
            if isinstance(record.event, ComparisonCreated):
                for side in (record.event.body.a, record.event.body.b):
                    if side.ranker is not None and side.ranker not in self.rankers:
                        await self.find(ranker_entity(side.ranker))
        self.directory.take(found)

    async def catch_up(self, name: str) -> None:
        """Know what is logged of this name up to now: what is learned here as it is, else as it was published."""
        for entity in (ranker_entity(name), comparison_entity(name)):
            if self.learner.learns(entity):
                if self.directory.runtime(entity) is not None:
                    await self.served(entity, await asyncio.to_thread(self.store.last))
            elif self.store.shared:
                await self.find(entity)

    async def catch_up_with_all(self) -> None:
        """The same of everything, for those who watch."""
        store, leases = self.store, self.learner.leases
        if leases.held:
            await self.served("", await asyncio.to_thread(store.last))
        if not isinstance(store, SharedStore):
            self.holders, self.learner_lag = dict.fromkeys(leases.held, leases.holder), self.learner.lag
            return
        self.holders, self.learner_lag = await asyncio.to_thread(lambda: (store.holders(), max(store.lag(), 0.0)))
        if not self.is_leader:
            for entity, (seq, projection) in (await asyncio.to_thread(store.projections)).items():
                if not self.learner.learns(entity):
                    self.directory.recount(entity, seq, projection)

    async def _ranked_before(self, runtime: Runtime, impression: str) -> Ranked | None:
        """What was shown for a request that came before with the same key."""
        records = await asyncio.to_thread(self.store.of_impression, runtime.entity, impression)
        return next((record.event for record in records if isinstance(record.event, Ranked)), None)

    def is_held(self, entity: str) -> bool:
        """Whether nothing is to be logged for it now."""
        return entity in self._held

    async def append(self, entity: str, event: AnyEvent, once: bool = False) -> Written:
        """Log an event, and wait until it is durable; `once`: unless the log has its impression already."""
        return await self._append(entry_of(entity, event, once=once))

    async def _append(self, entry: Entry) -> Written:
        while entry.entity in self._held:
            await self._held[entry.entity].wait()
        return await self.log.append(entry)

    async def served(self, entity: str, seq: int, patience: float = PATIENCE) -> None:
        """Wait until an event is learned and served, where this process learns it."""
        if self._learned >= seq or not self._is_learned(entity):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((entity, seq, time.monotonic() + patience, future))
        self.learner.wake()
        await future

    def _is_learned(self, entity: str) -> bool:
        """Whether this process learns an entity, or anything where none is named."""
        return self.learner.learns(entity) if entity else bool(self.learner.leases.held)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Work that nobody waits for; it is cancelled when the service closes."""
        task = asyncio.create_task(work)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)

    def _take(self, news: News) -> None:
        """What the learner of this process tells."""
        for entity in news.given_up:
            self.directory.learn_elsewhere(entity)
        for entity, published in news.published:
            if news.until:
                self.directory.publish(entity, published)
            else:
                self.directory.replace(entity, published)
        for entity in news.taken_up:
            self.directory.learn_here(entity)
            if self.directory.runtime(entity) is None and self.ready:
                self._take_news_of(entity)
        self.is_leader = len(news.partitions) == self.store.partitions
        self._begun.set()
        self._learned = max(self._learned, news.until)
        self._release(self._learned, news.failed)

    def _release(self, until: int, failed: Sequence[str] = ()) -> None:
        """Those who wait for what is served by now go on; those who wait for what could not be learned are told."""
        waiting, self._waiting = self._waiting, []
        now = time.monotonic()
        for entity, seq, deadline, future in waiting:
            if future.done():
                continue
            if entity in failed:
                future.set_exception(Unavailable("the log cannot be read now; this is learned later"))
            elif seq > until and now < deadline and self._is_learned(entity):
                self._waiting.append((entity, seq, deadline, future))
            else:
                future.set_result(None)

    async def _sweep(self) -> None:
        """Let nobody wait for longer than he wants to, though the learner may."""
        while True:
            begun = time.monotonic()
            await asyncio.sleep(SWEEP_EVERY)
            self.loop_lag = max(time.monotonic() - begun - SWEEP_EVERY, 0.0)
            self._release(self._learned)

    def _take_news_of(self, entity: str) -> None:
        """News of an entity, or of anything; of many at the same moment only the last counts."""
        if entity in self._finding:
            self._finding[entity] = True
        elif self.ready or entity != MISSED:
            self._finding[entity] = False
            self.spawn(self._find_news(entity))

    async def _find_news(self, entity: str) -> None:
        try:
            while True:
                self._finding[entity] = False
                with suppress(Unavailable, NotFound):
                    await (self._find_all() if entity == MISSED else self.find(entity))
                if not self._finding[entity]:
                    return
        finally:
            del self._finding[entity]

    async def _find_all(self) -> None:
        """Whatever has changed without being noticed."""
        store: Any = self.store
        published, entities = await asyncio.to_thread(lambda: (store.published(), store.entities()))
        runtimes: list[Runtime] = [*self.rankers.values(), *self.comparisons.values()]
        there = set(entities)
        for known in runtimes:
            if known.entity not in there:
                self.directory.drop(known.entity)
        for entity in entities:
            runtime = self.directory.runtime(entity)
            is_known = runtime is not None or entity.startswith("catalogue/")
            is_behind = runtime is not None and published.get(entity, (0, 0))[1] > runtime.published.seq
            if not is_known or (is_behind and not self.learner.learns(entity)):
                await self.find(entity)

    async def _look(self) -> None:
        """The fallback where no news comes."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            self._take_news_of(MISSED)


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

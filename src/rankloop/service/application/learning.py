"""Learning: the worker that alone reads the log of its partitions, learns, closes windows, snapshots and publishes."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from rankloop.core.errors import NotFound, RankloopError
from rankloop.service.application.jobs.lease import LeaseKeeper
from rankloop.service.application.jobs.publication import Publisher
from rankloop.service.application.jobs.window_expiry import LOOK_AGAIN_SECONDS, Windows
from rankloop.service.application.rebuild import MAX_OPEN_BYTES, FindCatalogue, rebuild, restored_consumer
from rankloop.service.domain.feedback_rules import settle_end
from rankloop.service.domain.projection import Consumer, Due, PublishedState
from rankloop.service.errors import Unavailable
from rankloop.service.log.writer import LogWriter, entry_of, settled_entry
from rankloop.service.records import (
    Amended,
    Created,
    Deleted,
    ExperimentCreated,
    LogEntry,
    Record,
    experiment_entity,
    partition_of,
    ranker_entity,
)
from rankloop.service.stores.base import Lease, SharedStore, Store

if TYPE_CHECKING:
    from rankloop.service.application.node import Node

logger = logging.getLogger("rankloop.service")
THREADS = 4
BUSY_SECONDS, IDLE_SECONDS = 0.02, 0.1  # until the log is looked at again, unless somebody waits
ACTIVE_SECONDS = 1.0  # since the last event, for which the next one is looked for often
RETRY_SECONDS = 0.2  # while the log cannot be read
MAX_ALL_OPEN_BYTES = 32_000_000  # of impressions that all consumers keep in memory
LEARNED_KINDS = ("ranker", "experiment")
SERVED_SECONDS = 2.0  # for which an answer to feedback waits until what was learned is served
SWEEP_SECONDS = 0.25  # between two looks for answers that have waited long enough


class News(NamedTuple):
    """What the learner worker tells those who serve in the same process."""

    published: list[tuple[str, PublishedState]]
    until: int  # everything up to this event is in it; 0 where a state was learned again
    taken_up: Sequence[str] = ()  # entities that are learned here from now on
    given_up: Sequence[str] = ()  # entities that others learn by now
    partitions: frozenset[int] = frozenset()  # that are learned here
    failed: tuple[str, ...] = ()  # entities of which a step could not be taken now


class LearnerWorker:
    """Learns what it has leases for. It has a thread, and a few more for rankers that learn at the same moment."""

    def __init__(
        self,
        store: Store,
        log: LogWriter,
        partitions: Sequence[int],
        find_catalogue: FindCatalogue,
        tell: Callable[[News], Any],
    ) -> None:
        self.store = store
        self.log = log
        self.consumers: dict[str, Consumer] = {}
        self.position = 0  # everything up to this event has been read
        self.lag = 0.0  # seconds by which the last event that was read was old
        self.leases = LeaseKeeper(store, partitions, self.wake)
        self.publisher = Publisher(store) if isinstance(store, SharedStore) else None
        self._active_at = 0.0
        self._windows: dict[str, Windows] = {}  # of entities with open impressions, once they have waited
        self._look_at: dict[str, float] = {}  # by the clock of the store: when to look for the ends of their windows
        self._held: dict[int, Lease] = {}  # those whose consumers are up to date
        self._find_catalogue = find_catalogue
        self._tell = tell
        self._wake = Flag()
        self._stopping = Flag()
        self._partitions: dict[str, int] = {}
        self._giving_up = Flag()
        self._keeping: list[tuple[str, Future[None]]] = []
        self._again: set[str] = set()  # entities that are to be read again from their log
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="learn")
        self._thread = Thread(target=self._run, name="learn", daemon=True)

    def start(self) -> None:
        self.leases.start()
        if self.leases.allowed:
            if isinstance(self.store, SharedStore):
                self.store.subscribe_to_events(self.wake)
            self._thread.start()

    def wake(self) -> None:
        """Look at the log now."""
        self._wake.set()

    def learns(self, entity: str) -> bool:
        """Return whether this process learns an entity, as far as it knows."""
        return self._partition(entity) in self._held

    def request_snapshot(self, entity: str) -> Future[None]:
        """Write a snapshot of an entity, unless there is one of all that is known."""
        done: Future[None] = Future()
        self._keeping.append((entity, done))
        self.wake()
        return done

    def stop(self) -> None:
        """Learn what is there, keep a snapshot of everything that has changed, and give the leases back."""
        self._stopping.set()
        self._giving_up.set()
        self.wake()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.shutdown(wait=True)
        self.leases.stop()

    # On the learner worker's thread.

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._hold(self._leases_now())
                more = self._turn()
            except Exception as error:  # nothing may end the thread
                if not isinstance(error, Unavailable):
                    logger.error("learn", exc_info=error)
                self._stopping.wait(RETRY_SECONDS)
                continue
            if not more and not self._stopping.is_set():
                is_active = time.monotonic() - self._active_at < ACTIVE_SECONDS
                is_publishing = self.publisher is not None and self.publisher.is_waiting
                self._wake.wait(BUSY_SECONDS if is_active or is_publishing else IDLE_SECONDS)
            self._wake.clear()
        self._finish()

    def _leases_now(self) -> dict[int, Lease]:
        return self.leases.leases if time.monotonic() < self.leases.expires_at else {}

    def _hold(self, leases: dict[int, Lease]) -> None:
        """Take up what is new and give up what is gone."""
        if leases == self._held:
            return
        kept = {part for part, lease in leases.items() if self._held.get(part) == lease}
        gone = [entity for entity in self.consumers if self._partition(entity) not in kept]
        for entity in gone:
            self._drop(entity)
        self._held = {part: leases[part] for part in kept}
        if isinstance(self.store, SharedStore):
            logger.info(f"learning {len(leases)} of {self.store.partitions} partitions")
            self.store.learned_here = frozenset(leases)
        if gone:
            self._tell(News([], self.position, given_up=gone, partitions=frozenset(kept)))
        if not self.consumers and not kept:
            self.position = self.store.last()
        taken_up = self._restored([part for part in leases if part not in kept])
        self.consumers |= taken_up
        self._held = dict(leases)
        for consumer in taken_up.values():
            self._watch(consumer, 0.0)
        published = [(consumer.entity, consumer.published()) for consumer in taken_up.values()]
        self._tell(News(published, self.position, taken_up=list(taken_up), partitions=frozenset(leases)))
        self._publish(published, at_once=True)
        for consumer in taken_up.values():
            self._write_due(consumer, consumer.guard())

    def _restored(self, partitions: Sequence[int]) -> dict[str, Consumer]:
        consumers: dict[str, Consumer] = {}
        for first in self.store.first_records() if partitions else ():
            entity = first.entity
            is_learned = entity.partition("/")[0] in LEARNED_KINDS and self._partition(entity) in partitions
            is_there = first.seq <= self.position and entity not in self.consumers
            if is_learned and is_there and not self._stopping.is_set():
                consumers[entity] = self._restore(entity, self.position, first)
        return consumers

    def _restore(self, entity: str, until: int, first: Record | None = None) -> Consumer:
        return restored_consumer(entity, self.store, until, self._find_catalogue, first, self._giving_up)

    def _turn(self) -> bool:
        """Learn the next part of the log; return whether there is more."""
        if not self._held:
            return False
        for entity in list(self._again):
            self._begin_again(entity)
        tail = self.store.tail(self.position, list(self._held))
        if tail.records:
            self.lag = max(tail.now - tail.records[-1].at, 0.0)
            self._active_at = time.monotonic()
            self._learn(tail.records, tail.until, tail.now)
            self._make_room()
        else:
            self.lag, self.position = 0.0, tail.until
            if self.publisher is not None:
                self._publish([])
        if not tail.more:
            self._close_windows(tail.now)
            self._keep()
        return tail.more

    def _learn(self, records: Sequence[Record], until: int, now: float) -> None:
        """Apply records, then serve and publish what has changed."""
        published = self._apply(records, now)
        self.position = until
        self._tell(News(published, until, partitions=frozenset(self._held)))
        self._publish(published)

    def _apply(self, records: Sequence[Record], now: float) -> list[tuple[str, PublishedState]]:
        """Apply records, each entity on a thread of its own; return what is to be published."""
        parts: dict[str, list[Record]] = {}
        for record in records:
            parts.setdefault(record.entity, []).append(record)
        work: list[tuple[Consumer, list[Record]]] = []
        for entity, part in parts.items():
            part = self._begun(entity, part)
            if entity in self.consumers:
                work.append((self.consumers[entity], part))
        applied = [_applied(work[0])] if len(work) == 1 else list(self._pool.map(_applied, work))
        for (consumer, _), (due, _) in zip(work, applied):
            if isinstance(due, list) and due:
                self._write_due(consumer, due)
            self._watch(consumer, now)
        errors = [due for due, _ in applied if isinstance(due, Unavailable)]
        if errors:
            broken = [consumer.entity for consumer, _ in work if consumer.is_broken]
            self._again.update(broken)  # what stands between two events is read again from its log
            self._tell(News([], 0, partitions=frozenset(self._held), failed=tuple(broken)))
            raise errors[0]
        return [(consumer.entity, published) for (consumer, _), (_, published) in zip(work, applied) if published]

    def _begun(self, entity: str, part: list[Record]) -> list[Record]:
        """Begin, end or read again an entity where its records say so; return those that are to be applied."""
        if any(isinstance(record.event, Deleted) for record in part):
            self._drop(entity)
            self._tell(News([], 0, given_up=[entity], partitions=frozenset(self._held)))
            last = max(position for position, record in enumerate(part) if isinstance(record.event, Deleted))
            after = part[last + 1 :]  # what another of its name begins with, if one does
            begins = (n for n, record in enumerate(after) if isinstance(record.event, Created | ExperimentCreated))
            part = after[next(begins, len(after)) :]
        if entity in self.consumers and any(isinstance(record.event, Amended) for record in part):
            self._drop(entity)
            self.consumers[entity] = self._restore(entity, part[-1].seq)
        if entity not in self.consumers and part and isinstance(part[0].event, Created | ExperimentCreated):
            try:
                rebuilt = rebuild(part[0], self._find_catalogue, store=self.store)
            except NotFound:  # a side of the comparison is gone
                return part
            self.consumers[entity] = Consumer(entity, self.store, rebuilt.projection, rebuilt.seq, self._giving_up)
            self._tell(News([], 0, taken_up=[entity], partitions=frozenset(self._held)))
        return part

    def _drop(self, entity: str) -> None:
        self.consumers.pop(entity, None)
        self._look_at.pop(entity, None)
        self._windows.pop(entity, None)

    def _watch(self, consumer: Consumer, now: float) -> None:
        """Look for its windows' ends while there is something open."""
        counters = consumer.projection.now.counters
        if counters.impressions > counters.closed and consumer.entity not in self._look_at:
            window = consumer.projection.now.window or consumer.projection.first_window
            self._look_at[consumer.entity] = now + min(LOOK_AGAIN_SECONDS, window / 4)

    def _close_windows(self, now: float) -> None:
        for entity, look_at in list(self._look_at.items()):
            consumer = self.consumers[entity]
            if now < look_at <= now + 2 * LOOK_AGAIN_SECONDS:  # else the clock was set back
                continue
            if entity not in self._windows:
                self._windows[entity] = Windows(self.store, entity, consumer.projection)
            windows = self._windows[entity]
            ends = [settled_entry(entity, name, settle_end) for name in windows.over(now, self.position)]
            windows.closing = self._write(ends) if ends else windows.closing
            counters = consumer.projection.now.counters
            if counters.impressions == counters.closed and not windows.closing:
                del self._look_at[entity], self._windows[entity]
            else:
                self._look_at[entity] = now if windows.closing else windows.not_before
            if not consumer.is_guarding:
                self._write_due(consumer, consumer.guard())

    def _write_due(self, consumer: Consumer, due: Sequence[Due]) -> list[Future[Any]]:
        return self._write([entry_of(consumer.entity, each.event, each.snapshot) for each in due])

    def _write(self, entries: Iterable[LogEntry]) -> list[Future[Any]]:
        """Write entries; each carries the number of the lease by which it is written."""
        futures = []
        for entry in entries:
            lease = self._held.get(self._partition(entry.entity))
            if lease is None:
                continue
            fence = (lease.partition, lease.fence) if self.store.shared else None
            future = self.log.submit(entry._replace(fence=fence))
            future.add_done_callback(lambda done, entity=entry.entity: self._wrote(done, entity))  # type: ignore[misc]
            futures.append(future)
        return futures

    def _wrote(self, done: Future[Any], entity: str) -> None:
        consumer = self.consumers.get(entity)
        if done.exception() is not None and consumer is not None:
            consumer.is_guarding = consumer.is_kept = False
        self.wake()

    def _keep(self) -> None:
        while self._keeping:
            entity, done = self._keeping.pop()
            consumer = self.consumers.get(entity)
            futures = [] if consumer is None or consumer.is_kept else self._write_due(consumer, [consumer.snapshot()])
            if not futures:
                done.set_result(None)
            for future in futures:
                future.add_done_callback(lambda _, done=done: done.set_result(None))  # type: ignore[misc]

    def _make_room(self) -> None:
        """Impressions that wait take only so much memory; the others are read again when they close."""
        projections = [each.projection for each in self.consumers.values() if each.projection.open_bytes]
        if sum(projection.open_bytes for projection in projections) > MAX_ALL_OPEN_BYTES:
            for projection in projections:
                projection.make_room(min(MAX_OPEN_BYTES, MAX_ALL_OPEN_BYTES // (2 * len(projections))))

    def _publish(self, published: list[tuple[str, PublishedState]], at_once: bool = False) -> None:
        if self.publisher is not None:
            self.publisher.publish(published, self.consumers, self._held, at_once)

    def _begin_again(self, entity: str) -> None:
        consumer = self.consumers[entity] = self._restore(entity, self.store.last())
        self._again.discard(entity)
        self._look_at.pop(entity, None)
        self._windows.pop(entity, None)
        self._watch(consumer, 0.0)
        self._tell(News([(entity, consumer.published())], 0, partitions=frozenset(self._held)))

    def _finish(self) -> None:
        """Look at the log for the last time, and keep a snapshot of what has changed."""
        try:
            more = bool(self._held)
            while more and self._leases_now() == self._held:
                tail = self.store.tail(self.position, list(self._held))
                self._learn(tail.records, tail.until, tail.now)
                more = tail.more and bool(tail.records)
            if self._leases_now() != self._held:
                return
            kept = [each for each in self.consumers.values() if not each.is_kept and not each.is_broken]
            for future in [self._write_due(consumer, [consumer.snapshot()]) for consumer in kept]:
                future[0].exception(timeout=30)
            self._publish([], at_once=True)
        except (RankloopError, TimeoutError) as error:
            logger.warning(f"not everything was kept at the end, and is learned again at the next start: {error}")
        finally:
            if self.publisher is not None:
                self.publisher.stop()
            self._tell(News([], self.position, given_up=list(self.consumers)))

    def _partition(self, entity: str) -> int:
        if entity not in self._partitions:
            self._partitions[entity] = partition_of(entity, self.store.partitions)
        return self._partitions[entity]


def _applied(work: tuple[Consumer, Sequence[Record]]) -> tuple[list[Due] | Unavailable, PublishedState | None]:
    """Apply records; return what is due, or why it could not be done, and what is known then."""
    consumer, records = work
    try:
        return consumer.apply(records) + consumer.overdue(), consumer.published()
    except Unavailable as error:
        return error, None


class Waiter(NamedTuple):
    """An answer that waits until an event is served."""

    entity: str  # any, where it is empty
    seq: int
    deadline: float
    future: asyncio.Future[None]


class Learning:
    """What the event loop knows of learning: its own worker, what is served by now, and who learns elsewhere."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.is_leader = False  # whether everything is learned in this process
        self.holders: dict[int, str] = {}  # who learns the partitions, when somebody last watched
        self.lag = 0.0  # seconds by which what is served was behind the log then
        self.started = asyncio.Event()  # set with the first news
        self._loop = asyncio.get_running_loop()
        self._served = 0  # everything up to this event is served, of what is learned here
        self._waiters: list[Waiter] = []
        partitions = node.settings.partitions_of(node.store.partitions)
        self.worker = LearnerWorker(node.store, node.log, partitions, node.directory.catalogue, self._tell)
        self.learns = self.worker.learns

    def served(self, entity: str, seq: int, patience: float = SERVED_SECONDS) -> Awaitable[None]:
        """Wait until an event is learned and served, where this process learns it."""
        waiter = Waiter(entity, seq, time.monotonic() + patience, self._loop.create_future())
        if self._served >= seq or not self._is_learned(entity):
            waiter.future.set_result(None)
        else:
            self._waiters.append(waiter)
            self.worker.wake()
        return waiter.future

    async def catch_up(self, name: str) -> None:
        """Know what is logged of this name up to now: what is learned here as it is, else as it was published."""
        node = self.node
        for entity in (ranker_entity(name), experiment_entity(name)):
            if self.learns(entity):
                if entity in node.directory.entities:
                    await self.served(entity, await asyncio.to_thread(node.store.last))
            elif node.store.shared:
                await node.directory.refresh(entity)

    async def catch_up_with_all(self) -> None:
        """Know the same of everything, for those who watch."""
        store, directory, leases = self.node.store, self.node.directory, self.worker.leases
        if leases.held:
            await self.served("", await asyncio.to_thread(store.last))
        if not isinstance(store, SharedStore):
            self.holders, self.lag = dict.fromkeys(leases.held, leases.holder), self.worker.lag
            return
        self.holders, self.lag = await asyncio.to_thread(lambda: (store.holders(), max(store.lag(), 0.0)))
        if not self.is_leader:
            for entity, (seq, projection) in (await asyncio.to_thread(store.published_projections)).items():
                if not self.learns(entity) and entity in directory.entities:
                    directory.entities[entity].recount(seq, projection)

    async def expire_waiters(self) -> None:
        """Let no answer wait for longer than it may, though the worker does."""
        while True:
            begun = time.monotonic()
            await asyncio.sleep(SWEEP_SECONDS)
            self.node.loop_lag = max(time.monotonic() - begun - SWEEP_SECONDS, 0.0)
            self.release_waiters(self._served)

    def release_waiters(self, until: int, failed: Sequence[str] = ()) -> None:
        """Let go on who waits for what is served by now; tell those who wait for what could not be learned."""
        waiters, self._waiters = self._waiters, []
        now = time.monotonic()
        for waiter in waiters:
            if waiter.future.done():
                continue
            if waiter.entity in failed:
                waiter.future.set_exception(Unavailable("the log cannot be read now; this is learned later"))
            elif waiter.seq > until and now < waiter.deadline and self._is_learned(waiter.entity):
                self._waiters.append(waiter)
            else:
                waiter.future.set_result(None)

    def _is_learned(self, entity: str) -> bool:
        """Whether this process learns an entity, or anything where none is named."""
        return self.learns(entity) if entity else bool(self.worker.leases.held)

    def _tell(self, news: News) -> None:
        """Hand on news from the worker's thread."""
        with suppress(RuntimeError):  # the loop is closed, so nobody serves any more
            self._loop.call_soon_threadsafe(self._take, news)

    def _take(self, news: News) -> None:
        """Serve what the worker has learned."""
        directory = self.node.directory
        for entity in news.given_up:
            directory.learn_elsewhere(entity)
        for entity, published in news.published:
            runtime = directory.entities.get(entity)
            if runtime is not None:
                runtime.publish(published, is_newer=not news.until)
            else:
                directory.early[entity] = published
        for entity in news.taken_up:
            directory.learn_here(entity)
            if entity not in directory.entities and self.node.ready:
                self.node.notice(entity)
        self.is_leader = len(news.partitions) == self.node.store.partitions
        self.started.set()
        self._served = max(self._served, news.until)
        if self._waiters:
            self.release_waiters(self._served, news.failed)

"""Learning: the worker that reads the log of its partitions and learns, and the event loop's side of it.

The worker has a `Consumer` for each ranker and experiment, an entity: what the entity has learned, fed by its log.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import dropwhile
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from rankloop.core.errors import NotFound, RankloopError
from rankloop.service.application.jobs.lease import LeaseKeeper
from rankloop.service.application.jobs.states_for_other_processes import Publisher
from rankloop.service.application.rebuild import MAX_OPEN_BYTES, restored_consumer
from rankloop.service.domain.feedback_acceptance import settle_end
from rankloop.service.domain.projection import Consumer, Due
from rankloop.service.domain.trainer import PublishedState
from rankloop.service.errors import Unavailable
from rankloop.service.log.writer import LogWriter, entry_of
from rankloop.service.records import Amended, Created, Deleted, ExperimentCreated, LogEntry, Record, partition_of
from rankloop.service.stores.base import Lease, Store, Tail, is_shared

if TYPE_CHECKING:
    from rankloop.service.application.node import Node

logger = logging.getLogger("rankloop.service")
MAX_LEARNER_THREADS = 4
BUSY_SECONDS, IDLE_SECONDS = 0.02, 0.1  # until the log is read again, unless a request waits
ACTIVE_SECONDS = 1.0  # since the last event, in which the log is read often
RETRY_SECONDS = 0.2  # while the log cannot be read
FINAL_SNAPSHOT_SECONDS = 30.0  # to write each snapshot when the service stops
MAX_ALL_OPEN_BYTES = 24_000_000  # of impressions that all consumers keep in memory
LEARNED_KINDS = ("ranker", "experiment")
SERVED_SECONDS = 2.0  # for which a response to feedback waits until the new state is served
WAITER_CHECK_SECONDS = 0.25  # between two looks for responses that have waited long enough
MAX_READ_AHEAD = 1_000  # impressions whose windows are looked at
MAX_CLOSED_AT_ONCE = 500  # windows
MAX_CHECK_SECONDS = 1.0  # between two looks for windows that have ended
CLOSE_RETRY_SECONDS = 1.0  # while the log cannot be written
CLOCK_SKEW_SECONDS = 10.0  # by which clocks may differ and learner workers may be late
NewStates = Sequence[tuple[str, PublishedState]]  # by entity


class FeedbackWindows:
    """The feedback windows of an entity with open impressions, read from the log a few at a time."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer, self.projection = consumer, consumer.projection
        self.not_before = 0.0  # by the clock of the store: the next look, at the end of a window, to retry or to poll
        self.closing: list[Future[Any]] = []  # ends that are being written
        self._read_ahead: deque[tuple[int, float, str]] = deque()
        self._read_until = self.projection.passed
        self._closing_until = 0
        self._measured = (0, 0.0, 0.0)  # the last event whose time was measured in the log, when, and its result

    @property
    def window(self) -> float:
        """The length of a window in seconds."""
        return self.projection.now.window or self.projection.first_window

    def look_again(self, now: float) -> None:
        """Set the time of the next look: after a part of the window."""
        self.not_before = now + min(MAX_CHECK_SECONDS, self.window / 4)

    def expired(self, now: float, until: int) -> list[str] | None:
        """Return open impressions up to an event whose window has ended; None where it is too early to look.

        `now` is by the clock of the store.
        """
        projection, consumer = self.projection, self.consumer
        if self.closing and self._is_closing(now):
            return None
        if now < self.not_before <= now + 2 * MAX_CHECK_SECONDS:  # else the clock was set back
            return None
        if not projection.now.n_open:
            projection.passed = until
            return []
        if not self._read_ahead:
            impressions = consumer.log.ranked_impressions(consumer.entity, self._read_until, until, MAX_READ_AHEAD)
            self._read_ahead.extend(impressions)
            self._read_until = self._read_ahead[-1][0] if self._read_ahead else self._read_until
            self.look_again(now)  # if there is no impression yet
        names: list[str] = []
        while self._read_ahead and len(names) < MAX_CLOSED_AT_ONCE:
            seq, at, name = self._read_ahead[0]
            left = self.window - self.elapsed(seq, at, now)
            if left > 0:
                self.not_before = now + min(left, MAX_CHECK_SECONDS)
                break
            names.append(name)
            self._closing_until = seq
            self._read_ahead.popleft()
        closed = consumer.log.closed_among(consumer.entity, names) if names else set()
        if names and closed.issuperset(names):
            projection.passed = self._closing_until
        return [name for name in names if name not in closed]

    def elapsed(self, seq: int, at: float, now: float) -> float:
        """Return the seconds of a window that have passed, without the time in which the service did not run.

        While an impression is open and the service runs, some event is logged within its window, at the latest that it
        closes. So every gap between events that is longer than the window is a time in which the service did not run,
        or its clock was set.
        """
        window, passed = self.window, now - at
        if -CLOCK_SKEW_SECONDS <= passed <= window + CLOCK_SKEW_SECONDS:
            return passed
        entity, log, clock = self.consumer.entity, self.consumer.log, time.monotonic()
        last_seq, last_clock, last = self._measured
        if 0 < last_seq <= seq:  # the log between the two is read, so that many that have waited are read once in all
            elapsed = last + clock - last_clock - float(log.elapsed_seconds(entity, last_seq, now, window, until=seq))
        else:
            elapsed = float(log.elapsed_seconds(entity, seq, now, window))
        self._measured = seq, clock, elapsed
        return elapsed

    def _is_closing(self, now: float) -> bool:
        """Return True while ends are being written, and for a while after the log could not be written."""
        if not all(future.done() for future in self.closing):
            return True
        failed = any(future.exception() is not None for future in self.closing)
        self.closing = []
        if failed:  # the windows stay open until the log can be written again
            self._read_ahead.clear()
            self._read_until = self.projection.passed
            self.not_before = now + CLOSE_RETRY_SECONDS
            return True
        self.projection.passed = self._closing_until
        return False


class LearnerReport(NamedTuple):
    """A message of the learner worker to the event loop of its process."""

    published: NewStates
    until: int  # everything up to this event is in the served states
    acquired: Sequence[str]  # entities that are learned here from now on
    released: Sequence[str]  # entities that are not learned here any more
    partitions: frozenset[int]  # that are learned here
    is_rebuilt: bool  # the states replace served ones that may be newer, after the log could not be read


class LearnerWorker:
    """Learns the partitions that it has leases for, on a thread, with a few more for rankers that learn in parallel.

    `receive` is called on that thread with every change.
    """

    def __init__(self, store: Store, log: LogWriter, receive: Callable[[LearnerReport], None]) -> None:
        self.store = store
        self.log = log
        self.consumers: dict[str, Consumer] = {}
        self.position = 0  # everything up to this event has been read
        self.lag = 0.0  # age in seconds of the last event when it was read
        self.leases = LeaseKeeper(store, self.wake)
        self.publisher = Publisher(store) if is_shared(store) else None
        self._active_at = 0.0
        self._windows: dict[str, FeedbackWindows] = {}  # of entities with open impressions
        self._learned_leases: dict[int, Lease] = {}  # leases whose consumers are up to date
        self._receive = receive
        self._wake = Flag()
        self._stopping = Flag()
        self._partitions: dict[str, int] = {}
        self._requested_snapshots: list[tuple[str, Future[None]]] = []
        self._pool = ThreadPoolExecutor(MAX_LEARNER_THREADS, thread_name_prefix="learn")
        self._thread = Thread(target=self._run, name="learn", daemon=True)

    def start(self) -> None:
        """Start to acquire leases and to learn."""
        self.leases.start()
        self._thread.start()

    def wake(self) -> None:
        """Read the log now."""
        self._wake.set()

    def learns(self, entity: str) -> bool:
        """Return whether this process learns an entity."""
        return self._partition(entity) in self._learned_leases

    def request_snapshot(self, entity: str) -> Future[None]:
        """Write a snapshot of an entity, unless the newest one is up to date; the future is done when it is written."""
        done: Future[None] = Future()
        self._requested_snapshots.append((entity, done))
        self.wake()
        return done

    def stop(self) -> None:
        """Learn the remaining events, write a snapshot of everything that has changed, and release the leases."""
        self._stopping.set()
        self.wake()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.shutdown(wait=True)
        self.leases.stop()

    # The methods below run on the worker's thread.

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._update_leases(self._current_leases())
                more = self._learn_next()
            except Exception as error:  # nothing may end the thread
                if not isinstance(error, Unavailable):
                    logger.error("learn", exc_info=error)
                self._stopping.wait(RETRY_SECONDS)
                continue
            if not more and not self._stopping.is_set():
                is_active = time.monotonic() - self._active_at < ACTIVE_SECONDS
                is_publishing = self.publisher is not None and bool(self.publisher.waiting)
                self._wake.wait(BUSY_SECONDS if is_active or is_publishing else IDLE_SECONDS)
            self._wake.clear()
        self._finish()

    def _current_leases(self) -> dict[int, Lease]:
        # The same as `leases.held`, written here since every step of a request goes through it.
        return self.leases.leases if time.monotonic() < self.leases.expires_at else {}

    def _update_leases(self, leases: dict[int, Lease]) -> None:
        """Drop the consumers of partitions that were lost, and rebuild those of new partitions."""
        if leases == self._learned_leases:
            return
        kept = {number for number, lease in leases.items() if self._learned_leases.get(number) == lease}
        released = [entity for entity in self.consumers if self._partition(entity) not in kept]
        for entity in released:
            self._drop(entity)
        self._learned_leases = {number: leases[number] for number in kept}
        if is_shared(self.store):
            logger.info(f"learning {len(leases)} of {self.store.partitions} partitions")
        if released:
            self._report([], released=released)
        if not self.consumers and not kept:
            self.position = self.store.last()
        acquired: dict[str, Consumer] = {}
        for first in self.store.first_records() if leases.keys() - kept else ():
            entity = first.entity
            is_learned = entity.partition("/")[0] in LEARNED_KINDS and self._partition(entity) in leases.keys() - kept
            is_missing = first.seq <= self.position and entity not in self.consumers
            if is_learned and is_missing and not self._stopping.is_set():
                acquired[entity] = restored_consumer(entity, self.store, self.position, first)
        self.consumers |= acquired
        self._learned_leases = dict(leases)
        for consumer in acquired.values():
            self._watch_windows(consumer, 0.0)
        published = [(consumer.entity, consumer.published()) for consumer in acquired.values()]
        self._report(published, acquired=list(acquired))
        self._publish(published, at_once=True)
        for consumer in acquired.values():
            self._write_due(consumer, consumer.rollback_if_worse())

    def _report(
        self, new: NewStates, acquired: Sequence[str] = (), released: Sequence[str] = (), is_rebuilt: bool = False
    ) -> None:
        partitions = frozenset(self._learned_leases)
        self._receive(LearnerReport(new, self.position, acquired, released, partitions, is_rebuilt))

    def _learn_next(self) -> bool:
        """Learn the next part of the log; return whether there is more."""
        if not self._learned_leases:
            return False
        for entity in [entity for entity, each in self.consumers.items() if each.is_broken]:
            consumer = restored_consumer(entity, self.store, self.store.last())
            self._drop(entity)
            self.consumers[entity] = consumer
            self._watch_windows(consumer, 0.0)
            self._report([(entity, consumer.published())], is_rebuilt=True)
        tail = self.store.tail(self.position, list(self._learned_leases))
        if tail.records:
            self.lag = max(tail.now - tail.records[-1].at, 0.0)
            self._active_at = time.monotonic()
            self._learn(tail)
            projections = [each.projection for each in self.consumers.values() if each.projection.open_bytes]
            if sum(projection.open_bytes for projection in projections) > MAX_ALL_OPEN_BYTES:
                for projection in projections:  # open impressions are read again when they close
                    projection.make_room(min(MAX_OPEN_BYTES, MAX_ALL_OPEN_BYTES // (2 * len(projections))))
        else:
            self.lag, self.position = 0.0, tail.until
            if self.publisher is not None:
                self._publish([])
        if not tail.more:
            self._close_windows(tail.now)
            self._write_requested_snapshots()
        return tail.more

    def _learn(self, tail: Tail) -> None:
        """Apply records, each entity on a thread of its own; then report and publish the states that have changed."""
        records_by_entity: dict[str, list[Record]] = {}
        for record in tail.records:
            records_by_entity.setdefault(record.entity, []).append(record)
        work: list[tuple[Consumer, list[Record]]] = []
        for entity, group in records_by_entity.items():
            remaining = self._apply_lifecycle(entity, group)
            if entity in self.consumers:
                work.append((self.consumers[entity], remaining))
        applied = [_apply_and_publish(work[0])] if len(work) == 1 else list(self._pool.map(_apply_and_publish, work))
        for (consumer, _), (due, _) in zip(work, applied):
            if isinstance(due, list) and due:
                self._write_due(consumer, due)
            self._watch_windows(consumer, tail.now)
        errors = [due for due, _ in applied if isinstance(due, Unavailable)]
        if errors:
            raise errors[0]
        states = [(consumer.entity, state) for (consumer, _), (_, state) in zip(work, applied) if state]
        self.position = tail.until
        self._report(states)
        self._publish(states)

    def _apply_lifecycle(self, entity: str, records: list[Record]) -> list[Record]:
        """Apply creation, deletion and amendment of an entity; return the records that its consumer has to apply."""
        deletions = [n for n, record in enumerate(records) if isinstance(record.event, Deleted)]
        if deletions:
            self._drop(entity)
            self._report([], released=[entity])
            later = records[deletions[-1] + 1 :]  # another of the same name may have been created
            records = list(dropwhile(lambda record: not isinstance(record.event, Created | ExperimentCreated), later))
        if entity in self.consumers and any(isinstance(record.event, Amended) for record in records):
            self._drop(entity)
            self.consumers[entity] = restored_consumer(entity, self.store, records[-1].seq)
        if entity not in self.consumers and records and isinstance(records[0].event, Created | ExperimentCreated):
            with suppress(NotFound):  # a ranker of the experiment was deleted
                self.consumers[entity] = restored_consumer(entity, self.store, records[0].seq, records[0])
                self._report([], acquired=[entity])
        return records

    def _drop(self, entity: str) -> None:
        self.consumers.pop(entity, None)
        self._windows.pop(entity, None)

    def _watch_windows(self, consumer: Consumer, now: float) -> None:
        """Look for windows that end while impressions are open."""
        counters = consumer.projection.now.counters
        if counters.impressions > counters.closed and consumer.entity not in self._windows:
            windows = self._windows[consumer.entity] = FeedbackWindows(consumer)
            windows.look_again(now)

    def _close_windows(self, now: float) -> None:
        for entity, windows in list(self._windows.items()):
            names = windows.expired(now, self.position)
            if names is None:
                continue
            ends = [LogEntry(entity, impression=name, settle=settle_end) for name in names]
            windows.closing = self._write(entity, ends)
            if not windows.projection.now.n_open and not windows.closing:
                del self._windows[entity]
            if not windows.consumer.is_guarding:
                self._write_due(windows.consumer, windows.consumer.rollback_if_worse())

    def _write_due(self, consumer: Consumer, due: Sequence[Due]) -> list[Future[Any]]:
        return self._write(consumer.entity, [entry_of(consumer.entity, each.event, each.snapshot) for each in due])

    def _write(self, entity: str, entries: Iterable[LogEntry]) -> list[Future[Any]]:
        """Write entries of an entity under the fence number of its lease."""
        lease = self._learned_leases.get(self._partition(entity))
        if lease is None:
            return []
        fence = (lease.partition, lease.fence) if self.store.shared else None
        futures = [self.log.submit(entry._replace(fence=fence)) for entry in entries]
        for future in futures:
            future.add_done_callback(partial(self._after_write, entity))
        return futures

    def _after_write(self, entity: str, done: Future[Any]) -> None:
        consumer = self.consumers.get(entity)
        if done.exception() is not None and consumer is not None:
            consumer.is_guarding = consumer.snapshot_is_current = False
        self.wake()

    def _write_requested_snapshots(self) -> None:
        while self._requested_snapshots:
            entity, done = self._requested_snapshots.pop()
            consumer = self.consumers.get(entity)
            futures: list[Future[Any]] = []
            if consumer is not None and not consumer.snapshot_is_current:
                futures = self._write_due(consumer, [consumer.snapshot()])
            if not futures:
                done.set_result(None)
            for future in futures:
                future.add_done_callback(lambda _, done=done: done.set_result(None))  # type: ignore[misc]

    def _publish(self, published: NewStates, at_once: bool = False) -> None:
        if self.publisher is not None:
            self.publisher.publish(published, self.consumers, self._learned_leases, at_once)

    def _finish(self) -> None:
        """Learn the remaining events and write a snapshot of everything that has changed."""
        try:
            more = bool(self._learned_leases)
            while more and self._current_leases() == self._learned_leases:
                tail = self.store.tail(self.position, list(self._learned_leases))
                self._learn(tail)
                more = tail.more and bool(tail.records)
            if self._current_leases() != self._learned_leases:
                return
            changed = [each for each in self.consumers.values() if not each.snapshot_is_current and not each.is_broken]
            for futures in [self._write_due(consumer, [consumer.snapshot()]) for consumer in changed]:
                futures[0].exception(timeout=FINAL_SNAPSHOT_SECONDS)
            self._publish([], at_once=True)
        except (RankloopError, TimeoutError) as error:
            logger.warning(f"some snapshots could not be written; the next start learns from older ones: {error}")
        finally:
            if self.publisher is not None:
                self.publisher.stop()
            self._learned_leases = {}
            self._report([], released=list(self.consumers))

    def _partition(self, entity: str) -> int:
        if entity not in self._partitions:
            self._partitions[entity] = partition_of(entity, self.store.partitions)
        return self._partitions[entity]


def _apply_and_publish(
    work: tuple[Consumer, Sequence[Record]],
) -> tuple[list[Due] | Unavailable, PublishedState | None]:
    """Apply records; return the events to write, or the error, and the new state."""
    consumer, records = work
    try:
        return consumer.apply(records) + consumer.overdue(), consumer.published()
    except Unavailable as error:
        return error, None


class Waiter(NamedTuple):
    """A response that waits until an event is in the served state."""

    entity: str  # empty: all
    seq: int
    deadline: float
    future: asyncio.Future[None]


class Learning:
    """The event loop's side of learning: serves new states, and lets responses wait for them."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.learns_all = False  # True while this process learns all partitions
        self.holders: dict[int, str] = {}  # of the partitions, when metrics were last read
        self.lag = 0.0  # seconds by which the served states were behind the log then
        self.started = asyncio.Event()  # set with the first report
        self._loop = asyncio.get_running_loop()
        self._served = 0  # everything up to this event is in the served states, of what is learned here
        self._waiters: list[Waiter] = []
        self._is_waking = False
        self.worker = LearnerWorker(node.store, node.log, self._receive)
        self.learns = self.worker.learns

    def wait_until_served(self, entity: str, seq: int, seconds: float = SERVED_SECONDS) -> Awaitable[None]:
        """Wait at most so long until an event is in the served state, if this process learns the entity, or any."""
        waiter = Waiter(entity, seq, time.monotonic() + seconds, self._loop.create_future())
        if self._served >= seq or not self._is_learned(entity):
            waiter.future.set_result(None)
        else:
            self._waiters.append(waiter)
            if not self._is_waking:  # once for all responses of a transaction, which wait in the same turn of the loop
                self._is_waking = True
                self._loop.call_soon(self._wake_worker)
        return waiter.future

    def _wake_worker(self) -> None:
        self._is_waking = False
        self.worker.wake()

    async def catch_up(self, name: str) -> None:
        """Serve the newest state of a ranker or experiment: what is learned here as it is, else as it was published."""
        node = self.node
        for entity in (f"ranker/{name}", f"experiment/{name}"):
            if self.learns(entity):
                if entity in node.directory.entities:
                    await self.wait_until_served(entity, await asyncio.to_thread(node.store.last))
            elif node.store.shared:
                await node.directory.refresh(entity)

    async def catch_up_with_all(self) -> None:
        """Serve the newest states and counts of what is learned here, for metrics and the event stream."""
        store, leases = self.node.store, self.worker.leases
        if leases.held:
            await self.wait_until_served("", await asyncio.to_thread(store.last))
        if is_shared(store):
            self.holders, self.lag = await asyncio.to_thread(lambda: (store.holders(), max(store.lag(), 0.0)))
        else:
            self.holders, self.lag = dict.fromkeys(leases.held, leases.holder), self.worker.lag

    async def expire_waiters_and_measure_lag(self) -> None:
        """End the waiting of responses whose deadline has passed, and measure by how much the event loop is late."""
        while True:
            start_time = time.monotonic()
            await asyncio.sleep(WAITER_CHECK_SECONDS)
            self.node.loop_lag = max(time.monotonic() - start_time - WAITER_CHECK_SECONDS, 0.0)
            self.release_waiters(self._served)

    def release_waiters(self, until: int) -> None:
        """End the waiting for events up to this one, which are served by now."""
        waiters, self._waiters = self._waiters, []
        now = time.monotonic()
        for waiter in waiters:
            if waiter.seq > until and now < waiter.deadline and self._is_learned(waiter.entity):
                self._waiters.append(waiter)
            elif not waiter.future.done():
                waiter.future.set_result(None)

    def _is_learned(self, entity: str) -> bool:
        """Return whether this process learns an entity, or anything if none is named."""
        return self.learns(entity) if entity else bool(self.worker.leases.held)

    def _receive(self, report: LearnerReport) -> None:
        """Pass a report from the worker's thread to the event loop."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._serve, report)

    def _serve(self, report: LearnerReport) -> None:
        """Swap in the states that the worker has learned."""
        directory = self.node.directory
        for entity in report.released:
            directory.set_learned(entity, False)
        for entity, state in report.published:
            runtime = directory.entities.get(entity)
            if runtime is not None:
                runtime.swap_in(state, replaces_any=report.is_rebuilt)
            else:
                directory.early[entity] = state
        for entity in report.acquired:
            directory.set_learned(entity, True)
            if entity not in directory.entities and self.node.ready:
                self.node.notice(entity)
        self.learns_all = len(report.partitions) == self.node.store.partitions
        self.started.set()
        self._served = max(self._served, report.until)
        if self._waiters:
            self.release_waiters(self._served)

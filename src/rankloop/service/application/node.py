"""A node: one process that serves a log, with its operations as four objects; `LocalService` runs one on a thread."""

import asyncio
import logging
import secrets
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

from rankloop.core.errors import InvalidInput
from rankloop.service.application.administration import Administration
from rankloop.service.application.directory import Directory
from rankloop.service.application.feedback import FeedbackIntake
from rankloop.service.application.learner_worker import Learning
from rankloop.service.application.reports import Reports
from rankloop.service.application.served_ranker import Ranking
from rankloop.service.domain.drift_alarm import DriftAlarms
from rankloop.service.domain.feedback_acceptance import impression_of
from rankloop.service.errors import Unavailable
from rankloop.service.log.writer import LogWriter
from rankloop.service.settings import Settings
from rankloop.service.stores.base import ANY_ENTITY, Store, is_shared
from rankloop.service.stores.open import open_store

T = TypeVar("T")
logger = logging.getLogger("rankloop.service")
IMPRESSION_COPIES = 4  # of an impression in memory on its way to the log, nearly
OLD_EVENTS_SECONDS = 600.0  # between two looks for events that are old enough to be deleted
DAY_SECONDS = 86400.0
DRIFT_CHECK_SECONDS = 1.0  # between two looks at the click rates
MAX_RANKERS_AT_ONCE = 200  # that are looked at without a pause, in which requests are served


class Node:
    """A process that serves; `open` it on a running event loop.

    It holds configurations and the newest published states, and nothing else of what other processes log.
    """

    log: LogWriter
    directory: Directory
    learning: Learning

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.slot = secrets.token_hex(4) if store.shared else "0"  # the name of this process in metrics
        self.ready = False
        self.loop_lag = 0.0  # seconds by which the event loop was late last
        self.ranking = Ranking(self)
        self.feedback = FeedbackIntake(self)
        self.administration = Administration(self)
        self.reports = Reports(self)
        self._jobs: list[asyncio.Task[None]] = []
        self._spawned: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Read the log, and start to serve and to learn."""
        loop, store = asyncio.get_running_loop(), self.store
        self.log = LogWriter(store, impression_of, self.settings.max_open_bytes // IMPRESSION_COPIES)
        self.directory = Directory(store, lambda entity: self.learning.learns(entity), self.spawn)
        self.learning = Learning(self)
        await asyncio.to_thread(self.directory.load)
        if self.settings.learns:
            self.learning.worker.start()
            if not store.shared:
                await self.learning.started.wait()
        jobs = [self._watch_drift(), self.learning.expire_waiters_and_measure_lag()]
        if is_shared(store):

            def notify(entity: str) -> None:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self.notice, entity)

            store.subscribe(notify)
            jobs.append(self.directory.refresh_regularly())
        if self.settings.max_log_days is not None:
            jobs.append(self._delete_regularly(self.settings.max_log_days))
        self._jobs = [asyncio.create_task(job) for job in jobs]
        self.ready = True
        self.spawn(self.administration.finish_deletions())

    async def close(self) -> None:
        """Finish running requests, write a snapshot of every ranker, and stop."""
        self.ready = False
        await _cancel([*self._jobs, *self._spawned])
        await asyncio.to_thread(self.learning.worker.stop)
        await self.log.stop()
        self.learning.release_waiters(2**63)
        await asyncio.to_thread(self.store.close)
        await _cancel([*self._spawned])  # those that a late notification has started

    async def delete_events_before(self, end_time: float) -> int:
        """Delete events of closed impressions, of all entities that are learned here; return their number."""
        n_deleted = 0
        for entity in list(self.directory.entities):
            if self.learning.learns(entity):
                if entity.startswith("experiment/"):  # what a snapshot does not have is needed for a restart
                    await asyncio.wrap_future(self.learning.worker.request_snapshot(entity))
                n_deleted += await self.administration.drop_old_events(entity, end_time)
        return n_deleted

    async def _delete_regularly(self, days: float) -> None:
        while True:
            try:
                await self.delete_events_before(time.time() - days * DAY_SECONDS)
            except (Unavailable, OSError) as error:
                logger.warning(f"old events could not be deleted, which is tried again: {error}")
            await asyncio.sleep(OLD_EVENTS_SECONDS)

    async def _watch_drift(self) -> None:
        alarms = DriftAlarms()
        while True:
            for number, ranker in enumerate(list(self.directory.rankers.values()), 1):
                alarms.watch(ranker.name, ranker.projection.counters)
                if number % MAX_RANKERS_AT_ONCE == 0:
                    await asyncio.sleep(0)
            await asyncio.sleep(DRIFT_CHECK_SECONDS)

    def notice(self, entity: str) -> None:
        """Look for changes of an entity, or of all after `ANY_ENTITY`."""
        if self.ready or entity != ANY_ENTITY:
            self.directory.notice(entity)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start work that no request waits for; it is cancelled when the node closes."""
        task = asyncio.create_task(work)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class LocalService:
    """A node for synchronous code: its event loop runs on a thread."""

    def __init__(self, settings: Settings) -> None:
        store = open_store(settings)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="service", daemon=True)
        self._thread.start()
        self.node = Node(store, settings)
        try:
            self.call(self.node.open())
        except BaseException:
            store.close()
            self._stop()
            raise

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the node and return its result."""
        if self._loop.is_closed():
            work.close()
            raise InvalidInput("this service is closed; open it again to go on from its log")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Write a snapshot of every ranker and stop; a second call does nothing."""
        if self._loop.is_closed():
            return
        self.call(self.node.close())
        self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

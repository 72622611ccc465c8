"""Several workers on one log: who is the leader and learns, and how the others receive its states."""

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from rankloop.core.saved_session import dumps, loads
from rankloop.core.session import Session
from rankloop.service.errors import Unavailable
from rankloop.service.log.events import Entry
from rankloop.service.log.recovery import restored_runtime
from rankloop.service.log.stores.base import LOG, MISSED, Publication, SharedStore
from rankloop.service.ranker.runtime import RankerRuntime
from rankloop.service.ranker.trainer import PublishedState

if TYPE_CHECKING:
    from rankloop.service.service import Service

LEASE_EVERY = 0.5  # seconds
PUBLISH_EVERY = 0.05
PAUSE = 4.0  # times as long as it took to publish a state, before it is published again: large ones come less often


class LeaderElection:
    """Takes the lease when it is free, publishes states while it is held, and follows those of others otherwise."""

    def __init__(self, service: "Service", store: SharedStore) -> None:
        self.service = service
        self.store = store
        self._not_before: dict[str, float] = {}
        self._published: dict[str, int] = {}  # by the last event, not by state: a step that is refused counts too

    async def run(self) -> None:
        loop = asyncio.get_running_loop()

        def tell(news: str) -> None:
            loop.call_soon_threadsafe(self._on_news, news)

        self.store.listen(tell)
        follow_up = LEASE_EVERY
        while True:
            follow_up += PUBLISH_EVERY
            if follow_up >= LEASE_EVERY:
                follow_up = 0.0
                await self._keep_lease()
            if self.service.is_leader:
                for runtime in list(self.service.rankers.values()):
                    await self._publish(runtime)
            await asyncio.sleep(PUBLISH_EVERY)

    def _on_news(self, news: str) -> None:
        rankers = self.service.rankers
        if news in (LOG, MISSED):
            self.service.log.poll()
        if news != LOG and not self.service.is_leader:
            named = rankers.values() if news == MISSED else filter(None, [rankers.get(news.partition("/")[2])])
            for runtime in named:
                self.service.spawn(self._load_published(runtime))

    async def _keep_lease(self) -> None:
        is_leader = await asyncio.to_thread(self.store.lead)
        if is_leader and not self.service.is_leader:
            await self._lead()
        elif not is_leader and self.service.is_leader:
            self._follow_leader()

    async def _lead(self) -> None:
        """Apply the log up to now once more, learning this time; steps that come meanwhile wait for it."""
        try:
            await self.service.log.append(None)
            self.service.is_leader = True
            until, taken = self.service.log.last, list(self.service.rankers.values())
            for runtime in taken:
                runtime.trains = runtime.catching_up = True
            for runtime in taken:
                await runtime.drained()
                due: asyncio.Queue[Entry] = asyncio.Queue()  # what it finds due was written by the learner before
                how = runtime.entity, self.store, due, until, runtime.slot, self.service.catalogues
                fresh = await asyncio.to_thread(restored_runtime, *how)
                runtime.lead(fresh.trainer)
                fresh.stop()
        except Unavailable:
            self._follow_leader()  # the lease is tried again at the next turn

    def _follow_leader(self) -> None:
        self.service.is_leader = False
        for runtime in self.service.rankers.values():
            runtime.follow()

    async def _publish(self, runtime: RankerRuntime) -> None:
        published = runtime.published
        if runtime.catching_up or self._published.get(runtime.entity) == published.seq:
            return
        begun = time.monotonic()
        if begun < self._not_before.get(runtime.entity, 0.0):
            return
        with suppress(Unavailable):
            session = await asyncio.to_thread(_session, runtime, published)
            publication = Publication(runtime.entity, published.number, published.seq, published.rejected, session)
            await asyncio.to_thread(self.store.publish, publication)
            self._published[runtime.entity] = published.seq
        now = time.monotonic()
        self._not_before[runtime.entity] = now + PAUSE * (now - begun)

    async def _load_published(self, runtime: RankerRuntime) -> None:
        with suppress(Unavailable):
            found = await asyncio.to_thread(self.store.publication, runtime.entity)
            if found is None or self.service.is_leader or found.seq <= runtime.published.seq:
                return
            session = await asyncio.to_thread(loads, found.session)
            newer = PublishedState(
                found.number, session.state, session.learned, session.refused, found.rejected, found.seq
            )
            if found.seq > runtime.published.seq:
                runtime.publish(newer)


def _session(runtime: RankerRuntime, published: PublishedState) -> bytes:
    """The published state as a saved session."""
    session = Session(runtime.config.learner, runtime.config.problem, runtime.config.body.seed)
    _, generator, _, _ = session.snapshot()
    session.restore(published.state, generator, published.learned, published.refused)
    return dumps(session)

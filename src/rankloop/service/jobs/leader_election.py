"""Several workers on one log: who learns, and how the others hear of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from rankloop.core.saved_session import dumps, loads
from rankloop.core.session import Session
from rankloop.service.errors import Unavailable
from rankloop.service.log.events import Entry
from rankloop.service.log.recovery import restored
from rankloop.service.log.stores.base import LOG, MISSED, Publication, SharedStore
from rankloop.service.ranker.runtime import Live
from rankloop.service.ranker.trainer import Published

if TYPE_CHECKING:
    from rankloop.service.service import Service

LEASE_EVERY = 0.5  # seconds
PUBLISH_EVERY = 0.05


class Sharing:
    """Takes the lease when it is free, publishes states while it is held, and follows those of others otherwise."""

    def __init__(self, service: Service, store: SharedStore) -> None:
        self.service = service
        self.store = store
        self._published: dict[str, int] = {}  # by the last event, not by state: a step that is refused counts too

    async def work(self) -> None:
        loop = asyncio.get_running_loop()

        def tell(news: str) -> None:
            loop.call_soon_threadsafe(self._heard, news)

        self.store.listen(tell)
        follow_up = LEASE_EVERY
        while True:
            follow_up += PUBLISH_EVERY
            if follow_up >= LEASE_EVERY:
                follow_up = 0.0
                await self._keep_lease()
            if self.service.leads:
                for live in list(self.service.rankers.values()):
                    await self._publish(live)
            await asyncio.sleep(PUBLISH_EVERY)

    def _heard(self, news: str) -> None:
        rankers = self.service.rankers
        if news in (LOG, MISSED):
            self.service.log.look()
        if news != LOG and not self.service.leads:
            named = rankers.values() if news == MISSED else filter(None, [rankers.get(news.partition("/")[2])])
            for live in named:
                self.service.spawn(self._follow(live))

    async def _keep_lease(self) -> None:
        leads = await asyncio.to_thread(self.store.lead)
        if leads and not self.service.leads:
            await self._take_over()
        elif not leads and self.service.leads:
            self._step_down()

    async def _take_over(self) -> None:
        """Fold the log up to now once more, learning this time; steps that come meanwhile wait for it."""
        try:
            await self.service.log.append(None)
            self.service.leads = True
            until, taken = self.service.log.last, list(self.service.rankers.values())
            for live in taken:
                live.learns = live.waits = True
            for live in taken:
                await live.drained()
                due: asyncio.Queue[Entry] = asyncio.Queue()  # what it finds due was written by the learner before
                fresh = await asyncio.to_thread(restored, live.stream, self.store, due, until, live.slot)
                live.take_over(fresh.learning)
                fresh.stop()
        except Unavailable:
            self._step_down()  # the lease is tried again at the next look

    def _step_down(self) -> None:
        self.service.leads = False
        for live in self.service.rankers.values():
            live.step_down()

    async def _publish(self, live: Live) -> None:
        published = live.published
        if live.waits or self._published.get(live.stream) == published.seq:
            return
        with suppress(Unavailable):
            session = await asyncio.to_thread(_session, live, published)
            publication = Publication(live.stream, published.number, published.seq, published.unfit, session)
            await asyncio.to_thread(self.store.publish, publication)
            self._published[live.stream] = published.seq

    async def _follow(self, live: Live) -> None:
        with suppress(Unavailable):
            found = await asyncio.to_thread(self.store.publication, live.stream)
            if found is None or self.service.leads or found.seq <= live.published.seq:
                return
            session = await asyncio.to_thread(loads, found.session)
            newer = Published(found.number, session.state, session.learned, session.refused, found.unfit, found.seq)
            if found.seq > live.published.seq:
                live.publish(newer)


def _session(live: Live, published: Published) -> bytes:
    """The published state as a saved session."""
    session = Session(live.plan.learner, live.plan.problem, live.plan.body.seed)
    _, generator, _, _ = session.snapshot()
    session.restore(published.state, generator, published.learned, published.refused)
    return dumps(session)

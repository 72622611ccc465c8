"""What a service does without being asked: closes windows, keeps snapshots, guards against a ranker that harms."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from rankloop.service.errors import Unavailable
from rankloop.service.events import Closed, Frozen, RolledBack
from rankloop.service.guard import is_lost
from rankloop.service.live import Live
from rankloop.service.view import View

if TYPE_CHECKING:
    from rankloop.service.service import Service

CLOSE_EVERY = 0.05  # seconds between looks at the windows
CLOSE_AT_ONCE = 500
RETRY = 1.0  # seconds, while the log cannot be written
LOST = "the comparison with the base was lost with significance"


async def close_windows(service: Service) -> None:
    """Log the end of every window, as soon as it is over; the process that leads does it for all."""
    while True:
        await asyncio.sleep(CLOSE_EVERY)
        if not service.leads:
            continue
        views = [(live.stream, live.view) for live in service.rankers.values()]
        views += [(live.stream, live.view) for live in service.experiments.values()]
        for stream, view in views:
            closing = [service.append(stream, Closed(name)) for name in expired(view)]
            results = await asyncio.gather(*closing, return_exceptions=True)
            if any(isinstance(result, Unavailable) for result in results):
                await asyncio.sleep(RETRY)  # the windows stay open until the log can be written again


async def keep_snapshots(service: Service) -> None:
    """Write snapshots to the log as they come from the learners."""
    while True:
        entry = await service.due.get()
        with suppress(Unavailable):  # the state is in the log anyway, and the next snapshot will come
            await service.log.append(entry)


async def last_snapshot(service: Service, live: Live) -> None:
    """The snapshot at the end, when nothing more comes."""
    while not service.due.empty():
        with suppress(Unavailable):
            await service.log.append(service.due.get_nowait())
    await live.drained()
    live.learning.seq = service.log.last  # everything up to here is folded and learned, at this very moment
    entry = live.snapshot(live.view.saved(), live.view.oldest_open(service.log.last))
    with suppress(Unavailable):
        await service.log.append(entry)


def guard(service: Service, live: Live) -> None:
    """Freeze and go back where the comparison with the base is lost; both are events, so a replay does not judge."""
    if service.leads and live.plan.body.guard and not live.view.frozen and is_lost(live.view.tally.comparison):
        service.spawn(_protect(service, live, live.view.good))


async def _protect(service: Service, live: Live, good: int) -> None:
    await _surely(service, live.stream, Frozen(LOST))
    await _surely(service, live.stream, RolledBack(good, LOST))


async def _surely(service: Service, stream: str, event: Frozen | RolledBack) -> None:
    while True:
        try:
            await service.append(stream, event)
            return
        except Unavailable:
            await asyncio.sleep(RETRY)


def expired(view: View) -> list[str]:
    """Impressions whose window is over; they are kept in the order in which their windows end."""
    now = time.monotonic()
    names: list[str] = []
    for name, impression in view.open.items():
        if impression.deadline > now or len(names) >= CLOSE_AT_ONCE:
            break
        names.append(name)
    return names

"""What a service does without being asked: closes windows, keeps snapshots, guards against a ranker that harms."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from rankloop.interleaving import Comparison
from rankloop.service.errors import Unavailable
from rankloop.service.log.events import Closed, RolledBack
from rankloop.service.log.projection import View
from rankloop.service.ranker.runtime import Live

if TYPE_CHECKING:
    from rankloop.service.service import Service


LEVEL = 0.05  # the chance, over all looks, that a ranker as good as its base is stopped
FIRST_LOOK = 16  # decided comparisons; every later look comes at twice as many


def is_lost(comparison: Comparison) -> bool:
    """Losses outweigh wins by more than chance explains.

    Looks at 16, 32, 64, … decided comparisons; the k-th look tests at LEVEL / (k · (k + 1)), which sums to LEVEL.
    """
    decided = comparison.wins + comparison.losses
    look = math.log2(decided / FIRST_LOOK) + 1 if decided >= FIRST_LOOK else 0.0
    if look < 1 or look != int(look) or comparison.losses <= comparison.wins:
        return False
    return comparison.p_value < LEVEL / (look * (look + 1))


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
        for live in service.rankers.values():
            guard(service, live)  # it may have been about to speak when the process that led before came to its end
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
    """Freeze and go back where the comparison with the base is lost; that is an event, so a replay does not judge."""
    silent = not service.leads or not live.plan.body.guard or live.view.frozen or live.guarding
    if not silent and is_lost(live.view.tally.comparison):
        live.guarding = True
        service.spawn(_protect(service, live, live.view.good))


async def _protect(service: Service, live: Live, good: int) -> None:
    """One event for both: a crash leaves either all of it or nothing."""
    try:
        while not await _said(service, live.stream, RolledBack(good, LOST, freezes=True)):
            await asyncio.sleep(RETRY)
    finally:
        live.guarding = False


async def _said(service: Service, stream: str, event: RolledBack) -> bool:
    try:
        await service.append(stream, event)
    except Unavailable:
        return False
    return True


def expired(view: View) -> list[str]:
    """Impressions whose window is over; they are kept in the order in which their windows end."""
    now = time.monotonic()
    names: list[str] = []
    for name, impression in view.open.items():
        if impression.deadline > now or len(names) >= CLOSE_AT_ONCE:
            break
        names.append(name)
    return names

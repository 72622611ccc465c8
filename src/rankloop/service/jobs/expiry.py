"""The end of feedback windows: logged as soon as a window is over, by the leader."""

import asyncio
import time
from typing import TYPE_CHECKING

from rankloop.service.errors import Unavailable
from rankloop.service.jobs.rollback_guard import guard
from rankloop.service.log.events import Closed
from rankloop.service.log.projection import Projection

if TYPE_CHECKING:
    from rankloop.service.service import Service

CHECK_EVERY = 0.05  # seconds
MAX_BATCH = 500
RETRY = 1.0  # seconds, while the log cannot be written


async def close_windows(service: "Service") -> None:
    """Log the end of every window, as soon as it is over; the leader does it for all."""
    while True:
        await asyncio.sleep(CHECK_EVERY)
        if not service.is_leader:
            continue
        for runtime in service.rankers.values():
            if runtime.body.guard:
                guard(service, runtime)  # it may have been about to speak when the leader before came to its end
        projections = {each.entity: each.projection for each in service.rankers.values()}
        projections |= {each.entity: each.projection for each in service.comparisons.values()}
        for entity, projection in projections.items():
            closing = [service.append(entity, Closed(name)) for name in expired(projection)]
            results = await asyncio.gather(*closing, return_exceptions=True)
            if any(isinstance(result, Unavailable) for result in results):
                await asyncio.sleep(RETRY)  # the windows stay open until the log can be written again


def expired(projection: Projection) -> list[str]:
    """Impressions whose window is over; they are kept in the order in which their windows end."""
    now = time.monotonic()
    names: list[str] = []
    for name, impression in projection.open.items():
        if impression.deadline > now or len(names) >= MAX_BATCH:
            break
        names.append(name)
    return names

"""Snapshots on their way to the log: as they come from the learners, and one of every ranker at the end."""

from contextlib import suppress
from typing import TYPE_CHECKING

from rankloop.service.errors import Unavailable
from rankloop.service.ranker.runtime import RankerRuntime

if TYPE_CHECKING:
    from rankloop.service.service import Service


async def write_snapshots(service: "Service") -> None:
    """Write snapshots to the log as they come from the learners."""
    while True:
        entry = await service.due.get()
        if service.is_held(entry.entity):
            continue  # the past changes, and this state with it
        with suppress(Unavailable):  # the state is in the log anyway, and the next snapshot will come
            await service.log.append(entry)


async def write_last_snapshot(service: "Service", runtime: RankerRuntime) -> None:
    """The snapshot at the end, when nothing more comes."""
    while not service.due.empty():
        with suppress(Unavailable):
            await service.log.append(service.due.get_nowait())
    await runtime.drained()
    runtime.trainer.seq = service.log.last  # everything up to here is applied and learned, at this very moment
    projection = runtime.projection
    with suppress(Unavailable):
        await service.log.append(runtime.snapshot(projection.saved(), projection.oldest_open(service.log.last)))

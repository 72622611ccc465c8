"""Retention: old events move from the database to the archive, from where exports and replays still read them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from rankloop.service.errors import Unavailable
from rankloop.service.log.archive import keep
from rankloop.service.log.events import Record, Snapshot, Snapshotted, entry_of
from rankloop.service.log.stores.base import Store
from rankloop.service.ranker.comparison import LiveExperiment

if TYPE_CHECKING:
    from rankloop.service.service import Service

LOOK_EVERY = 600.0  # seconds
AT_ONCE = 2_000  # events in one file, and in one deletion, which holds up the writer
DAY = 86400.0
logger = logging.getLogger("rankloop.service")


async def keep_short(service: Service, days: float) -> None:
    """Look now and then for events that are old enough to move; what could not be moved is tried again."""
    while True:
        try:
            if service.leads:
                await move_old(service, time.time() - days * DAY)
        except (Unavailable, OSError) as error:
            logger.warning(f"old events could not be moved: {error}")
        await asyncio.sleep(LOOK_EVERY)


async def move_old(service: Service, before: float) -> int:
    """Move what is older than `before`; how many events were moved."""
    streams = [live.stream for live in service.rankers.values()]
    for live in list(service.experiments.values()):
        await keep_counts(service, live)
        streams.append(live.stream)
    moved = 0
    for stream in streams:
        moved += await asyncio.to_thread(compact, service.store, stream, service.settings.data, before)
    return moved


async def keep_counts(service: Service, live: LiveExperiment) -> None:
    """A snapshot of an experiment: nothing is learned there, so it is what was counted."""
    last, number = service.log.last, live.view.tally.closed
    kept = Snapshot(live.stream, number, last, b"", live.view.saved(), 0, live.view.oldest_open(last))
    known = await asyncio.to_thread(service.store.snapshot, live.stream)
    if number and (known is None or known.number != number):
        await service.log.append(entry_of(live.stream, Snapshotted(number, last, ""), kept))


def compact(store: Store, stream: str, data: Path, before: float) -> int:
    """Move what is older than `before` and no longer needed for a restart; how many events were moved.

    The file is durable before anything is deleted, so a crash in between leaves events in both places, never in none.
    """
    snapshot, moved = store.snapshot(stream), 0
    if snapshot is None:
        return 0
    until = min(snapshot.oldest_open - 1, snapshot.state_seq)
    first = next(store.read(stream)).seq  # the creation stays
    while batch := _old(store.read(stream, first, until), before):
        keep(data, stream, batch)
        store.forget(stream, first, batch[-1].seq)
        moved += len(batch)
    return moved


def _old(records: Iterator[Record], before: float) -> list[Record]:
    """Up to the first that is not old: a clock that jumped back must not let events go that were not kept."""
    return list(takewhile(lambda record: record.at < before, islice(records, AT_ONCE)))

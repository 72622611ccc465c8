"""Retention: old events move from the database to the archive, from where exports and replays still read them."""

import asyncio
import logging
import time
from collections.abc import Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from rankloop.service.errors import Unavailable
from rankloop.service.log.archive import keep, tidy
from rankloop.service.records import Record
from rankloop.service.stores.base import Store

if TYPE_CHECKING:
    from rankloop.service.application.node import Node

LOOK_SECONDS = 600.0  # seconds
MAX_AT_ONCE = 2_000  # events in one file, and in one deletion, which holds up the writer
DAY_SECONDS = 86400.0
logger = logging.getLogger("rankloop.service")


async def move_old_events(node: "Node", days: float) -> None:
    """Look now and then for events that are old enough to move; what could not be moved is tried again."""
    while True:
        try:
            await move_old(node, time.time() - days * DAY_SECONDS)
        except (Unavailable, OSError) as error:
            logger.warning(f"old events could not be moved: {error}")
        await asyncio.sleep(LOOK_SECONDS)


async def move_old(node: "Node", before: float) -> int:
    """Move what is older than `before`, of all that is learned here; how many events were moved."""
    moved = 0
    for entity in list(node.directory.entities):
        if not node.learning.learns(entity):
            continue
        if entity.startswith("experiment/"):
            await asyncio.wrap_future(node.learning.worker.keep(entity))
        moved += await asyncio.to_thread(compact, node.store, entity, node.settings.data, before)
    return moved


def compact(store: Store, entity: str, data: Path, before: float) -> int:
    """Move what is older than `before` and no longer needed for a restart; how many events were moved.

    The file is durable before anything is deleted, so a crash in between leaves events in both places, never in none.
    """
    tidy(store, entity, data)
    snapshot, moved = store.snapshot(entity), 0
    if snapshot is None:
        return 0
    until = min(snapshot.oldest_open - 1, snapshot.state_seq)
    first = store.changes(entity)[0].seq  # the creation stays
    while batch := _old(store.read(entity, first, until), before):
        store.forget(entity, first, batch[-1].seq, keep(data, entity, batch))
        moved += len(batch)
    return moved


def _old(records: Iterator[Record], before: float) -> list[Record]:
    """Up to the first that is not old: a clock that jumped back must not let events go that were not kept."""
    return list(takewhile(lambda record: record.at < before, islice(records, MAX_AT_ONCE)))

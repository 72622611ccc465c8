"""What has to be true of a log after any crash."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from tests.service.cases import Place

from rankloop.service.log.events import Fed, Ranked
from rankloop.service.log.replay import replayed
from rankloop.service.log.stores.open import open_store
from rankloop.service.ranker.trainer import digest
from rankloop.service.service import Service
from rankloop.service.settings import Settings


def check_survived(position: Place, acknowledged: Iterable[tuple[str, str]]) -> int:
    """Every acknowledged event is there, and a restart has the state of an uninterrupted run; how many were learned."""
    records = position.records()
    ranked = {record.event.impression for record in records if isinstance(record.event, Ranked)}
    fed = {record.event.impression for record in records if isinstance(record.event, Fed)}
    told = list(acknowledged)
    assert {name for what, name in told if what == "ranked"} <= ranked
    assert {name for what, name in told if what == "fed"} <= fed
    assert len(fed) == sum(isinstance(record.event, Fed) for record in records)  # nothing is there twice
    results = replayed(records)
    for result in results:
        assert result.differing == ()
        assert result.learned == len(fed)
    with ThreadPoolExecutor(max_workers=1) as thread:  # a browser test in this process may hold its own event loop
        digests = thread.submit(asyncio.run, _restarted(position)).result()
    assert digests == {result.stream: (result.state, result.digest) for result in results}
    return len(fed)


async def _restarted(position: Place) -> dict[str, tuple[int, str]]:
    settings = Settings(data=position.data, store=position.store)
    service = Service(open_store(settings), settings)
    await service.open()
    while not service.leads:
        await asyncio.sleep(0.01)
    found = {live.stream: (live.published.number, digest(live.serving.state)) for live in service.rankers.values()}
    for live in service.rankers.values():
        assert live.learning.digest() == found[live.stream][1]
    await service.close()
    return found

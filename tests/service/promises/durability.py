"""What has to be true of a log after any crash."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from rankloop.service.application.node import Node
from rankloop.service.application.rebuild import replay_records
from rankloop.service.domain.trainer import digest
from rankloop.service.records import FeedbackReceived, OutcomesReceived, Ranked
from rankloop.service.settings import Settings
from rankloop.service.stores.open import open_store
from tests.coroutines import run_coroutine
from tests.service.cases import Location


def check_survived(location: Location, acknowledged: Iterable[tuple[str, str]]) -> int:
    """Every acknowledged event is there, and a restart has the state of an uninterrupted run; how many were learned."""
    records = location.records()
    ranked = {record.event.impression for record in records if isinstance(record.event, Ranked)}
    feedback = {record.event.impression for record in records if isinstance(record.event, FeedbackReceived)}
    bought = [record.event.impression for record in records if isinstance(record.event, OutcomesReceived)]
    told = list(acknowledged)
    assert {name for kind, name in told if kind == "ranked"} <= ranked
    assert {name for kind, name in told if kind == "fed"} <= feedback
    assert {name for kind, name in told if kind == "bought"} <= set(bought)
    assert len(feedback) == sum(
        isinstance(record.event, FeedbackReceived) for record in records
    )  # nothing is there twice
    results = replay_records(records)
    for result in results:
        assert result.differing == ()
        assert result.learned == len(feedback) + len(bought)
    digests = run_coroutine(_restarted(location))
    assert digests == {result.entity: (result.state, result.digest) for result in results}
    return len(feedback) + len(bought)


async def _restarted(location: Location) -> dict[str, tuple[int, str]]:
    settings = Settings(data=location.data, store=location.store)
    service = Node(open_store(settings), settings)
    await service.open()
    while not service.learning.learns_all:
        await asyncio.sleep(0.01)
    found = {
        runtime.entity: (runtime.published.number, digest(runtime.serving.state))
        for runtime in service.directory.rankers.values()
    }
    for entity, course in service.learning.worker.consumers.items():
        if course.trainer is not None:
            assert course.trainer.digest() == found[entity][1]
    await service.close()
    return found

"""Many at the same moment: one request that cannot be written fails alone, and the same one twice counts once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from rankloop.core.errors import InvalidInput, Rejected
from rankloop.service.application.node import Node
from rankloop.service.application.rebuild import replay_records
from rankloop.service.errors import LateFeedback
from rankloop.service.records import Closed, Frozen
from rankloop.service.request_bodies import CreateBody, FeedbackBody, RankBody
from rankloop.service.settings import Settings
from rankloop.service.stores.open import open_store
from tests.coroutines import run_coroutine
from tests.service.cases import SHOP, Location, items, rank, running

Scenario = Callable[[Node], Awaitable[None]]


def within(location: Location, scenario: Scenario) -> None:
    """Let something happen inside a service that has the ranker `shop`."""

    async def runtime() -> None:
        settings = Settings(data=location.data, store=location.store)
        service = Node(open_store(settings), settings)
        await service.open()
        try:
            while not service.learning.learns_all:
                await asyncio.sleep(0.01)
            await service.administration.create("shop", msgspec.convert(SHOP | {"snapshot_every": 5}, CreateBody))
            await scenario(service)
        finally:
            await service.close()

    run_coroutine(runtime())


def asking(shift: int = 0, **more: Any) -> RankBody:
    return msgspec.convert({"items": items(6, shift), **more}, RankBody)


def test_one_key_many_times_at_once_is_one_impression_and_its_own_update(location: Location) -> None:
    async def scenario(service: Node) -> None:
        for turn in range(12):
            same = [service.ranking.rank("shop", asking(turn), f"key {turn}") for _ in range(6)]
            answers = await asyncio.gather(*same)
            assert all(answer == answers[0] for answer in answers)
            clicks = FeedbackBody(answers[0].impression, clicks=answers[0].ranking[2:3], final=True)
            await service.feedback.receive("shop", clicks)
        await service.learning.catch_up("shop")
        assert service.directory.ranker("shop").projection.counters.impressions == 12

    within(location, scenario)
    (result,) = replay_records(location.records())
    assert (result.learned, result.differing) == (12, ())


def test_the_same_final_feedback_many_times_at_once_is_repeated_not_late(location: Location) -> None:
    async def scenario(service: Node) -> None:
        for turn in range(5):
            shown = await service.ranking.rank("shop", asking(turn))
            clicks = FeedbackBody(shown.impression, clicks=shown.ranking[2:3], final=True)
            answers = await asyncio.gather(*(service.feedback.receive("shop", clicks) for _ in range(4)))
            assert sorted(answer.verdict for answer in answers) == ["closed", *["repeated"] * 3]
        assert service.feedback.late == {}

    within(location, scenario)
    (result,) = replay_records(location.records())
    assert (result.learned, result.differing) == (5, ())


def test_feedback_that_comes_with_the_end_of_the_window_is_late_however_often(location: Location) -> None:
    async def scenario(service: Node) -> None:
        shown = await service.ranking.rank("shop", asking())
        clicks = FeedbackBody(shown.impression, clicks=shown.ranking[2:3], final=True)
        closing = service.administration._append("ranker/shop", Closed(shown.impression))
        _, feedback = await asyncio.gather(closing, service.feedback.receive("shop", clicks), return_exceptions=True)
        assert isinstance(feedback, LateFeedback)
        with pytest.raises(LateFeedback):  # though it is in the log
            await service.feedback.receive("shop", clicks)
        assert service.feedback.late == {"ranker/shop": 2}

    within(location, scenario)


def test_what_cannot_be_written_fails_alone(location: Location) -> None:
    async def scenario(service: Node) -> None:
        good = [service.ranking.rank("shop", asking(turn)) for turn in range(8)]
        unwritable = [service.administration._append("ranker/shop", Frozen(2**70)) for _ in range(4)]  # type: ignore[arg-type]
        bad = [service.ranking.rank("shop", asking(items=[{"id": 2**64, "features": [1, 2, 3]}])) for _ in range(4)]
        answers = await asyncio.gather(*unwritable, *good, *bad, return_exceptions=True)
        assert [type(answer) for answer in answers[:4]] == [InvalidInput] * 4
        assert [len(answer.ranking) for answer in answers[4:12]] == [6] * 8
        assert [type(answer) for answer in answers[12:]] == [Rejected] * 4
        assert not service.log.is_failing

    within(location, scenario)
    assert {result.differing for result in replay_records(location.records())} == {()}


def test_an_id_may_have_64_bits_and_no_more(location: Location) -> None:
    with running(location) as client:
        assert client.put("/rankers/shop", json=SHOP).status_code == 201
        ids = [2**64 - 1, -(2**63), "b"]
        shown = rank(client, items=[{"id": id, "features": [1, 2, 3]} for id in ids])
        assert sorted(map(str, shown["ranking"])) == sorted(map(str, ids))
        for id in (2**64, -(2**63) - 1, "x" * 257):
            answer = client.post("/rankers/shop/rank", json={"items": [{"id": id, "features": [1, 2, 3]}]})
            assert (answer.status_code, "64 bits" in answer.text) == (422, True)
        fixed = {"learner": "random_order", "problem": {"items": [1, 2**64]}}
        assert client.put("/rankers/fixed", json=fixed).status_code == 422
        assert client.get("/readyz").status_code == 200

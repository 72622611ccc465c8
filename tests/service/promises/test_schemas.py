"""Schemas keep the promises: a live ranker gets a field under load, catalogues change meanwhile, and it all replays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from rankloop.service.application.rebuild import replay_records
from rankloop.service.domain.trainer import digest
from rankloop.service.records import Ranked, SchemaChanged
from tests.coroutines import run_coroutine
from tests.service.cases import Location, inside, report, running, until
from tests.service.promises.durability import check_survived
from tests.service.shop import NAMED, SCHEMA, products, visit

SHOP = NAMED | {"snapshot_every": 7}
STOCK = {
    "features": {"stock": {"kind": "number", "scale": "log"}, "colours": "category"},
    "crosses": ["segment*colours"],
}
VISITORS, VISITS = 4, 25


async def visitors(address: str, told: list[tuple[str, str]]) -> None:
    """People who come and click, while somebody adds fields; whoever knows of them uses them at once."""
    evolved = asyncio.Event()
    async with httpx.AsyncClient(base_url=address, timeout=60) as client:

        async def come(visitor: int) -> None:
            for turn in range(VISITS):
                more = {"stock": turn, "colours": ["red", turn % 3]} if evolved.is_set() else {}
                items = products(5, shift=turn + visitor, **more)
                answer = await client.post("/rankers/shop/rank", json={"items": items, "context": {"segment": "sport"}})
                assert answer.status_code == 200, answer.text
                shown = answer.json()
                told.append(("ranked", shown["impression"]))
                click = {"impression": shown["impression"], "clicks": shown["ranking"][1:2], "final": True}
                answer = await client.post("/rankers/shop/feedback", json=click)
                assert answer.status_code == 200, answer.text
                told.append(("fed", shown["impression"]))

        async def evolve() -> None:
            while len(told) < VISITORS * VISITS // 2:
                await asyncio.sleep(0.005)
            both = [client.patch("/rankers/shop/schema", json=STOCK) for _ in range(2)]
            assert [answer.status_code for answer in await asyncio.gather(*both)] == [200, 200]
            evolved.set()

        await asyncio.gather(evolve(), *map(come, range(VISITORS)))


def test_a_live_ranker_gets_a_field_under_load(location: Location) -> None:
    told: list[tuple[str, str]] = []
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP).raise_for_status()
        run_coroutine(visitors(str(client.base_url), told))
        until(lambda: report(client)["counts"]["learned"] == VISITORS * VISITS)
        assert report(client)["schema"]["version"] == 2
        assert report(client)["counts"]["rejected"] == 0
        late = client.post("/rankers/shop/rank", json={"items": products(3, stock=1)}).json()
        before = digest(inside(client).directory.rankers["shop"].serving.state)
    records = location.records()
    assert {record.event.schema["version"] for record in records if isinstance(record.event, SchemaChanged)} == {2}
    versions = [record.event.schema for record in records if isinstance(record.event, Ranked)]
    assert set(versions) == {1, 2}
    assert check_survived(location, told) == VISITORS * VISITS
    with running(location) as client:
        assert digest(inside(client).directory.rankers["shop"].serving.state) == before
        click = {"impression": late["impression"], "clicks": ["p1"], "final": True}
        assert client.post("/rankers/shop/feedback", json=click).json()["verdict"] == "closed"
        assert report(client)["counts"]["rejected"] == 0
    check_survived(location, told)


def test_a_crash_forgets_nothing_of_a_schema(tmp_path: Path) -> None:
    """Without the last snapshot: the log alone has the fields, the rows and their order."""
    with running(Location(tmp_path)) as client:
        client.put("/catalogues/c", json={"rows": {f"p{i}": {"price": i, "brand": "Acme"} for i in range(6)}})
        body = SHOP | {"problem": {"schema": SCHEMA, "catalogue": "c", "shown": 4}, "snapshot_every": 1000}
        client.put("/rankers/shop", json=body).raise_for_status()
        ids = [f"p{i}" for i in range(6)]
        early = client.post("/rankers/shop/rank", json={"ids": ids}).json()
        for turn in range(4):
            visit(client, items=[], ids=ids)
            client.put("/catalogues/c", json={"rows": {"p1": {"price": 50 + turn}, "p5": None}}).raise_for_status()
            ids = ids[:5]
            client.patch("/rankers/shop/schema", json={"features": {f"new{turn}": "category"}}).raise_for_status()
        before = digest(inside(client).directory.rankers["shop"].serving.state)
        records = Location(tmp_path).records()  # as a crash would leave them here
        click = {"impression": early["impression"], "clicks": early["ranking"][:1], "final": True}
        assert client.post("/rankers/shop/feedback", json=click).json()["verdict"] == "closed"
        after = digest(inside(client).directory.rankers["shop"].serving.state)
        runtime = inside(client).directory.rankers["shop"]
        assert runtime.published.rejected == 0
    assert [result.digest for result in replay_records(records)] == [before]
    assert [result.digest for result in replay_records(Location(tmp_path).records())] == [after]
    check_survived(Location(tmp_path), [])


def test_rollbacks_go_back_over_a_change_of_the_schema(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2}).raise_for_status()
        for turn in range(4):
            visit(client, items=products(shift=turn))
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) >= 2)
        first = client.get("/rankers/shop/snapshots").json()["snapshots"][1]["state"]
        client.patch("/rankers/shop/schema", json=STOCK).raise_for_status()
        visit(client, items=products(stock=9))
        assert client.post("/rankers/shop/rollback", json={"state": first}).status_code == 200
        visit(client, items=products(stock=7))
        assert client.post("/rankers/shop/rollback", json={"state": 0}).status_code == 200
        visit(client, items=products(stock=7))
        assert report(client)["counts"]["rejected"] == 0
    check_survived(location, [])


def test_workers_share_fields_and_rows(tmp_path: Path, postgres: Callable[[], str]) -> None:
    """What one worker was told, another knows with the next request."""
    location = Location(tmp_path, postgres())
    with running(location) as first, running(location, follower=True) as second:
        rows: dict[str, Any] = {f"p{i}": {"price": i} for i in range(4)}
        first.put("/catalogues/c", json={"rows": rows}).raise_for_status()
        body = NAMED | {"problem": {"schema": SCHEMA, "catalogue": "c"}}
        second.put("/rankers/shop", json=body).raise_for_status()
        for turn in range(6):
            here, there = (first, second) if turn % 2 else (second, first)
            here.put("/catalogues/c", json={"rows": {f"new{turn}": {"price": turn}}}).raise_for_status()
            here.patch("/rankers/shop/schema", json={"features": {f"f{turn}": "category"}}).raise_for_status()
            asked = {"ids": ["p1", f"new{turn}"], "items": [{"id": "p2", "features": {f"f{turn}": "x"}}]}
            shown = there.post("/rankers/shop/rank", json=asked)
            assert shown.status_code == 200, shown.text
            click = {"impression": shown.json()["impression"], "clicks": ["p2"], "final": True}
            assert here.post("/rankers/shop/feedback", json=click).status_code == 200
        until(lambda: report(first)["state"] == report(second)["state"] == 12)
        assert report(first)["schema"] == report(second)["schema"]
        states = [inside(client).directory.rankers["shop"].serving.state for client in (first, second)]
        assert digest(states[0]) == digest(states[1])
        assert report(first)["counts"]["rejected"] == 0
    check_survived(location, [])


@pytest.mark.parametrize("learner", ["fair_pairs", "pdgd", "3pr", "preference_perceptron"])
def test_other_learners_replay_too(tmp_path: Path, learner: str) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=SHOP | {"learner": learner}).raise_for_status()
        for turn in range(3):
            if learner == "preference_perceptron":
                answer = client.post("/rankers/shop/rank", json={"items": products(shift=turn)}).json()
                better = {"impression": answer["impression"], "preferred": answer["ranking"][::-1], "final": True}
                client.post("/rankers/shop/feedback", json=better).raise_for_status()
            else:
                visit(client, items=products(shift=turn))
        assert report(client)["counts"]["rejected"] == 0
    check_survived(Location(tmp_path), [])

"""Snapshots of large states: not before the log since the last one is much larger than they are."""

from __future__ import annotations

from pathlib import Path

from rankloop.service.application.course import LOG_PER_SNAPSHOT

from rankloop.service.application.rebuild import replay_records
from rankloop.service.records import Ranked, Snapshotted
from tests.service.cases import SHOP, Location, inside, learn, running, until
from tests.service.shop import NAMED, products, visit


def test_a_large_state_is_written_now_and_then(tmp_path: Path) -> None:
    location = Location(tmp_path)
    with running(location) as client:
        client.put("/rankers/shop", json=NAMED | {"snapshot_every": 1}).raise_for_status()
        for turn in range(60):
            visit(client, items=products(20, shift=turn))
        assert inside(client).learner.courses["ranker/shop"].snapshot_size > 0
    records = location.records()
    seen = [record.event for record in records if isinstance(record.event, Snapshotted)]
    assert 2 <= len(seen) < 30  # one at the first lesson, one at the end, few between
    store = [record for record in records if isinstance(record.event, Ranked | Snapshotted)]
    sizes, since = [], 0
    for record in store:
        if isinstance(record.event, Ranked):
            since += len(record.event.values) + 16 * len(record.event.ids)
        else:
            sizes.append(since)
            since = 0
    assert all(size >= LOG_PER_SNAPSHOT * 1000 for size in sizes[1:-1])
    assert [result.differing for result in replay_records(records)] == [()]
    assert [result.checked for result in replay_records(records)] == [len(seen)]


def test_a_small_state_as_often_as_it_is_asked_for(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2}).raise_for_status()
        learn(client, 6)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 3)

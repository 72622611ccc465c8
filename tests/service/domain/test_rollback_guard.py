"""Going back: the guard's word is one event, and a replay that differs says so instead of breaking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from rankloop.service.domain.rollback_guard import LOST

from rankloop.service.application.rebuild import replay_records
from rankloop.service.domain.configuration import config_of
from rankloop.service.domain.projection import Projection
from rankloop.service.domain.trainer import Rollback
from rankloop.service.records import Frozen, Record, RolledBack, Snapshotted
from rankloop.service.requests import CreateBody
from tests.service.cases import SHOP, Location, inside, learn, rank, report, running, until

GUARDED: dict[str, Any] = SHOP | {"base": {"feature": "age"}, "evaluation_share": 0.5, "guard": True}


def test_what_the_guard_says_is_one_event(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=GUARDED | {"snapshot_every": 2})
        runtime = inside(client).ranker("shop")
        runtime.config = runtime.config._replace(
            body=msgspec.structs.replace(runtime.config.body, evaluation_share=0.0)
        )
        learn(client, 3)
        inside(client).learner.courses["ranker/shop"].projection.counters.losses = 16
        learn(client, 1)  # the guard looks whenever an impression closes
        until(lambda: runtime.projection.frozen)
        learned = report(client)["counts"]["learned"]
        learn(client, 2)
        assert report(client)["counts"]["learned"] == learned
        assert report(client)["reason"] == LOST
    said = [record.event for record in location.records() if isinstance(record.event, Frozen | RolledBack)]
    assert said == [RolledBack(2, LOST, freezes=True)]
    (result,) = replay_records(location.records())
    assert (result.learned, result.differing) == (learned, ())


def test_a_guard_that_was_cut_short_speaks_at_the_next_start(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=GUARDED)
        report(client)
        course = inside(client).learner.courses["ranker/shop"]
        course.projection.counters.losses = 16  # and the process ends before it is noticed
        course.is_kept = False
    with running(location) as client:
        until(lambda: report(client)["frozen"])
        assert report(client)["reason"] == LOST


def test_going_back_and_stopping_are_folded_together() -> None:
    projection = Projection(config_of(msgspec.convert(GUARDED, CreateBody)))
    outcome = projection.apply(Record(7, "ranker/shop", 0.0, RolledBack(3, "why", freezes=True)))
    assert (projection.frozen, projection.reason) == (True, "why")
    assert isinstance(outcome.step, Rollback)
    assert outcome.step.mark is not None
    after = Projection(projection.config)
    after.restore(outcome.step.mark.projection)  # what the snapshot of that moment keeps
    assert after.frozen


@pytest.mark.parametrize("number", [2, 4])
def test_a_replay_that_differs_where_it_goes_back_says_so(tmp_path: Path, number: int) -> None:
    location = Location(tmp_path)
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2})
        learn(client, 4)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 2)
        client.post("/rankers/shop/rollback", json={"state": 2})
        learn(client, 1)
        rank(client)
    (result,) = replay_records(location.records())
    assert result.differing == ()
    (altered,) = replay_records(_altered(record, number) for record in location.records())
    assert altered == result._replace(checked=result.checked - 1, differing=(number,))


def _altered(record: Record, number: int) -> Record:
    """As if the service had written down another state."""
    event = record.event
    if isinstance(event, Snapshotted) and event.number == number:
        return record._replace(event=msgspec.structs.replace(event, digest="0" * 64))
    return record

"""The past of a ranker: bounded in memory, level where nothing happened, and known from the log after a restart."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from rankloop.service.application.jobs import history as curves
from rankloop.service.application.jobs.history import MAX_POINTS, MAX_SNAPSHOT_POINTS, Curve, Point
from tests.service.cases import SHOP, Location, learn, report, running, until


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A ranker that is nothing but its counts."""

    def point(at: float, runtime: Any, *rest: Any) -> Point:
        return Point(at, {"learned": runtime.published.number}, {}, {})

    monkeypatch.setattr(curves, "_point_of", point)
    counters = SimpleNamespace(impressions=0, closed=0)
    published = SimpleNamespace(number=0, state=None, learned=0, refused=0)
    return SimpleNamespace(projection=SimpleNamespace(counters=counters), published=published)


def test_points_thin_out_and_reach_back_to_the_beginning(runtime: Any) -> None:
    curve = Curve()
    for second in range(10_000):
        runtime.published.number = second
        curve.sample(runtime, float(second))
    times = [point.at for point in curve.points]
    assert MAX_POINTS / 2 <= len(times) <= MAX_POINTS
    assert times[0] == 0.0
    assert times[-1] >= 10_000 - 64
    assert times == sorted(times)
    assert max(b - a for a, b in pairwise(times)) <= 64  # 10,000 seconds in 240 points; gaps double


def test_where_nothing_happens_the_curve_is_level_and_costs_nothing(runtime: Any) -> None:
    curve = Curve()
    for second in range(100):
        curve.sample(runtime, float(second))
    assert len(curve.points) == 1
    runtime.published.number = 1
    curve.sample(runtime, 100.0)
    assert [(point.at, point.counts["learned"]) for point in curve.points] == [(0.0, 0), (99.0, 0), (100.0, 1)]


def test_a_clock_that_is_set_back_begins_anew(runtime: Any) -> None:
    curve = Curve()
    for at in (100.0, 101.0, 50.0, 51.0):
        runtime.published.number += 1
        curve.sample(runtime, at)
    assert [point.at for point in curve.points] == [50.0, 51.0]


def test_a_restart_reads_the_past_from_the_snapshots(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2})
        learn(client, 20)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 11)
        until(lambda: client.get("/rankers/shop/history").json()["points"])
        before = report(client)
    with running(location) as client:
        points = client.get("/rankers/shop/history").json()["points"]
        learned = [point["counts"]["learned"] for point in points]
        assert learned == sorted(learned)
        assert learned[:10] == [2, 4, 6, 8, 10, 12, 14, 16, 18, 20]
        assert len(points) <= MAX_SNAPSHOT_POINTS + MAX_POINTS
        assert [point["at"] for point in points] == sorted(point["at"] for point in points)
        last = points[-1]
        assert last["weights"] == before["weights"]
        assert last["health"]["ctr"] == before["health"]["ctr"]

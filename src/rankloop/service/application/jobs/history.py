"""History of a ranker in a few hundred points, for the curves of the page."""

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rankloop.core.saved_session import loads
from rankloop.core.session import Session
from rankloop.service.domain.counters import Counters, saved_projection
from rankloop.service.domain.drift import DriftAlarms
from rankloop.service.domain.health import StateView, clicks_of
from rankloop.service.domain.trainer import PublishedState
from rankloop.service.stores.base import Store

if TYPE_CHECKING:
    from rankloop.service.application.live_states import ServedRanker

SAMPLE_SECONDS = 1.0  # between two samples of a ranker
MAX_RANKERS_AT_ONCE = 200  # that are sampled without a pause, in which requests are served
MAX_POINTS = 240  # in memory; beyond, every second one is dropped and the interval is doubled
MAX_SNAPSHOT_POINTS = 60  # read from snapshots of the time before the service started
MAX_CURVE_WEIGHTS = 12
HEALTH_FIELDS = ("ctr", "ctr_recent", "ndcg", "explored_share", "swap_probability", "refused")


class Point(NamedTuple):
    """A ranker at one time, in the form of its report."""

    at: float
    counts: dict[str, int]
    health: dict[str, Any]
    weights: dict[str, float]


class Curve:
    """Points of one ranker since the service started, in bounded memory."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self._gap = SAMPLE_SECONDS
        self._last_counts = (-1, -1, -1)
        self._unchanged_at = 0.0  # the last time at which nothing had changed

    def sample(self, runtime: "ServedRanker", at: float) -> None:
        """Add a point if something has happened since the last one."""
        counters, published = runtime.projection.counters, runtime.published
        counts = (counters.impressions, counters.closed, published.number)
        if self.points and not at - self.points[-1].at >= 0:
            self.points.clear()  # the clock was set back
        if counts == self._last_counts:
            self._unchanged_at = at
            return
        if self.points and at - self.points[-1].at < self._gap:
            return
        if self.points and self._unchanged_at > self.points[-1].at:
            self.points.append(self.points[-1]._replace(at=self._unchanged_at))  # a level stretch, not a slope
        self._last_counts = counts
        self.points.append(_point_of(at, runtime, counters, published))
        if len(self.points) > MAX_POINTS:
            self.points, self._gap = self.points[::2], 2 * self._gap


async def sample_rankers(rankers: "Mapping[str, ServedRanker]") -> None:
    """Add a point of every ranker each second, and watch its drift alarm."""
    alarms = DriftAlarms()
    while True:
        now = time.time()
        for number, runtime in enumerate(list(rankers.values()), 1):
            runtime.curve.sample(runtime, now)
            alarms.watch(runtime.name, runtime.projection.counters)
            if number % MAX_RANKERS_AT_ONCE == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(SAMPLE_SECONDS)


def history_of(runtime: "ServedRanker", store: Store) -> list[Point]:
    """Return points from the first snapshot until now.

    Args:
      runtime: The ranker.
      store: Of its snapshots.
    """
    since = runtime.curve.points[0].at if runtime.curve.points else time.time()
    snapshots = [row for row in store.snapshots(runtime.entity) if row[2] < since]
    step = max(1, -(-len(snapshots) // MAX_SNAPSHOT_POINTS))
    past: list[Point] = []
    for number, _, at in snapshots[::step]:
        snapshot = store.snapshot(runtime.entity, number)
        if snapshot is not None:
            counters = saved_projection(snapshot.projection).counters
            past.append(_point_of(at, runtime, counters, loads(snapshot.session)))
    return [*sorted(past, key=lambda point: point.at), *runtime.curve.points]


def _point_of(at: float, runtime: "ServedRanker", counters: Counters, learned: PublishedState | Session) -> Point:
    view = StateView(runtime.config, learned.state)
    health = view.health(counters, learned.refused)
    kept = {name: health[name] for name in HEALTH_FIELDS if name in health} | clicks_of(counters)
    counts = {"learned": learned.learned, "wins": counters.wins, "losses": counters.losses}
    return Point(at, counts | {"impressions": counters.impressions}, kept, view.weights(MAX_CURVE_WEIGHTS))

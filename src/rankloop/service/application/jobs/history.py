"""The past of a ranker in a few hundred points: what the curves of the page show from before it was opened."""

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rankloop.core.saved_session import loads
from rankloop.service.domain.counters import Counters, saved_projection
from rankloop.service.domain.health import clicks_of, health_of, weights_of
from rankloop.service.stores.base import Store

if TYPE_CHECKING:
    from rankloop.service.application.ranking import ServedRanker

SAMPLE_SECONDS = 1.0  # seconds between two samples of a ranker
MAX_AT_ONCE = 200  # rankers that are looked at without a pause in which calls are answered
MAX_POINTS = 240  # points kept in memory; then every second one goes, and new ones come half as often
MAX_SNAPSHOT_POINTS = 60  # points read from the log, of the time before the service started
MAX_CURVE_WEIGHTS = 12
KEPT = ("ctr", "ctr_recent", "ndcg", "explored_share", "swap_probability", "refused")


class Point(NamedTuple):
    """A ranker at one time, in the form of its report."""

    at: float
    counts: dict[str, int]
    health: dict[str, Any]
    weights: dict[str, float]


class Curve:
    """Points of one ranker since the service started; they thin out with time, so memory stays bounded."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self._gap = SAMPLE_SECONDS
        self._seen = (-1, -1, -1)
        self._still = 0.0  # when it was last seen unchanged

    def look(self, runtime: "ServedRanker", at: float) -> None:
        """Add a point if something has happened since the last one."""
        counters, published = runtime.projection.counters, runtime.published
        seen = (counters.impressions, counters.closed, published.number)
        if self.points and not at - self.points[-1].at >= 0:
            self.points.clear()  # the clock was set back
        if seen == self._seen:
            self._still = at
            return
        if self.points and at - self.points[-1].at < self._gap:
            return
        if self.points and self._still > self.points[-1].at:
            self.points.append(self.points[-1]._replace(at=self._still))  # a level stretch, not a slope
        self._seen = seen
        self.points.append(point_of(at, runtime, counters, published.state, published.learned, published.refused))
        if len(self.points) > MAX_POINTS:
            self.points, self._gap = self.points[::2], 2 * self._gap


async def sample_rankers(rankers: "Mapping[str, ServedRanker]") -> None:
    """Take a sample of every ranker now and then."""
    while True:
        now = time.time()
        for number, runtime in enumerate(list(rankers.values()), 1):
            runtime.curve.look(runtime, now)
            if number % MAX_AT_ONCE == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(SAMPLE_SECONDS)


def history_of(runtime: "ServedRanker", store: Store) -> list[Point]:
    """Points from the first snapshot until now; reads the store."""
    since = runtime.curve.points[0].at if runtime.curve.points else time.time()
    known = [row for row in store.snapshots(runtime.entity) if row[2] < since]
    step = max(1, -(-len(known) // MAX_SNAPSHOT_POINTS))
    past = [_at_snapshot(runtime, store, number, at) for number, _, at in known[::step]]
    return [*sorted(filter(None, past), key=lambda point: point.at), *runtime.curve.points]


def point_of(at: float, runtime: "ServedRanker", counters: Counters, state: Any, learned: int, refused: int) -> Point:
    """What is worth a curve."""
    health = health_of(counters, runtime.config, state, refused)
    kept = {name: health[name] for name in KEPT if name in health} | clicks_of(counters)
    counts = {"learned": learned, "wins": counters.wins, "losses": counters.losses, "impressions": counters.impressions}
    return Point(at, counts, kept, weights_of(runtime.config, state, MAX_CURVE_WEIGHTS))


def _at_snapshot(runtime: "ServedRanker", store: Store, number: int, at: float) -> Point | None:
    found = store.snapshot(runtime.entity, number)
    if found is None:
        return None
    session = loads(found.session)
    return point_of(
        at, runtime, saved_projection(found.projection).counters, session.state, session.learned, session.refused
    )

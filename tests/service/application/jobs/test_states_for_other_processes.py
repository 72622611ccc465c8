"""When states are published: new ones as soon as their size allows, counts alone seldom."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rankloop.service.application.jobs import states_for_other_processes
from rankloop.service.application.jobs.states_for_other_processes import (
    PUBLISH_COUNTS_SECONDS,
    PUBLISH_SECONDS,
    Publisher,
)
from rankloop.service.domain.projection import PublishedState
from rankloop.service.stores.base import Lease, Publication

ENTITY = "experiment/a"


class Store:
    """Takes what is published; each time takes `seconds` of the clock."""

    partitions = 1

    def __init__(self, clock: SimpleNamespace) -> None:
        self.clock, self.seconds = clock, 0.0
        self.taken: list[tuple[float, int, bool]] = []

    def publish(self, publications: list[Publication], lease: Lease) -> None:
        self.clock.now += self.seconds
        self.taken += [(self.clock.now, each.seq, each.session is not None) for each in publications]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(states_for_other_processes, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_counts_do_not_hold_up_a_state(clock: SimpleNamespace) -> None:
    store = Store(clock)
    publisher = Publisher(store)  # type: ignore[arg-type]
    for later, number, seq in (
        (0.0, 1, 1),
        (PUBLISH_SECONDS, 1, 2),
        (PUBLISH_COUNTS_SECONDS, 1, 3),
        (PUBLISH_SECONDS, 1, 4),
        (PUBLISH_SECONDS, 2, 5),
    ):
        clock.now += later
        _publish(publisher, number, seq)
    assert store.taken == [(100.0, 1, True), (pytest.approx(100.55), 3, False), (pytest.approx(100.65), 5, True)]
    publisher.stop()


def test_a_large_state_comes_less_often(clock: SimpleNamespace) -> None:
    store = Store(clock)
    store.seconds = 1.0
    publisher = Publisher(store)  # type: ignore[arg-type]
    for number in range(1, 8):
        _publish(publisher, number, number)
        clock.now += 1.0
    assert [(at, seq) for at, seq, _ in store.taken] == [(101.0, 1), (106.0, 5)]
    publisher.stop()


def _publish(publisher: Publisher, number: int, seq: int) -> None:
    state = PublishedState(number, None, 0, 0, 0, seq, b"")
    courses: Any = {ENTITY: SimpleNamespace(trainer=None)}
    publisher.publish([(ENTITY, state)], courses, {0: Lease(0, 1)})
    if publisher._busy is not None:
        publisher._busy.result()

"""What is left of a window, by the clock of the store: times in which nothing ran do not count."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rankloop.service.application.jobs.window_expiry import FeedbackWindows
from rankloop.service.application.rebuild import restored_consumer
from rankloop.service.log.writer import entry_of
from rankloop.service.records import Created, Ranked
from rankloop.service.requests import CreateBody
from rankloop.service.settings import Settings
from rankloop.service.stores.open import open_store
from tests.service.cases import SHOP, Location, append

CREATED = Created(msgspec.convert(SHOP | {"window": 10}, CreateBody))


def set_time(store: Any, seq: int, at: float) -> None:
    if store.shared:
        store.rows("UPDATE rankloop_events SET at = %s WHERE seq = %s RETURNING seq", [at, seq])
    else:
        store._writer.execute("UPDATE rankloop_events SET at = ? WHERE seq = ?", (at, seq))


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((0, 1, 4), [6, 7]),  # a quick restart: began + window - now
        ((0, 4, 12), [0, 2]),  # no gap is longer than the window: what was over is over
        ((0, 1, 1_000), [9, 10]),  # down, or a clock that was set
        ((0, 1, 1_000, 1_002), [7, 8, 8]),  # the same, and then a restart
        ((0, 1_000, 2_000), [10, 10]),  # down twice
        ((0, 3, 1_000, 1_004, 3_000, 3_001), [2, 5, 5, 9, 9]),  # down twice, with visits between
        ((1_000, 0, 3), [7, 7]),  # a clock that was set back
    ],
)
def test_what_is_left_of_a_window(location: Location, times: list[float], expected: list[float]) -> None:
    """Of impressions shown at these times but for the last, which is now."""
    *shown, now = times
    store = open_store(Settings(data=location.data, store=location.store))
    append(store, entry_of("ranker/a", CREATED))
    numbers = append(store, *(entry_of("ranker/a", Ranked(f"{at}", [], b"", [])) for at in shown))
    for seq, at in zip(numbers, shown):
        set_time(store, seq, at)
    consumer = restored_consumer("ranker/a", store, store.last())
    windows = FeedbackWindows(store, "ranker/a", consumer.projection)
    assert [max(10 - windows.elapsed(seq, at, now), 0) for seq, at in zip(numbers, shown)] == expected
    assert windows.expired(now, store.last()) == [f"{at}" for at, left in zip(shown, expected) if left == 0]
    store.close()

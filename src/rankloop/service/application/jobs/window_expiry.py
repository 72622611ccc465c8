"""Expiry of feedback windows: the learner worker logs that an impression has closed once its window has ended."""

from collections import deque
from concurrent.futures import Future
from typing import Any

from rankloop.service.domain.projection import Projection
from rankloop.service.stores.base import Store

MAX_READ_AHEAD = 1_000  # impressions that are read at a time
MAX_BATCH = 500  # windows that are closed at a time
MAX_CHECK_SECONDS = 1.0  # between two looks for windows that have ended
RETRY_SECONDS = 1.0  # while the log cannot be written
CLOCK_SKEW_SECONDS = 10.0  # by which clocks may differ and learner workers may be late


class FeedbackWindows:
    """The feedback windows of one entity; its impressions are read from the log in order, a few at a time."""

    def __init__(self, store: Store, entity: str, projection: Projection) -> None:
        self.store, self.entity, self.projection = store, entity, projection
        self.not_before = 0.0  # by the clock of the store: the earliest end of a window
        self.closing: list[Future[Any]] = []  # ends that are being written
        self._next: deque[tuple[int, float, str]] = deque()
        self._read_until = projection.passed
        self._closing_until = 0

    @property
    def window(self) -> float:
        """The length of a window in seconds."""
        return self.projection.now.window or self.projection.first_window

    def expired(self, now: float, until: int) -> list[str]:
        """Return open impressions up to an event whose window has ended; `now` is by the clock of the store."""
        projection = self.projection
        if self._is_closing(now):
            return []
        if not projection.now.n_open:
            projection.passed = self._read_until = until
            self._next.clear()
            return []
        if now < self.not_before <= now + 2 * MAX_CHECK_SECONDS:  # else the clock was set back
            return []
        if not self._next:
            self._next.extend(self.store.ranked_impressions(self.entity, self._read_until, until, MAX_READ_AHEAD))
            self._read_until = self._next[-1][0] if self._next else self._read_until
            self.not_before = now + min(MAX_CHECK_SECONDS, self.window / 4)  # if there is no impression yet
        names: list[str] = []
        while self._next and len(names) < MAX_BATCH:
            seq, at, name = self._next[0]
            left = self.window - self.elapsed(seq, at, now)
            if left > 0:
                self.not_before = now + min(left, MAX_CHECK_SECONDS)
                break
            names.append(name)
            self._closing_until = seq
            self._next.popleft()
        if not names:
            return []
        closed = self.store.closed_among(self.entity, names)
        names = [name for name in names if name not in closed]
        if not names:
            projection.passed = self._closing_until
        return names

    def elapsed(self, seq: int, at: float, now: float) -> float:
        """Return the seconds of a window that have passed, without the time in which the service did not run.

        While an impression is open and the service runs, some event is logged within its window, at the latest that it
        closes. So every gap between events that is longer than the window is a time in which the service did not run,
        or its clock was set.
        """
        window, passed = self.window, now - at
        if -CLOCK_SKEW_SECONDS <= passed <= window + CLOCK_SKEW_SECONDS:
            return passed
        return self.store.elapsed_seconds(self.entity, seq, now, max_gap=window)

    def _is_closing(self, now: float) -> bool:
        if not self.closing:
            return False
        if not all(future.done() for future in self.closing):
            return True
        failed = any(future.exception() is not None for future in self.closing)
        self.closing = []
        if failed:  # the windows stay open until the log can be written again
            self._next.clear()
            self._read_until = self.projection.passed
            self.not_before = now + RETRY_SECONDS
            return True
        self.projection.passed = self._closing_until
        return False

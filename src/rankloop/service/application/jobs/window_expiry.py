"""The end of feedback windows: logged as soon as a window is over, by whoever learns the ranker."""

from collections import deque
from concurrent.futures import Future
from typing import Any

from rankloop.service.domain.projection import Projection
from rankloop.service.stores.base import Store

MAX_AHEAD = 1_000  # impressions whose ends are known
MAX_BATCH = 500
LOOK_AGAIN_SECONDS = 1.0
RETRY_SECONDS = 1.0  # while the log cannot be written
CLOCK_SKEW_SECONDS = 10.0  # by which clocks and learners may be late; what is longer was no time in which it ran


class Windows:
    """The windows of one entity. What was shown is found in the log, in its order; nothing of it is kept in memory."""

    def __init__(self, store: Store, entity: str, projection: Projection) -> None:
        self.store, self.entity, self.projection = store, entity, projection
        self.not_before = 0.0  # by the clock of the store: when the next window can end
        self.closing: list[Future[Any]] = []  # ends that are on their way to the log
        self._ahead: deque[tuple[int, float, str]] = deque()
        self._read = projection.passed
        self._on_step = 0
        self._lost = (0, 0.0)  # up to an event, seconds in which the service did not run or its clock was set

    @property
    def window(self) -> float:
        """Seconds in which feedback may come."""
        return self.projection.now.window or self.projection.first_window

    def over(self, now: float, until: int) -> list[str]:
        """Impressions whose window has ended and that may be open, of those up to an event."""
        projection = self.projection
        if self._is_closing(now):
            return []
        if not projection.now.n_open:
            projection.passed = self._read = until
            self._ahead.clear()
            return []
        if now < self.not_before <= now + 2 * LOOK_AGAIN_SECONDS:  # else the clock was set back
            return []
        if not self._ahead:
            self._ahead.extend(self.store.ranked_impressions(self.entity, self._read, until, MAX_AHEAD))
            self._read = self._ahead[-1][0] if self._ahead else self._read
            self.not_before = now + min(LOOK_AGAIN_SECONDS, self.window / 4)  # where there is nothing yet
        names: list[str] = []
        while self._ahead and len(names) < MAX_BATCH:
            seq, at, name = self._ahead[0]
            left = self.window - self.elapsed(seq, at, now, until)
            if left > 0:
                self.not_before = now + min(left, LOOK_AGAIN_SECONDS)
                break
            names.append(name)
            self._on_step = seq
            self._ahead.popleft()
        if not names:
            return []
        closed = self.store.closed_among(self.entity, names)
        names = [name for name in names if name not in closed]
        if not names:
            projection.passed = self._on_step
        return names

    def elapsed(self, seq: int, at: float, now: float, until: int) -> float:
        """How much of a window has passed: a time without an event that is longer than the window does not count.

        While an impression is open and the service runs, something is logged within its window, at the latest that it
        closes. So the longest time without an event, if it is longer than the window, was one in which the service did
        not run or its clock was set.
        """
        window, passed = self.window, now - at
        if -CLOCK_SKEW_SECONDS <= passed <= window + CLOCK_SKEW_SECONDS:
            return passed
        until, lost = self._lost
        if seq > until:
            spent, longest = self.store.elapsed_seconds(self.entity, seq, now)
            lost = passed - (spent - longest if longest > window else spent)
            self._lost = until, lost
        return passed - lost

    def _is_closing(self, now: float) -> bool:
        if not self.closing:
            return False
        if not all(future.done() for future in self.closing):
            return True
        failed = any(future.exception() is not None for future in self.closing)
        self.closing = []
        if failed:  # the windows stay open until the log can be written again
            self._ahead.clear()
            self._read = self.projection.passed
            self.not_before = now + RETRY_SECONDS
            return True
        self.projection.passed = self._on_step
        return False

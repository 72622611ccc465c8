"""The end of feedback windows: logged as soon as a window is over, by whoever learns the ranker."""

from collections import deque
from concurrent.futures import Future
from typing import Any

from rankloop.service.log.events import Closed
from rankloop.service.ranker.course import Course
from rankloop.service.ranker.impressions import Impression

AHEAD = 1_000  # impressions whose ends are known
MAX_BATCH = 500
LOOK_AGAIN = 1.0  # seconds
RETRY = 1.0  # seconds, while the log cannot be written
UNEVEN = 10.0  # seconds by which clocks and learners may be late; what is longer was no time in which it ran


class Windows:
    """The windows of one course. What was shown is found in the log, in its order; nothing of it is kept in memory."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self.not_before = 0.0  # by the clock of the store: when the next window can end
        self._ahead: deque[tuple[int, float, str]] = deque()
        self._read = course.projection.passed
        self._closing: list[Future[Any]] = []
        self._passing = 0
        self._lost = (0, 0.0)  # up to an event, seconds in which the service did not run or its clock was set

    def over(self, now: float, until: int) -> list[str]:
        """Impressions whose window has ended and that may be open, of those up to an event."""
        course = self.course
        if self._is_closing(now):
            return []
        if course.projection.counters.impressions == course.projection.counters.closed:
            course.projection.passed = self._read = course.seq
            self._ahead.clear()
            return []
        if now < self.not_before <= now + 2 * LOOK_AGAIN:  # else the clock was set back
            return []
        if not self._ahead:
            self._ahead.extend(course.store.shown(course.entity, self._read, until, AHEAD))
            self._read = self._ahead[-1][0] if self._ahead else self._read
            self.not_before = now + min(LOOK_AGAIN, course.window / 4)  # where there is nothing yet
        names: list[str] = []
        while self._ahead and len(names) < MAX_BATCH:
            seq, at, name = self._ahead[0]
            left = course.window - self.elapsed(seq, at, now)
            if left > 0:
                self.not_before = now + min(left, LOOK_AGAIN)
                break
            names.append(name)
            self._passing = seq
            self._ahead.popleft()
        if not names:
            return []
        closed = course.store.closed(course.entity, names)
        names = [name for name in names if name not in closed]
        if not names:
            course.projection.passed = self._passing
        return names

    def closing(self, futures: list[Future[Any]]) -> None:
        """These are on their way to the log."""
        self._closing = futures

    def elapsed(self, seq: int, at: float, now: float) -> float:
        """How much of a window has passed: a time without an event that is longer than the window does not count.

        While an impression is open and the service runs, something is logged within its window, at the latest that it
        closes. So the longest time without an event, if it is longer than the window, was one in which the service did
        not run or its clock was set.
        """
        window, passed = self.course.window, now - at
        if -UNEVEN <= passed <= window + UNEVEN:
            return passed
        until, lost = self._lost
        if seq > until:
            spent, longest = self.course.store.time_spent(self.course.entity, seq, now)
            lost = passed - (spent - longest if longest > window else spent)
            self._lost = self.course.seq, lost
        return passed - lost

    def _is_closing(self, now: float) -> bool:
        if not self._closing:
            return False
        if not all(future.done() for future in self._closing):
            return True
        failed = any(future.exception() is not None for future in self._closing)
        self._closing = []
        if failed:  # the windows stay open until the log can be written again
            self._ahead.clear()
            self._read = self.course.projection.passed
            self.not_before = now + RETRY
            return True
        self.course.projection.passed = self._passing
        return False


def close_if_open(impression: Impression | None) -> Closed | str:
    """Decided when it is written: feedback may have closed it meanwhile."""
    if impression is None or impression.closed:
        return "late"
    return Closed(impression.ranked.impression)

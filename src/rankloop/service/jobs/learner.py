"""The learner: it alone reads the log of its partitions, learns, closes windows, snapshots and publishes states."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event as Flag
from threading import Thread
from typing import Any, NamedTuple

from rankloop.core.errors import NotFound, RankloopError
from rankloop.service.errors import Unavailable
from rankloop.service.jobs.expiry import Windows, close_if_open
from rankloop.service.jobs.lease import LeaseKeeper
from rankloop.service.jobs.publication import Publisher
from rankloop.service.log.events import Amended, ComparisonCreated, Created, Deleted, Entry, Record, partition_of
from rankloop.service.log.recovery import MAX_OPEN_BYTES, FindCatalogue, new_course, restored_course
from rankloop.service.log.stores.base import Lease, SharedStore, Store
from rankloop.service.log.writer import LogWriter, settled_entry
from rankloop.service.ranker.course import Course
from rankloop.service.ranker.trainer import PublishedState

logger = logging.getLogger("rankloop.service")
THREADS = 4
BUSY, IDLE = 0.02, 0.1  # seconds until the log is looked at again, unless somebody waits
ACTIVE = 1.0  # seconds since the last event, for which it is looked for the next one often
RETRY = 0.2  # seconds, while it cannot be read
ALL_OPEN_BYTES = 32_000_000  # of impressions that all courses keep in memory
LEARNED_KINDS = ("ranker", "experiment")


class News(NamedTuple):
    """What the learner tells those who serve in the same process."""

    published: list[tuple[str, PublishedState]]
    until: int  # everything up to this event is in it
    taken_up: Sequence[str] = ()  # entities that are learned here from now on
    given_up: Sequence[str] = ()  # entities that others learn by now
    partitions: frozenset[int] = frozenset()  # that are learned here
    failed: tuple[str, ...] = ()  # entities of which a step could not be taken now


class Learner:
    """Learns what it has leases for. It has a thread, and a few more for rankers that learn at the same moment."""

    def __init__(
        self,
        store: Store,
        log: LogWriter,
        partitions: Sequence[int],
        find_catalogue: FindCatalogue,
        tell: Callable[[News], Any],
    ) -> None:
        self.store = store
        self.log = log
        self.courses: dict[str, Course] = {}
        self.position = 0  # everything up to this event has been read
        self.lag = 0.0  # seconds by which the last event that was read was old
        self.leases = LeaseKeeper(store, partitions, self.wake)
        self.publisher = Publisher(store) if isinstance(store, SharedStore) else None
        self._active_at = 0.0
        self._windows: dict[str, Windows] = {}
        self._held: dict[int, Lease] = {}  # those whose courses are up to date
        self._find_catalogue = find_catalogue
        self._tell = tell
        self._wake = Flag()
        self._stopping = Flag()
        self._partitions: dict[str, int] = {}
        self._giving_up = Flag()
        self._keeping: list[tuple[str, Future[None]]] = []
        self._again: dict[str, Future[None]] = {}  # entities that are to be read again from their log
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="learn")
        self._thread = Thread(target=self._run, name="learn", daemon=True)

    def start(self) -> None:
        self.leases.start()
        if self.leases.wanted:
            if isinstance(self.store, SharedStore):
                self.store.watch(self.wake)
            self._thread.start()

    def wake(self) -> None:
        """Look at the log now."""
        self._wake.set()

    def learns(self, entity: str) -> bool:
        """Whether this process learns it, as far as it knows."""
        return self._partition(entity) in self._held

    def restart(self, entity: str) -> Future[None]:
        """Read an entity again from its log, whose past was changed."""
        done: Future[None] = Future()
        self._again[entity] = done
        self.wake()
        return done

    def keep(self, entity: str) -> Future[None]:
        """Write a snapshot of an entity, unless there is one of all that is known."""
        done: Future[None] = Future()
        self._keeping.append((entity, done))
        self.wake()
        return done

    def give_up(self) -> None:
        """Do not wait any longer for a log that cannot be read."""
        flag, self._giving_up = self._giving_up, Flag()
        flag.set()

    def stop(self) -> None:
        """Learn what is there, keep a snapshot of everything that has changed, and give the leases back."""
        self._stopping.set()
        self._giving_up.set()
        self.wake()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.shutdown(wait=True)
        self.leases.stop()

    # On the learner's thread.

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._hold(self.leases.held)
                more = self._turn()
            except RankloopError as error:
                if not isinstance(error, Unavailable):
                    logger.error("learn", exc_info=error)
                self._stopping.wait(RETRY)
                continue
            except Exception as error:  # nothing may end the thread
                logger.error("learn", exc_info=error)
                self._stopping.wait(RETRY)
                continue
            if not more and not self._stopping.is_set():
                self._wake.wait(BUSY if self._is_busy() else IDLE)
            self._wake.clear()
        self._finish()

    def _is_busy(self) -> bool:
        """Whether more is likely to come, or a state is still to be published."""
        is_active = time.monotonic() - self._active_at < ACTIVE
        return is_active or (self.publisher is not None and self.publisher.is_waiting)

    def _hold(self, leases: dict[int, Lease]) -> None:
        """Take up what is new and give up what is gone."""
        if leases == self._held:
            return
        if isinstance(self.store, SharedStore):
            logger.info(f"learning {len(leases)} of {self.store.partitions} partitions")
        kept = {part for part, lease in leases.items() if self._held.get(part) == lease}
        gone = [entity for entity in self.courses if self._partition(entity) not in kept]
        for entity in gone:
            del self.courses[entity]
            self._windows.pop(entity, None)
        self._held = {part: leases[part] for part in kept}
        if isinstance(self.store, SharedStore):
            self.store.learned_here = frozenset(leases)
        if gone:
            self._tell(News([], self.position, given_up=gone, partitions=frozenset(kept)))
        if not self.courses and not kept:
            self.position = self.store.last()
        taken_up = self._restored([part for part in leases if part not in kept])
        self.courses |= taken_up
        self._held = dict(leases)
        for course in taken_up.values():
            self._watch(course)
        published = [(course.entity, course.published()) for course in taken_up.values()]
        self._tell(News(published, self.position, taken_up=list(taken_up), partitions=frozenset(leases)))
        self._publish(published, everything=True)
        self._write([entry for course in taken_up.values() for entry in course.guard()])

    def _restored(self, partitions: Sequence[int]) -> dict[str, Course]:
        found: dict[str, Course] = {}
        for first in self.store.beginnings() if partitions else ():
            entity = first.entity
            if not _is_learned(entity) or self._partition(entity) not in partitions or first.seq > self.position:
                continue
            if self._stopping.is_set() or entity in self.courses:
                continue
            how = self.store, self.position, self._find_catalogue, first, self._giving_up
            found[entity] = restored_course(entity, *how)
        return found

    def _turn(self) -> bool:
        """Learn the next part of the log; whether there is more."""
        if not self._held:
            return False
        for entity in list(self._again):
            self._begin_again(entity)
        tail = self.store.tail(self.position, sorted(self._held))
        changed = self._learned(tail.records)
        self.position = tail.until
        self.lag = max(tail.now - tail.records[-1].at, 0.0) if tail.records else 0.0
        self._active_at = time.monotonic() if tail.records else self._active_at
        if changed or tail.records:
            published = [(course.entity, course.published()) for course in changed]
            self._tell(News(published, self.position, partitions=frozenset(self._held)))
            self._publish(published)
            self._make_room()
        elif self.publisher is not None:
            self._publish([])
        if not tail.more:
            self._close_windows(tail.now)
            self._keep()
        return tail.more

    def _learned(self, records: Sequence[Record]) -> list[Course]:
        parts: dict[str, list[Record]] = {}
        for record in records:
            parts.setdefault(record.entity, []).append(record)
        work: list[tuple[Course, list[Record]]] = []
        for entity, part in parts.items():
            if any(isinstance(record.event, Deleted) for record in part):
                part = self._ended(entity, part)
            course = self.courses.get(entity)
            if course is not None and any(isinstance(record.event, Amended) for record in part):
                how = self.store, part[-1].seq, self._find_catalogue, None, self._giving_up
                course = self.courses[entity] = restored_course(entity, *how)
                self._windows.pop(entity, None)
            if course is None and part and isinstance(part[0].event, Created | ComparisonCreated):
                try:
                    course = self.courses[entity] = new_course(
                        part[0], self.store, self._find_catalogue, self._giving_up
                    )
                except NotFound:
                    continue
                self.courses[entity] = course
                self._tell(News([], 0, taken_up=[entity], partitions=frozenset(self._held)))
            if course is not None:
                work.append((course, part))
        results = [_applied(*work[0])] if len(work) == 1 else list(self._pool.map(lambda each: _applied(*each), work))
        self._write(entry for due, _ in results for entry in due)
        for course, _ in work:
            self._write(course.overdue())
            self._watch(course)
        errors = [error for _, error in results if error is not None]
        if errors:
            self._repair([course.entity for course, _ in work if course.is_broken])
            raise errors[0]
        return [course for course, _ in work]

    def _ended(self, entity: str, part: list[Record]) -> list[Record]:
        """An entity was deleted: what another of its name begins with, if one does."""
        self.courses.pop(entity, None)
        self._windows.pop(entity, None)
        self._tell(News([], 0, given_up=[entity], partitions=frozenset(self._held)))
        last = max(position for position, record in enumerate(part) if isinstance(record.event, Deleted))
        rest = part[last + 1 :]
        begins = (n for n, record in enumerate(rest) if isinstance(record.event, Created | ComparisonCreated))
        return rest[next(begins, len(rest)) :]

    def _repair(self, broken: Sequence[str]) -> None:
        """What stands between two events is read again from its log."""
        self._again |= {entity: Future() for entity in broken}
        self._tell(News([], 0, partitions=frozenset(self._held), failed=tuple(broken)))

    def _watch(self, course: Course) -> None:
        """Look for its windows' ends while there is something open."""
        counters = course.projection.counters
        if counters.impressions > counters.closed and course.entity not in self._windows:
            self._windows[course.entity] = Windows(course)

    def _close_windows(self, now: float) -> None:
        for entity, windows in list(self._windows.items()):
            names = windows.over(now, self.position)
            counters = windows.course.projection.counters
            if names:
                entries = [settled_entry(entity, name, close_if_open) for name in names]
                windows.closing(self._write(entries))
            elif counters.impressions == counters.closed:
                del self._windows[entity]
            if windows.course.is_guarding is False:
                self._write(windows.course.guard())

    def _write(self, entries: Iterable[Entry]) -> list[Future[Any]]:
        """Every write of a learner carries the number of its lease."""
        futures = []
        for entry in entries:
            lease = self._held.get(self._partition(entry.entity))
            if lease is None:
                continue
            fence = tuple(lease) if self.store.shared else None
            future = self.log.submit(entry._replace(fence=fence))  # type: ignore[arg-type]
            future.add_done_callback(lambda done, entity=entry.entity: self._wrote(done, entity))  # type: ignore[misc]
            futures.append(future)
        return futures

    def _wrote(self, done: Future[Any], entity: str) -> None:
        course = self.courses.get(entity)
        if done.exception() is not None and course is not None:
            course.is_guarding = course.is_kept = False
        self.wake()

    def _keep(self) -> None:
        while self._keeping:
            entity, done = self._keeping.pop()
            course = self.courses.get(entity)
            entries = [] if course is None or course.is_kept else [course.snapshot()]
            futures = self._write(entries)
            if not futures:
                done.set_result(None)
            for future in futures:
                future.add_done_callback(lambda _, done=done: done.set_result(None))  # type: ignore[misc]

    def _make_room(self) -> None:
        """Impressions that wait take only so much memory; the others are read again when they close."""
        courses = [course for course in self.courses.values() if course.projection.open_bytes]
        if sum(course.projection.open_bytes for course in courses) > ALL_OPEN_BYTES:
            for course in courses:
                course.projection.make_room(min(MAX_OPEN_BYTES, ALL_OPEN_BYTES // (2 * len(courses))))

    def _publish(self, published: list[tuple[str, PublishedState]], everything: bool = False) -> None:
        if self.publisher is not None:
            self.publisher.publish(published, self.courses, self._held, at_once=everything)

    def _begin_again(self, entity: str) -> None:
        done = self._again.pop(entity)
        try:
            how = self.store, self.store.last(), self._find_catalogue, None, self._giving_up
            course = restored_course(entity, *how)
        except Unavailable:
            self._again.setdefault(entity, done)
            raise
        self.courses[entity] = course
        self._windows.pop(entity, None)
        self._watch(course)
        self._tell(News([(entity, course.published())], 0, partitions=frozenset(self._held)))
        done.set_result(None)

    def _finish(self) -> None:
        """The last look at the log, and a snapshot of what has changed."""
        try:
            while self._held and self.leases.held == self._held and self._turn_at_the_end():
                pass
            if self.leases.held != self._held:
                return
            kept = [course for course in self.courses.values() if not course.is_kept and not course.is_broken]
            for future in self._write([course.snapshot() for course in kept]):
                future.exception(timeout=30)
            if self.publisher is not None:
                self.publisher.publish([], self.courses, self._held, at_once=True)
        except (RankloopError, TimeoutError) as error:
            logger.warning(f"not everything was kept at the end, and is learned again at the next start: {error}")
        finally:
            if self.publisher is not None:
                self.publisher.stop()
            self._tell(News([], self.position, given_up=list(self.courses)))

    def _turn_at_the_end(self) -> bool:
        tail = self.store.tail(self.position, sorted(self._held))
        changed = self._learned(tail.records)
        self.position = tail.until
        published = [(course.entity, course.published()) for course in changed]
        self._tell(News(published, self.position, partitions=frozenset(self._held)))
        return is_full_page(tail.records)

    def _partition(self, entity: str) -> int:
        if entity not in self._partitions:
            self._partitions[entity] = partition_of(entity, self.store.partitions)
        return self._partitions[entity]


def _applied(course: Course, records: Sequence[Record]) -> tuple[list[Entry], Exception | None]:
    try:
        return course.apply(records), None
    except Unavailable as error:
        return [], error


def is_full_page(records: Sequence[Record]) -> bool:
    return len(records) >= 1_000


def _is_learned(entity: str) -> bool:
    return entity.partition("/")[0] in LEARNED_KINDS

"""Group commit: many requests share one transaction, inside which entries that depend on the log are decided."""

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from threading import Condition, Lock, Thread, current_thread
from typing import Any, NamedTuple

import msgspec

from rankloop.core.errors import InvalidInput, RankloopError
from rankloop.service import records
from rankloop.service.errors import Superseded, Unavailable
from rankloop.service.records import Closed, FeedbackReceived, LogEntry, LogRow, OutcomesReceived, Ranked, Record

logger = logging.getLogger("rankloop.service")
MAX_BATCH = 512  # entries in one transaction
MAX_BATCH_BYTES = 64_000_000  # of its bodies, unless one alone has more
MAX_LOCKS = 128  # entries of one transaction that lock an impression or an entity
MAX_RECENT_BYTES = 50_000_000  # of recent impressions in memory, which need not be read again
MAX_GATHER_SECONDS = 0.002  # for which a transaction waits for more entries, while each turn of the loop brings some
MAX_LOOP_BLOCK_SECONDS = 0.002  # of a transaction that counts as quick; for so long the event loop waits for one
MIN_QUICK_COMMITS = 20  # in a row, after which the event loop writes itself: the disk is quick
FAILING_SECONDS = 5.0  # after a failed write, in which the log counts as failing
Key = tuple[str, str]  # an entity and the name of an impression
Subject = Any  # an impression as of the event `seq`; `add` applies an event and returns the verdict on it
FoldRecords = Callable[..., Subject]  # builds an impression from its records, or continues an earlier one


class Written(NamedTuple):
    """The result of an entry; its number is 0 if nothing was written."""

    verdict: str  # written, repeated, changed, or what was settled
    seq: int = 0
    at: float = 0.0  # by the clock of the store


def entry_of(
    entity: str, event: records.Event, snapshot: records.Snapshot | None = None, once: bool = False
) -> LogEntry:
    """Make the entry of an event, which is encoded here: an event that cannot be encoded fails alone.

    Args:
      entity: Whose event it is.
      event: To be written.
      snapshot: Written with it.
      once: Do not write it if the entity already has this impression.
    """
    return LogEntry(entity, event, _encoded(event), getattr(event, "impression", None), snapshot, once)


def kind_of(event: records.Event) -> str:
    """Return the kind under which an event is searched for: "final" for the last feedback, else its tag."""
    return "final" if isinstance(event, FeedbackReceived) and event.final else str(type(event).__struct_config__.tag)


def _bytes_of(ranked: Ranked) -> int:
    """Return an estimate of the memory of an impression; here, so that a request enters no further file."""
    return records.IMPRESSION_BYTES + records.ITEM_BYTES * len(ranked.ids) + len(ranked.features) + len(ranked.values)


def _encoded(event: records.Event) -> bytes:
    try:
        return records.encode(event)
    except (msgspec.MsgspecError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise InvalidInput(f"the event cannot be written to the log: {error}") from None


class RecentImpressions:
    """Impressions that were used last, each as of an event; later events of it are in the log.

    An impression without feedback is its record. What was not used for the longest time is dropped first.
    """

    def __init__(self, fold: FoldRecords, max_bytes: int = MAX_RECENT_BYTES) -> None:
        self.fold = fold
        self.max_bytes = max_bytes
        self.size = 0
        self._recent: OrderedDict[Key, tuple[Subject, int]] = OrderedDict()

    def get(self, key: Key) -> Subject:
        """Return an impression, if it is in memory."""
        return self._recent.get(key, (None, 0))[0]

    def put(self, key: Key, subject: Subject, size: int | None = None) -> None:
        """Add or replace an impression as the one that was used last; without a size, of the same size."""
        _, old_size = self._recent.pop(key, (None, 0))
        size = (old_size or records.IMPRESSION_BYTES) if size is None else size
        self._recent[key] = subject, size
        self.size += size - old_size
        while self.size > self.max_bytes:
            _, (_, oldest) = self._recent.popitem(last=False)
            self.size -= oldest

    def drop(self, keys: Iterable[Key]) -> None:
        """Remove impressions; they are read from the log when they are needed."""
        for key in keys:
            _, size = self._recent.pop(key, (None, 0))
            self.size -= size

    def clear(self) -> None:
        """Remove all impressions."""
        self._recent.clear()
        self.size = 0


class Batch:
    """Entries of one transaction: the store looks up `keys`, `watched` and `partitions`, then `settle` decides."""

    def __init__(self, entries: Sequence[LogEntry], recent: RecentImpressions) -> None:
        self.entries = entries
        self.results: list[Written | RankloopError] = []
        self._recent = recent
        self._sizes: dict[Key, int] = {}  # of impressions that were read from the log
        self.rows: list[LogRow] = []  # to write, once they are settled
        self._positions: list[int] = []  # of their entries
        keys = [(e.entity, e.impression) for e in entries if e.impression is not None and (e.once or e.settle)]
        self._subjects = {key: subject for key in keys if (subject := recent.get(key)) is not None}
        self.shown = {key: [each] for key, each in self._subjects.items() if isinstance(each, Record)}
        self.keys = {key: self._subjects[key].seq if key in self._subjects else 0 for key in keys}
        self.watched = {entry.entity: entry.unless_after for entry in entries if entry.unless_after is not None}
        self.partitions = sorted({entry.fence[0] for entry in entries if entry.fence is not None})
        changing = {entry.entity for entry in entries if entry.impression is None}
        self.locks = sorted({f"{entity} {name}" for entity, name in self.keys} | changing)

    def settle(self, records: Iterable[Record], changed: Mapping[str, int], fences: Mapping[int, int]) -> list[LogRow]:
        """Decide which rows are written."""
        for record in records:
            key = record.entity, record.event.impression  # type: ignore[attr-defined]
            subject = self._recent.fold([record], self._subject(key))
            if isinstance(record.event, Ranked):
                self._sizes[key] = _bytes_of(record.event)
            if subject is not None:
                self._subjects[key] = subject
        changes = dict(changed)
        for position, entry in enumerate(self.entries):
            try:
                self.results.append(self._settled(position, entry, changes, fences))
            except RankloopError as error:
                self.results.append(error)
            except Exception as error:  # the other entries are written
                logger.error("settle", exc_info=error)
                self.results.append(InvalidInput(f"the event cannot be written to the log: {error}"))
        return self.rows

    def number(self, first: int, at: float) -> None:
        """Take note that the rows were written."""
        for seq, (position, row) in enumerate(zip(self._positions, self.rows), first):
            self.results[position] = Written(self.results[position].verdict, seq, at)  # type: ignore[union-attr]
            if row.impression is None:
                continue
            key = row.entity, row.impression
            if isinstance(row.event, Ranked):
                self._subjects.pop(key, None)
                self._recent.put(key, Record(seq, row.entity, at, row.event), _bytes_of(row.event))
            elif key in self._subjects:
                self._subjects[key].seq = seq  # the impression was built when the event was settled
        for key, subject in self._subjects.items():
            self._recent.put(key, subject, self._sizes.get(key))

    def undo(self) -> None:
        """Drop the impressions after a failed write: the log may have them in another state."""
        self._recent.drop(list(self.keys))

    def _settled(self, position: int, entry: LogEntry, changes: dict[str, int], fences: Mapping[int, int]) -> Written:
        if entry.fence is not None and fences.get(entry.fence[0]) != entry.fence[1]:
            raise Superseded("another process learns this ranker now; nothing was written")
        if entry.unless_after is not None and changes.get(entry.entity, 0) > entry.unless_after:
            return Written("changed")
        key, verdict = (entry.entity, entry.impression or ""), "written"
        if entry.once and key in self._subjects:
            return Written("repeated")
        subject = self._subject(key)
        settled = entry.event if entry.settle is None else entry.settle(subject)
        if isinstance(settled, str):
            return Written(settled)
        if settled is None:
            raise InvalidInput("an entry needs an event, or `settle`")
        rows = []
        for event in settled if isinstance(settled, tuple) else (settled,):
            if isinstance(event, FeedbackReceived | OutcomesReceived | Closed):
                verdict = subject.add(event) if subject is not None else verdict
            elif isinstance(event, Ranked) and entry.once:
                self._subjects[key] = Record(0, entry.entity, 0.0, event)
            elif entry.impression is None:
                changes[entry.entity] = 2**63
            try:
                body = entry.body or _encoded(event)
            except InvalidInput:
                self._subjects.pop(key, None)
                self._recent.drop([key])  # the event was applied to it already
                raise
            rows.append(LogRow(entry.entity, kind_of(event), entry.impression, body, event, entry.snapshot))
        self.rows += rows
        self._positions += [position] * len(rows)
        return Written(verdict)

    def _subject(self, key: Key) -> Subject:
        subject = self._subjects.get(key)
        if isinstance(subject, Record):
            subject = self._subjects[key] = self._recent.fold([subject])
        return subject


class LogWriter:
    """Writes entries, many in one transaction: on a thread, or on the event loop while the disk is quick."""

    def __init__(self, store: Any, fold: FoldRecords, max_waiting_bytes: int = 2**63) -> None:
        self.store = store
        self.max_waiting_bytes = max_waiting_bytes  # of entries that wait; more are refused
        self.recent = RecentImpressions(fold)
        self._held: dict[str, asyncio.Event] = {}  # entities that may not be written now
        self.commits = 0
        self.commit_seconds = 0.0
        self.slowest_commit = 0.0  # since metrics were last read
        self._loop = asyncio.get_running_loop()
        self._pending: list[tuple[LogEntry | None, Any]] = []
        self._pending_bytes = 0
        self._wake = Condition()
        self._waiting = 0  # entries that the loop has gathered for the next transaction
        self._waiting_since = 0.0
        self._quick_commits = 0  # in a row
        self._committing = Lock()  # held by the loop or by the thread, whoever writes
        self._unwritten = Lock()  # acquired by the loop, released by the thread after a transaction
        self._stopped = False
        self._cleared = False
        self._failed_at = -math.inf
        self._thread = Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def append(self, entry: LogEntry | None) -> Awaitable[Written]:
        """Write an entry, if its entity is held later, or ask with None if the store is writable; done once durable."""
        if entry is not None and entry.entity in self._held:
            return self._append_later(entry)
        future: asyncio.Future[Written] = self._loop.create_future()
        self._put(entry, future)
        if not self._waiting:
            self._waiting_since = time.monotonic()
            self._loop.call_soon(self._wait_for_more, 0)
        self._waiting += 1
        return future

    async def _append_later(self, entry: LogEntry) -> Written:
        while entry.entity in self._held:
            await self._held[entry.entity].wait()
        return await self.append(entry)

    @asynccontextmanager
    async def holding(self, entity: str) -> AsyncIterator[None]:
        """Let entries of an entity wait meanwhile; earlier entries are durable when this begins."""
        while entity in self._held:
            await self._held[entity].wait()
        self._held[entity] = asyncio.Event()
        try:
            await self.append(None)
            yield
        finally:
            self._held.pop(entity).set()

    def _wait_for_more(self, previous: int) -> None:
        """Start the transaction once a turn of the loop has brought no more entries, or some have waited for long."""
        if self._waiting > previous and time.monotonic() - self._waiting_since < MAX_GATHER_SECONDS:
            self._loop.call_soon(self._wait_for_more, self._waiting)
        else:
            self._waiting = 0
            if self._quick_commits < MIN_QUICK_COMMITS or not self._write_on_loop():
                self._unwritten.acquire(blocking=False)
                with self._wake:
                    self._wake.notify()
                if self._quick_commits:  # waiting costs less than two threads that compete for the interpreter lock
                    self._unwritten.acquire(timeout=MAX_LOOP_BLOCK_SECONDS)

    def _write_on_loop(self) -> bool:
        """Write the next transaction without the thread, to which handing it over would cost more than the write."""
        if not self._committing.acquire(blocking=False):
            return False
        try:
            return self._write_next(self.store.append_at_once)
        finally:
            self._committing.release()

    def submit(self, entry: LogEntry) -> Future[Written]:
        """Write an entry from another thread than that of the event loop."""
        future: Future[Written] = Future()
        self._put(entry, future)
        with self._wake:
            self._wake.notify()
        return future

    @property
    def is_failing(self) -> bool:
        """True for a few seconds after a failed write, unless a later one has succeeded."""
        return time.monotonic() - self._failed_at < FAILING_SECONDS

    def clear_recent(self) -> None:
        """Read every impression from the log again, since past events have changed."""
        self._cleared = True

    async def stop(self) -> None:
        """Write the waiting entries, then stop."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
        await asyncio.to_thread(self._thread.join)
        await asyncio.sleep(0)  # lets the loop deliver the results of the last batch

    def _put(self, entry: LogEntry | None, future: Any) -> None:
        with self._wake:
            if self._stopped:
                raise Unavailable("the service is stopping; nothing of this request was kept")
            size = 0 if entry is None else len(entry.body)
            if size and self._pending_bytes + size > self.max_waiting_bytes:
                raise Unavailable(
                    f"{self._pending_bytes} bytes wait to be written to the log, near the limit; try again later"
                )
            self._pending_bytes += size
            self._pending.append((entry, future))

    def _write(self) -> None:
        while True:
            with self._wake:
                while not (self._pending or self._stopped):
                    self._wake.wait()
                if self._stopped and not self._pending:
                    return
            with self._committing:
                self._write_next(self.store.append)
            if self._unwritten.locked():
                self._unwritten.release()

    def _write_next(self, append: Callable[[Batch], Any]) -> bool:
        """Write the entries of one transaction; return False if the store has not tried to write them now."""
        with self._wake:
            n = _batch_size([entry for entry, _ in self._pending[:MAX_BATCH]])
            waiting, self._pending = self._pending[:n], self._pending[n:]
        if not waiting:
            return True
        if self._cleared:
            self._cleared = False
            self.recent.clear()
        batch = Batch([entry for entry, _ in waiting if entry is not None], self.recent)
        start_time = time.monotonic()
        try:
            if append(batch) is False:
                with self._wake:
                    self._pending = waiting + self._pending
                return False
            written = iter(batch.results)
            results: Any = [Written("available") if entry is None else next(written) for entry, _ in waiting]
        except Exception as error:
            batch.undo()
            self._quick_commits = 0
            self._failed_at = time.monotonic()
            if not isinstance(error, RankloopError):
                error = Unavailable(f"the log cannot be written now: {error}")
            results = [error] * len(waiting)
        else:
            self._failed_at = -math.inf
            seconds = time.monotonic() - start_time
            self._quick_commits = self._quick_commits + 1 if seconds < MAX_LOOP_BLOCK_SECONDS else 0
            self.commits += 1
            self.commit_seconds += seconds
            self.slowest_commit = max(self.slowest_commit, seconds)
        futures = [future for _, future in waiting]
        if current_thread() is self._thread:
            self._loop.call_soon_threadsafe(_set_results, futures, results)
        else:
            _set_results(futures, results)
        with self._wake:
            self._pending_bytes -= sum(len(entry.body) for entry, _ in waiting if entry is not None)
            return not self._pending


def _set_results(futures: Sequence[Any], results: Sequence[Written | RankloopError]) -> None:
    for future, result in zip(futures, results):
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)


def _batch_size(entries: Sequence[LogEntry | None]) -> int:
    """Return the number of entries of the next transaction, by their bytes and locks."""
    locks = size = 0
    for n, entry in enumerate(entries):
        if entry is not None:
            locks += entry.once or entry.settle is not None or entry.impression is None
            size += len(entry.body)
        if locks > MAX_LOCKS or (n and size > MAX_BATCH_BYTES):
            return n
    return len(entries)

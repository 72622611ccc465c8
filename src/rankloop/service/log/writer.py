"""Group commit: many requests wait for one transaction, and everyone sees the log in its one order."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Sequence
from threading import Condition, Thread
from typing import Any

import msgspec

from rankloop.core.errors import InvalidInput, RankloopError
from rankloop.service.errors import Unavailable
from rankloop.service.log.events import AnyEvent, Entry, Record, Snapshot, encode
from rankloop.service.log.stores.base import Store, Written

logger = logging.getLogger("rankloop.service")
MAX_BATCH = 512  # entries in one transaction
FAILING_SECONDS = 5.0  # since the last failure

Apply = Callable[[Record], Any]
Waiting = tuple[Entry | None, asyncio.Future[Any]]


def entry_of(entity: str, event: AnyEvent, snapshot: Snapshot | None = None, once: bool = False) -> Entry:
    """Encoded by whoever asks: what cannot be written fails alone, and not with all that is written in its batch."""
    try:
        body = encode(event)
    except (msgspec.MsgspecError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise InvalidInput(f"this cannot be written to the log: {error}") from None
    return Entry(entity, event, body, getattr(event, "impression", None), snapshot, once)


def numbers_of(entries: Sequence[Entry], last: int, known: Collection[tuple[str, str]]) -> list[int]:
    """The number that each entry gets after the last one; 0 for what is to be written once and is known already.

    `known` are entities with impressions; of two entries with one key in a batch the first is written.
    """
    numbers, taken = [], set(known)
    for entry in entries:
        key = entry.entity, entry.impression or ""
        if entry.once and key in taken:
            numbers.append(0)
            continue
        if entry.once:
            taken.add(key)
        last += 1
        numbers.append(last)
    return numbers


class LogWriter:
    """Writes entries and, once they are durable, applies them in order on the event loop.

    `append` returns what `apply` returned for its own record, and None where there is none. Nothing is applied that is
    not in the store, so memory is never ahead of the log; records that other processes wrote are applied on the way.
    """

    def __init__(self, store: Store, apply: Apply, last: int) -> None:
        self.store = store
        self.last = last
        self._apply = apply
        self._loop = asyncio.get_running_loop()
        self._pending: list[Waiting] = []
        self._wake = Condition()
        self._poll_due = False
        self._stopped = False
        self._failed_at = -math.inf
        self._read_until = last
        self._thread = Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    async def append(self, entry: Entry | None) -> Any:
        """Wait until the entry is durable and applied; without one, until all that others have written is applied."""
        future: asyncio.Future[Any] = self._loop.create_future()
        with self._wake:
            if self._stopped:
                raise Unavailable("the service is stopping; nothing of this request was kept")
            self._pending.append((entry, future))
            self._wake.notify()
        return await future

    @property
    def is_failing(self) -> bool:
        """Whether the newest write failed, a moment ago: nobody is sent away for long from what may be well again."""
        return time.monotonic() - self._failed_at < FAILING_SECONDS

    def poll(self) -> None:
        """Apply what others have written, soon."""
        with self._wake:
            self._poll_due = True
            self._wake.notify()

    async def stop(self) -> None:
        """Write what is waiting, then no more."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
        await asyncio.to_thread(self._thread.join)
        await asyncio.sleep(0)  # the last batch is applied by a call that is already on the loop

    def _write(self) -> None:
        while True:
            with self._wake:
                while not (self._pending or self._poll_due or self._stopped):
                    self._wake.wait()
                if self._stopped and not self._pending:
                    return
                batch, self._pending = self._pending[:MAX_BATCH], self._pending[MAX_BATCH:]
                self._poll_due = False
            self._commit(batch)

    def _commit(self, batch: list[Waiting]) -> None:
        try:
            written = self.store.append([entry for entry, _ in batch if entry is not None], self._read_until)
        except RankloopError as error:
            self._loop.call_soon_threadsafe(self._fail, batch, error)
        except Exception as error:
            self._loop.call_soon_threadsafe(self._fail, batch, Unavailable(f"the log cannot be written now: {error}"))
        else:
            if written.records:
                self._read_until = written.records[-1].seq
            self._loop.call_soon_threadsafe(self._settle, batch, written)

    def _settle(self, batch: list[Waiting], written: Written) -> None:
        self._failed_at = -math.inf
        futures = dict(zip(written.own, (future for entry, future in batch if entry is not None)))
        for record in written.records:
            self.last = record.seq
            future = futures.get(record.seq)
            try:
                verdict = self._apply(record)
            except Exception as error:
                if future is None:
                    logger.error("apply", exc_info=error)  # of another process; the records after it still count
                elif not future.done():
                    future.set_exception(error)
                continue
            if future is not None and not future.done():
                future.set_result(verdict)
        for _, future in batch:
            if not future.done():  # it came without an entry, or with one that was in the log already
                future.set_result(None)

    def _fail(self, batch: list[Waiting], error: RankloopError) -> None:
        self._failed_at = time.monotonic()
        for _, future in batch:
            if not future.done():
                future.set_exception(error)

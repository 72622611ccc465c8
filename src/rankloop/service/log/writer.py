"""Group commit: many requests wait for one transaction, and everyone sees the log in its one order."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from threading import Condition, Thread
from typing import Any

from rankloop.core.errors import RankloopError
from rankloop.service.errors import Unavailable
from rankloop.service.log.events import Entry, Record
from rankloop.service.log.stores.base import Store, Written

logger = logging.getLogger("rankloop.service")
AT_ONCE = 512  # entries in one transaction
AILING = 5.0  # seconds

Fold = Callable[[Record], Any]
Waiting = tuple[Entry | None, asyncio.Future[Any]]


class Log:
    """Writes entries and, once they are durable, folds them in order on the event loop.

    `append` returns what `fold` returned for its own record. Nothing is folded that is not in the store, so memory is
    never ahead of the log; records that other processes wrote are folded on the way.
    """

    def __init__(self, store: Store, fold: Fold, last: int) -> None:
        self.store = store
        self.last = last
        self._fold = fold
        self._loop = asyncio.get_running_loop()
        self._pending: list[Waiting] = []
        self._wake = Condition()
        self._look = False
        self._stopped = False
        self._failed_at = -math.inf
        self._read_until = last
        self._thread = Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    async def append(self, entry: Entry | None) -> Any:
        """Wait until the entry is durable and folded; without one, until all that others have written is folded."""
        future: asyncio.Future[Any] = self._loop.create_future()
        with self._wake:
            if self._stopped:
                raise Unavailable("the service is stopping; nothing of this request was kept")
            self._pending.append((entry, future))
            self._wake.notify()
        return await future

    @property
    def ails(self) -> bool:
        """Whether the newest write failed, a moment ago: nobody is sent away for long from what may be well again."""
        return time.monotonic() - self._failed_at < AILING

    def look(self) -> None:
        """Fold what others have written, soon."""
        with self._wake:
            self._look = True
            self._wake.notify()

    async def stop(self) -> None:
        """Write what is waiting, then no more."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
        await asyncio.to_thread(self._thread.join)
        await asyncio.sleep(0)  # the last batch is folded by a call that is already on the loop

    def _write(self) -> None:
        while True:
            with self._wake:
                while not (self._pending or self._look or self._stopped):
                    self._wake.wait()
                if self._stopped and not self._pending:
                    return
                batch, self._pending = self._pending[:AT_ONCE], self._pending[AT_ONCE:]
                self._look = False
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
                verdict = self._fold(record)
            except Exception as error:
                if future is None:
                    logger.error("fold", exc_info=error)  # of another process; the records after it still count
                elif not future.done():
                    future.set_exception(error)
                continue
            if future is not None and not future.done():
                future.set_result(verdict)
        for entry, future in batch:
            if entry is None and not future.done():
                future.set_result(None)

    def _fail(self, batch: list[Waiting], error: RankloopError) -> None:
        self._failed_at = time.monotonic()
        for _, future in batch:
            if not future.done():
                future.set_exception(error)

"""Group commit: a turn of the loop is one transaction, and the loop stands still for a short one only."""

from __future__ import annotations

import asyncio
import time
from threading import Event, current_thread
from typing import Any

from rankloop.service.domain.feedback_acceptance import impression_of
from rankloop.service.log import writer
from rankloop.service.log.writer import Batch, LogWriter, entry_of
from rankloop.service.records import LogEntry, Ranked
from tests.coroutines import run_coroutine


class Memory:
    """A store that keeps what it is given, and may be told to wait with it."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.threads: list[str] = []
        self.is_free = True
        self.go_on = Event()
        self.go_on.set()

    def append(self, batch: Batch) -> None:
        assert self.go_on.wait(30)
        rows = batch.settle((), {}, {})
        batch.number(sum(self.sizes) + 1, 0.0)
        self.sizes.append(len(rows))

    def append_at_once(self, batch: Batch) -> bool:
        self.threads.append(current_thread().name)
        if self.is_free:
            self.append(batch)
        return self.is_free


def entries(n: int, size: int = 0) -> list[LogEntry]:
    return [entry_of("ranker/a", Ranked(str(i), ["x"], bytes(size), [0])) for i in range(n)]


async def written(log: LogWriter, given: list[LogEntry]) -> list[int]:
    return [one.seq for one in await asyncio.gather(*map(log.append, given))]


def test_what_comes_in_one_turn_is_one_transaction() -> None:
    async def play() -> None:
        store: Any = Memory()
        log = LogWriter(store, impression_of)
        assert await written(log, entries(7)) == list(range(1, 8))
        assert await written(log, entries(2)) == [8, 9]
        assert (store.sizes, log.commits) == ([7, 2], 2)
        await log.stop()

    run_coroutine(play())


def test_the_loop_goes_on_though_a_transaction_takes_its_time() -> None:
    """The first is short, so the loop waits for the second; only the loop itself can let that one go on."""

    async def play() -> None:
        store: Any = Memory()
        log = LogWriter(store, impression_of)
        await written(log, entries(1))
        assert log._quick_commits
        store.go_on.clear()
        waiting = asyncio.create_task(written(log, entries(1)))
        await asyncio.sleep(10 * writer.MAX_LOOP_BLOCK_SECONDS)
        assert not waiting.done()
        store.go_on.set()
        assert await waiting == [2]
        assert not log._quick_commits  # the loop does not stand still for the next one
        await log.stop()

    run_coroutine(play())


def test_a_transaction_has_a_limit_in_bytes(monkeypatch: Any) -> None:
    monkeypatch.setattr(writer, "MAX_BATCH_BYTES", 2_500)

    async def play() -> None:
        store: Any = Memory()
        log = LogWriter(store, impression_of)
        assert await written(log, entries(5, 1_000)) == [1, 2, 3, 4, 5]
        assert await written(log, entries(2, 9_000)) == [6, 7]
        assert store.sizes == [2, 2, 1, 1, 1]
        await log.stop()

    run_coroutine(play())


def test_the_loop_writes_itself_while_the_disk_is_quick() -> None:
    async def play() -> None:
        store: Any = Memory()
        log = LogWriter(store, impression_of)
        for number in range(1, writer.MIN_QUICK_COMMITS + 1):
            assert await written(log, entries(1)) == [number]
        while log._quick_commits < writer.MIN_QUICK_COMMITS:  # on a busy machine some took long
            await written(log, entries(1))
        for _ in range(100):  # on a busy machine a slow commit gives the writing back to the thread
            store.threads.clear()
            last = sum(store.sizes)
            assert await written(log, entries(3)) == [last + 1, last + 2, last + 3]
            if store.threads == [current_thread().name]:
                break
        assert store.threads == [current_thread().name]
        last = sum(store.sizes) - 3
        store.is_free = False  # then the thread writes
        assert await written(log, entries(2)) == [last + 4, last + 5]
        assert log._pending_bytes == 0
        await log.stop()

    run_coroutine(play())


def test_one_slow_transaction_on_the_loop_returns_the_writing_to_the_thread() -> None:
    """And what it has written is acknowledged after the commit, never before."""

    async def play() -> None:
        store: Any = Memory()
        log = LogWriter(store, impression_of)
        await written(log, entries(1))
        while not log._wake._waiters:  # type: ignore[attr-defined]  # until the thread has nothing to do
            await asyncio.sleep(0.001)
        log._quick_commits = writer.MIN_QUICK_COMMITS
        future: Any = log.append(entries(1)[0])
        acknowledged = []

        def append_slowly(batch: Batch) -> None:
            acknowledged.append(future.done())
            time.sleep(2 * writer.MAX_LOOP_BLOCK_SECONDS)
            Memory.append(store, batch)
            acknowledged.append(future.done())

        store.append = append_slowly
        assert (await future).seq == 2
        assert (acknowledged, store.threads) == ([False, False], [current_thread().name])
        assert not log._quick_commits
        del store.append
        assert await written(log, entries(2)) == [3, 4]
        assert len(store.threads) == 1  # the thread has written these
        await log.stop()

    run_coroutine(play())

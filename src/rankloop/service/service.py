"""The service: rankers and experiments over one log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

from rankloop.core.errors import NotFound
from rankloop.service.hearing import Hearing
from rankloop.service.jobs.history import sample
from rankloop.service.jobs.leader_election import Sharing
from rankloop.service.jobs.retention import keep_short
from rankloop.service.jobs.upkeep import close_windows, guard, keep_snapshots, last_snapshot
from rankloop.service.log.events import Created, Entry, Experiment, Ranked, Record, entry_of
from rankloop.service.log.projection import Outcome, View
from rankloop.service.log.recovery import live_from, restored, restored_experiment
from rankloop.service.log.stores.base import SharedStore, Store
from rankloop.service.log.writer import Log
from rankloop.service.ranker.comparison import LiveExperiment
from rankloop.service.ranker.runtime import Live
from rankloop.service.settings import Settings


class Folded(NamedTuple):
    """What a record did, and when what it teaches is served."""

    outcome: Outcome
    learned: asyncio.Future[None] | None = None


class Service:
    """Everything behind the HTTP calls; `open` it on a running event loop.

    Here live the rankers and the experiments, and every event goes through `append`. What visitors ask for is in
    `using`, what the people who run it ask for in `managing`, what nobody asks for in `upkeep`.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.slot = store.slot if isinstance(store, SharedStore) else 0
        self.rankers: dict[str, Live] = {}
        self.experiments: dict[str, LiveExperiment] = {}
        self.hearing = Hearing(self)
        self.ready = False
        self.leads = not store.shared
        self.due: asyncio.Queue[Entry] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._spawned: set[asyncio.Task[None]] = set()
        self.log: Log

    async def open(self) -> None:
        last = await asyncio.to_thread(self._load)
        self.log = Log(self.store, self._fold, last)
        work = [close_windows(self), keep_snapshots(self), sample(self)]
        if isinstance(self.store, SharedStore):
            work.append(Sharing(self, self.store).work())
        if self.settings.keep_days is not None:
            work.append(keep_short(self, self.settings.keep_days))
        self._tasks = [asyncio.create_task(each) for each in work]
        self.ready = True

    async def close(self) -> None:
        """Finish what has begun, keep a snapshot of every ranker, and stop."""
        self.ready = False
        for task in [*self._tasks, *self._spawned]:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for live in self.rankers.values():
            await live.drained()
            if self.leads and not live.waits:
                await last_snapshot(self, live)
        await self.log.stop()
        for live in self.rankers.values():
            live.stop()
        await asyncio.to_thread(self.store.close)

    async def look_for(self, name: str) -> None:
        """Read what other workers have logged, if the name is not known here: it may be a moment old."""
        if self.store.shared and name not in self.rankers and name not in self.experiments:
            await self.log.append(None)

    def ranker(self, name: str) -> Live:
        live = self.rankers.get(name)
        if live is None:
            raise NotFound(f"there is no ranker {name!r}")
        return live

    def experiment(self, name: str) -> LiveExperiment:
        live = self.experiments.get(name)
        if live is None:
            raise NotFound(f"there is no experiment {name!r}")
        return live

    async def append(self, stream: str, event: Any) -> Folded:
        """Log an event, and wait until it is durable and folded."""
        folded: Folded = await self.log.append(entry_of(stream, event))
        return folded

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Work that nobody waits for; it is cancelled when the service closes."""
        task = asyncio.create_task(work)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)

    def _fold(self, record: Record) -> Folded:
        stream, event = record.stream, record.event
        kind, _, name = stream.partition("/")
        if isinstance(event, Created):
            if name in self.rankers:
                return Folded(Outcome("repeated"))
            self.rankers[name] = live_from(event, stream, self.store, self.due, self.slot)
            self.rankers[name].learns = self.leads
            return Folded(Outcome("created"))
        if isinstance(event, Experiment):
            if name in self.experiments:
                return Folded(Outcome("repeated"))
            self.experiments[name] = LiveExperiment(stream, event, self.rankers)
            return Folded(Outcome("created"))
        if kind == "experiment":
            return Folded(_folded(self.experiments[name].view, record, self.experiments[name].event.body.window))
        live = self.rankers[name]
        outcome = _folded(live.view, record, live.plan.body.window)
        if isinstance(event, Ranked) and outcome.verdict == "shown":
            live.view.open[event.impression].decided = live.decided_for(event)
        if outcome.verdict == "closed":
            guard(self, live)
        return Folded(outcome, live.teach(outcome.step) if outcome.step is not None else None)

    def _load(self) -> int:
        last = self.store.last()
        streams = self.store.streams()
        for stream in streams:
            kind, _, name = stream.partition("/")
            if kind == "ranker":
                self.rankers[name] = restored(stream, self.store, self.due, last, self.slot)
                self.rankers[name].learns = self.leads
        for stream in streams:
            kind, _, name = stream.partition("/")
            if kind == "experiment":
                self.experiments[name] = restored_experiment(stream, self.store, last, self.rankers)
        return last


def _folded(view: View, record: Record, window: float) -> Outcome:
    outcome = view.fold(record)
    if outcome.verdict == "shown":
        view.open[record.event.impression].deadline = time.monotonic() + window  # type: ignore[union-attr]
    return outcome

"""The service: rankers and experiments over one log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

from rankloop.core.errors import Conflict, NotFound
from rankloop.service.asking import asked_of
from rankloop.service.bodies import CreateBody, FeedbackAnswer, FeedbackBody, Id, RankAnswer, RankBody
from rankloop.service.errors import Unavailable
from rankloop.service.events import (
    Created,
    Entry,
    Experiment,
    Frozen,
    Ranked,
    Record,
    Resumed,
    RolledBack,
    experiment_stream,
    ranker_stream,
)
from rankloop.service.experiments import LiveExperiment
from rankloop.service.hearing import Hearing
from rankloop.service.live import Live, new_impression
from rankloop.service.log import Log
from rankloop.service.plan import check_builds, plan_of
from rankloop.service.retention import keep_short
from rankloop.service.settings import Settings
from rankloop.service.sharing import Sharing
from rankloop.service.starting import live_from, restored, restored_experiment
from rankloop.service.states import session_bytes
from rankloop.service.stores.port import SharedStore, Store
from rankloop.service.upkeep import close_windows, guard, keep_snapshots, last_snapshot
from rankloop.service.view import Outcome, View


class Folded(NamedTuple):
    """What a record did, and when what it teaches is served."""

    outcome: Outcome
    learned: asyncio.Future[None] | None = None


class Service:
    """Everything behind the HTTP calls; `open` it on a running event loop."""

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
        self._tasks = [asyncio.create_task(close_windows(self)), asyncio.create_task(keep_snapshots(self))]
        if isinstance(self.store, SharedStore):
            self._tasks.append(asyncio.create_task(Sharing(self, self.store).work()))
        if self.settings.keep_days is not None:
            self._tasks.append(asyncio.create_task(keep_short(self, self.settings.keep_days)))
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
            if self.leads:
                await last_snapshot(self, live)
        await self.log.stop()
        for live in self.rankers.values():
            live.stop()
        await asyncio.to_thread(self.store.close)

    async def create(self, name: str, body: CreateBody, start: bytes = b"", source: str = "") -> bool:
        """Whether the ranker is new; the same again changes nothing, another under the same name is a `Conflict`."""
        plan = plan_of(body)
        check_builds(plan)
        if name not in self.rankers:
            if len(self.rankers) >= self.settings.max_rankers:
                raise Conflict(f"there are {len(self.rankers)} rankers already, which is the limit")
            folded = await self.append(ranker_stream(name), Created(plan.body, start, source))
            if folded.outcome.verdict == "created":
                return True
        if self.rankers[name].plan.body != plan.body or start:
            raise Conflict(f"the ranker {name!r} exists already, with other settings")
        return False

    def ranker(self, name: str) -> Live:
        live = self.rankers.get(name)
        if live is None:
            raise NotFound(f"there is no ranker {name!r}")
        return live

    async def rank(self, name: str, body: RankBody, key: str | None = None) -> RankAnswer:
        live = self.ranker(name)
        asked = asked_of(body, live.plan, self.settings.max_items)
        impression = new_impression(key)
        if key is not None:
            before = await self._ranked_before(live.stream, live.view, impression)
            if before is not None:
                if before.features != asked.features.tobytes() or before.ids != asked.ids:
                    raise Conflict("this Idempotency-Key was used for another ranking")
                return answer_of(before)
        self._check_room(live.view)
        ranked = live.rank(asked, impression)
        try:
            folded = await self.append(live.stream, ranked)
        finally:
            live.deciding.pop(impression, None)
        if folded.outcome.verdict == "repeated":  # the same request, twice at the same moment
            return answer_of(live.view.open[impression].ranked)
        return answer_of(ranked)

    async def feedback(self, name: str, body: FeedbackBody) -> FeedbackAnswer:
        live = self.ranker(name)
        verdict = await self.hearing.hear(live.stream, live.view, live.plan, body)
        return FeedbackAnswer(body.impression, verdict, live.published.number)

    async def freeze(self, name: str, reason: str) -> None:
        await self.append(self.ranker(name).stream, Frozen(reason))

    async def resume(self, name: str) -> None:
        await self.append(self.ranker(name).stream, Resumed())

    async def rollback(self, name: str, number: int | None) -> int:
        """Go back to a snapshot (the newest, unless said); the generator goes on from where it is."""
        live = self.ranker(name)
        known = [0] + [row[0] for row in await asyncio.to_thread(self.store.snapshots, live.stream)]
        to = known[-1] if number is None else number
        if to not in known:
            raise NotFound(f"there is no snapshot of state {to}; there are those of {', '.join(map(str, known))}")
        await self._learned(live.stream, RolledBack(to, "asked for"))
        return to

    async def clone(self, name: str, new: str) -> bool:
        """A new ranker that begins with the state of this one."""
        live = self.ranker(name)
        start = await asyncio.to_thread(session_bytes, live.serving)
        if new in self.rankers:
            raise Conflict(f"the ranker {new!r} exists already")
        return await self.create(new, live.plan.body, start, name)

    async def experiment_feedback(self, name: str, body: FeedbackBody) -> FeedbackAnswer:
        live = self.experiment(name)
        return FeedbackAnswer(body.impression, await self.hearing.hear(live.stream, live.view, live.plan, body), 0)

    async def create_experiment(self, name: str, event: Experiment) -> bool:
        LiveExperiment(experiment_stream(name), event, self.rankers)
        if name not in self.experiments:
            folded = await self.append(experiment_stream(name), event)
            if folded.outcome.verdict == "created":
                return True
        if self.experiments[name].event.body != event.body:
            raise Conflict(f"the experiment {name!r} exists already, with other settings")
        return False

    def experiment(self, name: str) -> LiveExperiment:
        live = self.experiments.get(name)
        if live is None:
            raise NotFound(f"there is no experiment {name!r}")
        return live

    async def experiment_rank(self, name: str, body: RankBody) -> RankAnswer:
        live = self.experiment(name)
        asked = asked_of(body, live.plan, self.settings.max_items)
        self._check_room(live.view)
        ranked = live.rank(asked, new_impression(None))
        await self.append(live.stream, ranked)
        return answer_of(ranked)

    async def append(self, stream: str, event: Any) -> Folded:
        """Log an event, and wait until it is durable and folded."""
        impression = getattr(event, "impression", None)
        folded: Folded = await self.log.append(Entry(stream, event, impression))
        return folded

    async def _learned(self, stream: str, event: Any) -> None:
        folded = await self.append(stream, event)
        if folded.learned is not None:
            await folded.learned

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
            live.view.open[event.impression].decided = live.deciding.pop(event.impression, None)
        if outcome.verdict == "closed":
            guard(self, live)
        return Folded(outcome, live.teach(outcome.step) if outcome.step is not None else None)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Work that nobody waits for; it is cancelled when the service closes."""
        task = asyncio.create_task(work)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)

    async def _ranked_before(self, stream: str, view: View, impression: str) -> Ranked | None:
        known = view.open.get(impression)
        if known is not None:
            return known.ranked
        records = await asyncio.to_thread(self.store.of_impression, stream, impression)
        return next((record.event for record in records if isinstance(record.event, Ranked)), None)

    def _check_room(self, view: View) -> None:
        if len(view.open) >= self.settings.max_open:
            raise Unavailable(f"{len(view.open)} impressions wait for feedback, which is the limit; try again later")

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


def answer_of(ranked: Ranked) -> RankAnswer:
    """What the asker is told."""
    ids: list[Id] = ranked.ids
    return RankAnswer(ranked.impression, [ids[i] for i in ranked.shown], ranked.state, ranked.log_propensity)


def _folded(view: View, record: Record, window: float) -> Outcome:
    outcome = view.fold(record)
    if outcome.verdict == "shown":
        view.open[record.event.impression].deadline = time.monotonic() + window  # type: ignore[union-attr]
    return outcome

"""A ranker in service: rankings from the newest published state, lessons on a thread of its own."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
from numpy.random import PCG64

from rankloop.core.plain import decision_to_plain, to_plain
from rankloop.core.saved_session import dumps, loads
from rankloop.core.session import Session
from rankloop.core.types import Ints
from rankloop.interleaving import interleave
from rankloop.service.jobs.history import Curve
from rankloop.service.log.events import Entry, Ranked, Snapshot, Snapshotted, entry_of
from rankloop.service.log.projection import TEAM_DRAFT, View
from rankloop.service.log.stores.base import Store
from rankloop.service.ranker.config import Plan
from rankloop.service.ranker.query import Asked, base_ranking, explored, is_plain, shown_order
from rankloop.service.ranker.trainer import Decided, Learning, Published, Step, digest, position_of, positioned


class Live:
    """One ranker. Everything but `_teach` runs on the event loop, so a ranking and its state number belong together."""

    def __init__(
        self, stream: str, plan: Plan, start: bytes, store: Store, due: asyncio.Queue[Entry], slot: int = 0
    ) -> None:
        self.stream = stream
        self.plan = plan
        self.store = store
        self.slot = slot
        self.view = View(plan)
        self.learning = Learning(plan, start)
        self.curve = Curve()
        self.learns = True  # false where another process holds the lease
        self.waits = False  # true while this process, new to the lease, is still reading what was learned
        self.serving = Session(plan.learner, plan.problem, plan.body.seed)
        self.published = self.learning.published()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"learn {stream}")
        self._steps: list[tuple[Step, asyncio.Future[None]]] = []
        self._busy: asyncio.Task[None] | None = None
        self.deciding: dict[str, tuple[Ranked, Decided]] = {}  # until they are in the log
        self.guarding = False  # true while the guard's word is on its way to the log
        self._due = due  # snapshots, to be written to the log
        self._lottery = np.random.default_rng([plan.body.seed, time.time_ns()])
        self.start_serving()

    def start_serving(self) -> None:
        """Take up the newest state, and the generator where the last logged decision left it."""
        generator = self.serving.snapshot()[1]
        if self.slot in self.view.positions:
            generator = positioned(generator, self.view.positions[self.slot])
        elif self.slot:
            jumping = PCG64()
            jumping.state = cast(Any, generator)
            generator = dict(jumping.jumped(self.slot).state)
        self.publish(self.learning.published(), generator)

    def publish(self, published: Published, generator: dict[str, Any] | None = None) -> None:
        here = self.serving.snapshot()[1] if generator is None else generator
        self.serving.restore(published.state, here, published.learned, published.refused)
        self.published = published

    def rank(self, asked: Asked, impression: str) -> Ranked:
        """A decision as an event; it counts once it is in the log."""
        body = self.plan.body
        if body.evaluation_share and self._lottery.random() < body.evaluation_share:
            return self._compare(asked, impression)
        decision = self.serving.rank(asked.query)
        order, plain = decision.ranking, is_plain(asked, self.plan)
        propensity = float(decision.log_propensity)
        if body.shadow:
            order, propensity = base_ranking(asked, self.plan), 0.0
        known = plain and bool(np.isfinite(propensity))
        ranked = self._event(
            asked,
            impression,
            order,
            decision=decision_to_plain(decision),
            teaches=plain,
            log_propensity=propensity if known else None,
            explored=explored(decision.ranking, self.serving.predict(asked.query), self.plan.problem.shown),
            position=position_of(self.serving),
            slot=self.slot,
        )
        self.deciding[impression] = ranked, Decided(asked.query, decision)
        return ranked

    def decided_for(self, ranked: Ranked) -> Decided | None:
        """What this very event decodes to, if it was drawn here: of two with one key, only one is in the log."""
        known, decided = self.deciding.pop(ranked.impression, (None, None))
        return decided if known is ranked else None

    def _compare(self, asked: Asked, impression: str) -> Ranked:
        """Prediction and base order as one list: it shows what the ranker knows, and teaches nobody."""
        predicted, base = self.serving.predict(asked.query), base_ranking(asked, self.plan)
        mixed = interleave(TEAM_DRAFT, predicted, base, self._lottery)
        return self._event(asked, impression, mixed.ranking, mixed=to_plain(mixed), teaches=False)

    def _event(self, asked: Asked, impression: str, order: Ints, **more: Any) -> Ranked:
        return Ranked(
            impression=impression,
            ids=asked.ids,
            features=asked.features.tobytes(),
            shown=shown_order(asked, order),
            query_id=asked.query.id,
            context=asked.query.context.tolist(),
            asked=asked.asked,
            state=self.published.number,
            **more,
        )

    def teach(self, step: Step) -> asyncio.Future[None]:
        """Learn from this after everything before it; the future is done when the new state is served."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self.learns:
            done.set_result(None)
            return done
        self._steps.append((step, done))
        self._go_on()
        return done

    def step_down(self) -> None:
        """Another process learns; it finds in the log what waits here."""
        self.learns = self.waits = False
        steps, self._steps = self._steps, []
        for _, done in steps:
            done.set_result(None)

    def take_over(self, learning: Learning) -> None:
        """Learn from here on, beginning with the steps that have come meanwhile."""
        self.learning, self.waits = learning, False
        self.publish(learning.published())
        self._go_on()

    def _go_on(self) -> None:
        if not self.waits and (self._busy is None or self._busy.done()):
            self._busy = asyncio.create_task(self._learn())

    async def drained(self) -> None:
        while self._busy is not None and not self._busy.done():
            await self._busy

    async def _learn(self) -> None:
        while self._steps and not self.waits:
            steps, self._steps = self._steps, []
            loop = asyncio.get_running_loop()
            published, snapshots = await loop.run_in_executor(self._thread, self._teach, [step for step, _ in steps])
            self.publish(published)
            for entry in snapshots:
                self._due.put_nowait(entry)
            for _, done in steps:
                done.set_result(None)

    def _teach(self, steps: list[Step]) -> tuple[Published, list[Entry]]:
        snapshots = []
        for step in steps:
            self.learning.take(step, self.state_at)
            if step.mark is not None:
                snapshots.append(self.snapshot(step.mark.view, step.mark.oldest_open))
        return self.learning.published(), snapshots

    def snapshot(self, view: bytes, oldest_open: int) -> Entry:
        learning = self.learning
        seq, number = learning.seq, learning.number
        kept = Snapshot(self.stream, number, seq, dumps(learning.session), view, learning.unfit, oldest_open)
        return entry_of(self.stream, Snapshotted(number, seq, digest(learning.session.state)), kept)

    def state_at(self, number: int) -> Any:
        """The state of a snapshot."""
        if number == 0:
            return self.learning.first
        found = self.store.snapshot(self.stream, number)
        return loads(found.session).state if found else self.learning.first

    def stop(self) -> None:
        self._thread.shutdown(wait=True)

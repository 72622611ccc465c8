"""A ranker in service: rankings from the newest published state, lessons on a thread of its own."""

import asyncio
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from threading import Event as Flag
from typing import Any, cast

import numpy as np
from numpy.random import PCG64

from rankloop.core.adapter import QueryRequest
from rankloop.core.errors import Rejected
from rankloop.core.kernels import discounts, ranking_of
from rankloop.core.plain import decision_to_plain, to_plain
from rankloop.core.saved_session import dumps, loads
from rankloop.core.session import Session
from rankloop.core.types import Ints, Rows
from rankloop.interleaving import interleave
from rankloop.service.errors import Unavailable
from rankloop.service.jobs.history import Curve
from rankloop.service.log.catalogue import Catalogue
from rankloop.service.log.events import Entry, Ranked, Snapshot, Snapshotted
from rankloop.service.log.projection import TEAM_DRAFT, OpenImpression, Projection
from rankloop.service.log.stores.base import Store
from rankloop.service.log.values import packed
from rankloop.service.log.writer import entry_of
from rankloop.service.ranker.config import RankerConfig
from rankloop.service.ranker.trainer import (
    Evolution,
    Lesson,
    LoggedDecision,
    PublishedState,
    Step,
    Trainer,
    digest,
    evolved_session,
    fitted,
)
from rankloop.service.requests import CreateBody

DISCOUNTS = discounts(1000)  # of every list that is not longer
MAX_ENCODED = 1000  # open impressions whose encoded rows are kept; those of others are encoded again
RECENT = 20  # impressions whose names the weights are told of
RETRY = 0.2  # seconds, while the log cannot be read
LOG_PER_SNAPSHOT = 4  # bytes of the log for every byte of a snapshot of a large state


class RankerRuntime:
    """One ranker. All but `_learn_steps` runs on the event loop, so a ranking and its state number belong together."""

    def __init__(
        self,
        entity: str,
        config: RankerConfig,
        start: bytes,
        store: Store,
        due: asyncio.Queue[Entry],
        slot: int = 0,
        catalogue: Catalogue | None = None,
    ) -> None:
        self.entity = entity
        self.config = config
        self.store = store
        self.slot = slot
        self.projection = Projection(config)
        self.catalogue = catalogue
        self.trainer = Trainer(config, start, catalogue)
        self.curve = Curve()
        self.trains = True  # false where another process holds the lease
        self.catching_up = False  # true while this process, new to the lease, is still reading what was learned
        self.serving = Session(config.learner, config.problem, config.body.seed)
        self.published = self.trainer.published()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"learn {entity}")
        self._steps: list[tuple[Step, asyncio.Future[None]]] = []
        self._busy: asyncio.Task[None] | None = None
        self.unlogged: dict[str, tuple[Ranked, LoggedDecision]] = {}  # until they are in the log
        self.recent: deque[Ranked] = deque(maxlen=RECENT)  # where there is a schema
        self.snapshot_size = 0  # bytes of the last snapshot
        self._written_before = 0  # bytes of the log that it made unnecessary
        self._encoded: deque[OpenImpression] = deque()
        self.guarding = False  # true while the guard's word is on its way to the log
        self._stopping = Flag()
        self._due = due  # snapshots, to be written to the log
        self._lottery = np.random.default_rng([config.body.seed, time.time_ns()])
        self.start_serving()

    @property
    def body(self) -> CreateBody:
        """What it was created with."""
        return self.config.body

    def start_serving(self) -> None:
        """Take up the newest state, and the generator where the last logged decision left it."""
        generator = self.serving.snapshot()[1]
        if self.slot in self.projection.generators:
            state, inc = (int(part, 16) for part in self.projection.generators[self.slot].split("/"))
            generator |= {"state": {"state": state, "inc": inc}, "has_uint32": 0, "uinteger": 0}
        elif self.slot:
            jumping = PCG64()
            jumping.state = cast(Any, generator)
            generator = dict(jumping.jumped(self.slot).state)
        self.publish(self.trainer.published(), generator)

    def publish(self, published: PublishedState, generator: dict[str, Any] | None = None) -> None:
        generator = self.serving.snapshot()[1] if generator is None else generator
        published = published._replace(state=fitted(published.state, self.config))
        self.serving.restore(published.state, generator, published.learned, published.refused)
        self.published = published

    def evolve(self, step: Evolution) -> None:
        """Rank by the next version of the schema; the trainer comes to it after all that is before it in the log."""
        self.config, self.serving = step.config, evolved_session(self.serving, step.config)
        self.published = self.published._replace(state=self.serving.state)

    def rank(self, request: QueryRequest, impression: str, compared: bool | None = None) -> Ranked:
        """A decision as an event; it counts once it is in the log. `compared` with the base order, or None by lot."""
        body = self.body
        if compared is None:
            compared = bool(body.evaluation_share) and self._lottery.random() < body.evaluation_share
        if compared and self.config.base_column is None:
            raise Rejected("compared", "this ranker has no base to be compared with")
        if compared:
            return self._compare(request, impression)
        decision = self.serving.rank(request.query)
        order, trainable = decision.ranking, request.shows_as_ranked(self.config.problem)
        propensity = float(decision.log_propensity)
        if body.shadow:
            order, propensity = self._base_ranking(request), 0.0
        generator = self.serving.generator["state"]
        ranked = self._event(
            request,
            impression,
            order,
            decision=decision_to_plain(decision),
            trainable=trainable,
            log_propensity=propensity if trainable and np.isfinite(propensity) else None,
            explored=self._explored(decision.ranking, self.serving.predict(request.query)),
            generator=f"{generator['state']:x}/{generator['inc']:x}",
            slot=self.slot,
        )
        self.unlogged[impression] = ranked, LoggedDecision(request.query, decision)
        return ranked

    def logged_for(self, ranked: Ranked) -> LoggedDecision | None:
        """What this very event decodes to, if it was drawn here: of two with one key, only one is in the log."""
        known, logged = self.unlogged.pop(ranked.impression, (None, None))
        return logged if known is ranked else None

    def note(self, impression: OpenImpression) -> None:
        """An impression was logged: what this process knows of it beside the event is kept, for the newest ones."""
        ranked = impression.ranked
        impression.logged = self.logged_for(ranked)
        if not ranked.schema:
            return
        self.recent.append(ranked)
        if impression.logged is not None:
            self._encoded.append(impression)
        if len(self._encoded) > MAX_ENCODED:
            self._encoded.popleft().logged = None

    def _base_ranking(self, request: QueryRequest) -> Ints:
        """Today's order."""
        features, column = request.query.features, self.config.base_column
        numbers = features.dense if type(features) is Rows else features
        return ranking_of(np.ascontiguousarray(numbers[:, column]))

    def _explored(self, ranking: Ints, predicted: Ints) -> float:
        """The share of the seen positions, by their DCG discount, at which another than the predicted item stands."""
        shown = self.config.problem.shown
        seen = len(ranking) if shown is None else min(shown, len(ranking))
        weights = DISCOUNTS[:seen] if seen <= len(DISCOUNTS) else discounts(seen)
        return float(weights[ranking[:seen] != predicted[:seen]].sum() / weights.sum())

    def _compare(self, request: QueryRequest, impression: str) -> Ranked:
        """Prediction and base order as one list: it shows what the ranker knows, and nobody learns from it."""
        predicted, base = self.serving.predict(request.query), self._base_ranking(request)
        mixed = interleave(TEAM_DRAFT, predicted, base, self._lottery)
        return self._event(request, impression, mixed.ranking, mixed=to_plain(mixed), trainable=False)

    def _event(self, request: QueryRequest, impression: str, ranking: Ints, **more: Any) -> Ranked:
        if request.values is not None:
            more |= values_of(request)
        return Ranked(
            impression=impression,
            ids=request.ids,
            features=request.features.tobytes(),
            order=request.shown_order(ranking),
            query_id=request.query.id,
            context=request.query.context.tolist(),
            candidates=request.candidates,
            state_number=self.published.number,
            base_model=request.base_model,
            **more,
        )

    def learn(self, step: Step) -> asyncio.Future[None]:
        """Learn from this after everything before it; the future is done when the new state is served."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self.trains:
            done.set_result(None)
            return done
        self._steps.append((step, done))
        self._continue()
        return done

    def follow(self) -> None:
        """Another process learns; it finds in the log what waits here."""
        self.trains = self.catching_up = False
        steps, self._steps = self._steps, []
        for _, done in steps:
            done.set_result(None)

    def lead(self, trainer: Trainer) -> None:
        """Learn from here on, beginning with the steps that have come meanwhile."""
        self.trainer, self.catching_up = trainer, False
        self.publish(trainer.published())
        self._continue()

    def _continue(self) -> None:
        if not self.catching_up and (self._busy is None or self._busy.done()):
            self._busy = asyncio.create_task(self._learn())

    async def drained(self) -> None:
        while self._busy is not None and not self._busy.done():
            await self._busy

    async def _learn(self) -> None:
        while self._steps and not self.catching_up:
            steps, self._steps = self._steps, []
            loop = asyncio.get_running_loop()
            try:
                published, snapshots = await loop.run_in_executor(
                    self._thread, self._learn_steps, [step for step, _ in steps]
                )
            except Unavailable as error:  # the service stops; the log has the steps, and the next start learns them
                self.catching_up = True
                steps, self._steps = [*steps, *self._steps], []
                for _, done in steps:
                    done.set_exception(error)
                return
            self.publish(published)
            for entry in snapshots:
                self._due.put_nowait(entry)
            for _, done in steps:
                done.set_result(None)

    def _learn_steps(self, steps: list[Step]) -> tuple[PublishedState, list[Entry]]:
        snapshots = []
        for step in steps:
            self.trainer.learn(step, self._state_when_readable)
            if step.mark is not None and self._is_due(step):
                snapshots.append(self.snapshot(step.mark.projection, step.mark.oldest_open))
        return self.trainer.published(), snapshots

    def _is_due(self, step: Step) -> bool:
        """A large state is written only when the log since the last time is larger by far: it is read again instead."""
        if not isinstance(step, Lesson) or not self.config.encoders:
            return True
        return self.projection.written - self._written_before >= LOG_PER_SNAPSHOT * self.snapshot_size

    def snapshot(self, projection: bytes, oldest_open: int) -> Entry:
        trainer = self.trainer
        seq, number = trainer.seq, trainer.number
        content = dumps(trainer.session, trainer.config.schema_notes())
        self._written_before, self.snapshot_size = self.projection.written, len(content)
        kept = Snapshot(self.entity, number, seq, content, projection, trainer.rejected, oldest_open)
        return entry_of(self.entity, Snapshotted(number, seq, digest(trainer.session.state)), kept)

    def state_at(self, number: int) -> Any:
        """The state of a snapshot."""
        if number == 0:
            return self.trainer.first
        found = self.store.snapshot(self.entity, number)
        return loads(found.session).state if found else self.trainer.first

    def _state_when_readable(self, number: int) -> Any:
        """The same, as often as the log cannot be read just now: a step that is in the log is not passed over."""
        while True:
            try:
                return self.state_at(number)
            except Unavailable:
                if self._stopping.wait(RETRY):
                    raise

    def give_up(self) -> None:
        """Do not wait any longer for a log that cannot be read."""
        self._stopping.set()

    def stop(self) -> None:
        self.give_up()
        self._thread.shutdown(wait=True)


def values_of(request: QueryRequest) -> dict[str, Any]:
    """What an event says of a request by names."""
    values = request.values
    if values is None:
        return {}
    kept = packed(values.rows, values.context)
    return {"values": kept, "at": values.at, "schema": values.schema, "catalogue": request.catalogue}

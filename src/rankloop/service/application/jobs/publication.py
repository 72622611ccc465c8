"""Publishing: the newest states for workers that do not learn them, as often as their size allows."""

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from rankloop.core.saved_session import dumps
from rankloop.core.session import Session
from rankloop.service.domain.configuration import RankerConfig
from rankloop.service.domain.projection import PublishedState
from rankloop.service.errors import Superseded, Unavailable
from rankloop.service.records import partition_of
from rankloop.service.stores.base import Lease, Publication, SharedStore

EVERY = 0.05  # seconds between two publications
COUNTS_EVERY = 0.5  # seconds, where only counts have changed
MAX_BATCH, MAX_BYTES = 100, 1_000_000  # of what is published in one transaction
PAUSE = 4.0  # times as long as it took to publish a state, before it is published again: large ones come less often
logger = logging.getLogger("rankloop.service")


Waiting = tuple[PublishedState, RankerConfig | None]


class Publisher:
    """Writes states beside the log, on a thread; of a state that changes quickly only the newest."""

    def __init__(self, store: SharedStore) -> None:
        self.store = store
        self._waiting: dict[str, Waiting] = {}
        self._last: dict[str, tuple[int, ...]] = {}  # of the states that were published last
        self._not_before: dict[str, tuple[float, float]] = {}  # a state that is new, and counts alone
        self._next = 0.0
        self._busy: Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="publish")

    def publish(
        self,
        published: list[tuple[str, PublishedState]],
        consumers: Mapping[str, Any],
        leases: Mapping[int, Lease],
        at_once: bool = False,
    ) -> None:
        """Take these into account; `at_once` waits until all is published."""
        for entity in [entity for entity in self._waiting if entity not in consumers]:
            del self._waiting[entity]  # it was deleted
        for entity, state in published:
            trainer = consumers[entity].trainer
            self._waiting[entity] = state, None if trainer is None else trainer.config
        if at_once:
            if self._busy is not None:
                self._busy.result()
            self._not_before.clear()
            self._write(self._unpublished(self._due()), dict(leases))
            return
        now = time.monotonic()
        if self._waiting and now >= self._next and (self._busy is None or self._busy.done()):
            self._next = now + EVERY
            due = self._due()
            if due:
                self._busy = self._thread.submit(self._write, due, dict(leases))

    @property
    def is_waiting(self) -> bool:
        """Whether something is known that is not published yet."""
        return bool(self._waiting)

    def stop(self) -> None:
        self._thread.shutdown(wait=True)

    def _due(self) -> dict[str, Waiting]:
        now = time.monotonic()
        due = {entity: each for entity, each in self._waiting.items() if self._is_due(entity, each[0], now)}
        for entity in due:
            del self._waiting[entity]
        return due

    def _is_due(self, entity: str, state: PublishedState, now: float) -> bool:
        """A state as soon as its size allows; counts alone wait for longer."""
        never = 0.0, 0.0
        may_state, may_counts = self._not_before.get(entity, never)
        return now >= may_counts or (now >= may_state and self._last.get(entity) != _counts(state))

    def _unpublished(self, due: dict[str, Waiting]) -> dict[str, Waiting]:
        """Without those that are there already: whoever takes over ten thousand rankers publishes what has changed."""
        published: dict[str, int] = {}
        with suppress(Unavailable):
            published = self.store.published_seqs()
        return {entity: each for entity, each in due.items() if published.get(entity, 0) < each[0].seq}

    def _write(self, due: dict[str, Waiting], leases: dict[int, Lease]) -> None:
        by_partition: dict[int, list[str]] = {}
        for entity in due:
            by_partition.setdefault(partition_of(entity, self.store.partitions), []).append(entity)
        for partition, entities in by_partition.items():
            lease = leases.get(partition)
            if lease is None:
                continue
            try:
                self._write_partition(lease, {entity: due[entity] for entity in entities})
            except Superseded:
                pass  # another learns them now, and publishes
            except Unavailable as error:
                logger.warning(str(error))
                for entity in entities:
                    self._waiting.setdefault(entity, due[entity])
            except Exception as error:
                logger.error("publish", exc_info=error)

    def _write_partition(self, lease: Lease, due: dict[str, Waiting]) -> None:
        begun, size = time.monotonic(), 0
        publications: list[Publication] = []
        for number, (entity, (state, config)) in enumerate(due.items(), 1):
            session = _session(state, config) if self._last.get(entity) != _counts(state) else None
            publications.append(Publication(entity, state.number, state.seq, state.rejected, session, state.projection))
            size += len(session or b"")
            if size < MAX_BYTES and len(publications) < MAX_BATCH and number < len(due):
                continue
            self.store.publish(publications, lease)
            now = time.monotonic()
            for each in publications:
                self._last[each.entity] = _counts(due[each.entity][0])
                pause = PAUSE * (now - begun)
                self._not_before[each.entity] = now + pause, now + max(pause, COUNTS_EVERY)
            begun, size, publications = now, 0, []


def _counts(state: PublishedState) -> tuple[int, ...]:
    """What changes whenever the state does."""
    return state.number, state.learned, state.refused, state.rejected


def _session(published: PublishedState, config: RankerConfig | None) -> bytes:
    """The state as a saved session, with the versions of its schema."""
    if config is None:
        return b""
    session = Session(config.learner, config.problem, config.body.seed)
    _, generator, _, _ = session.snapshot()
    session.restore(published.state, generator, published.learned, published.refused)
    return dumps(session, config.schema_notes())

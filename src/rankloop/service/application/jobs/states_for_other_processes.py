"""Publication of the newest states for processes that do not learn them, as often as their size allows."""

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rankloop.core.saved_session import dumps
from rankloop.core.session import Session
from rankloop.service.domain.configuration import RankerConfig
from rankloop.service.domain.trainer import PublishedState
from rankloop.service.errors import Superseded, Unavailable
from rankloop.service.records import partition_of
from rankloop.service.stores.base import Lease, Publication

if TYPE_CHECKING:
    from rankloop.service.stores.postgres import PostgresStore

PUBLISH_SECONDS = 0.05  # between two publications
PUBLISH_COUNTS_SECONDS = 0.5  # between two publications of an entity of which only counts have changed
MAX_BATCH, MAX_BATCH_BYTES = 100, 1_000_000  # states of one transaction, and their bytes
PAUSE_FACTOR = 4.0  # pause after a publication, as a multiple of its duration: large states are published less often
UnpublishedState = tuple[PublishedState, RankerConfig | None]
logger = logging.getLogger("rankloop.service")


class Publisher:
    """Writes the newest states to the store, on a thread."""

    def __init__(self, store: "PostgresStore") -> None:
        self.store = store
        self.waiting: dict[str, UnpublishedState] = {}  # states to be published
        self._last: dict[str, tuple[int, ...]] = {}  # versions of the states that were published last
        self._not_before: dict[str, tuple[float, float]] = {}  # by entity: for a new state, and for counts alone
        self._next_at = 0.0
        self._busy: Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="publish")

    def publish(
        self,
        published: Sequence[tuple[str, PublishedState]],
        consumers: Mapping[str, Any],
        leases: Mapping[int, Lease],
        at_once: bool = False,
    ) -> None:
        """Publish new states by entity soon, or wait until everything is published; `consumers` are learned here."""
        for entity in [entity for entity in self.waiting if entity not in consumers]:
            del self.waiting[entity]  # it is not learned here any more
        for entity, state in published:
            trainer = consumers[entity].trainer
            self.waiting[entity] = state, None if trainer is None else trainer.config
        if at_once:
            if self._busy is not None:
                self._busy.result()
            self._not_before.clear()
            due, seqs = self._due(), dict[str, int]()
            with suppress(Unavailable):
                seqs = self.store.published_seqs()  # after a takeover most states are published already
            self._write({entity: each for entity, each in due.items() if seqs.get(entity, 0) < each[0].seq}, leases)
            return
        now = time.monotonic()
        if self.waiting and now >= self._next_at and (self._busy is None or self._busy.done()):
            self._next_at = now + PUBLISH_SECONDS
            due = self._due()
            if due:
                self._busy = self._thread.submit(self._write, due, dict(leases))

    def stop(self) -> None:
        """Finish what is being published."""
        self._thread.shutdown(wait=True)

    def _due(self) -> dict[str, UnpublishedState]:
        """Return the states that may be published now; one of which only counts have changed waits for longer."""
        now, due = time.monotonic(), {}
        for entity, (state, config) in list(self.waiting.items()):
            state_at, counts_at = self._not_before.get(entity, (0.0, 0.0))
            if now >= counts_at or (now >= state_at and self._last.get(entity) != _version_of(state)):
                due[entity] = state, config
                del self.waiting[entity]
        return due

    def _write(self, due: dict[str, UnpublishedState], leases: Mapping[int, Lease]) -> None:
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
                pass  # another process learns and publishes them now
            except Unavailable as error:
                logger.warning(str(error))
                for entity in entities:
                    self.waiting.setdefault(entity, due[entity])
            except Exception as error:
                logger.error("publish", exc_info=error)

    def _write_partition(self, lease: Lease, due: dict[str, UnpublishedState]) -> None:
        start_time, size = time.monotonic(), 0
        publications: list[Publication] = []
        for number, (entity, (state, config)) in enumerate(due.items(), 1):
            session = _session(state, config) if self._last.get(entity) != _version_of(state) else None
            publications.append(Publication(entity, state.number, state.seq, state.rejected, session, state.projection))
            size += len(session or b"")
            if size < MAX_BATCH_BYTES and len(publications) < MAX_BATCH and number < len(due):
                continue
            self.store.publish(publications, lease)
            now = time.monotonic()
            for each in publications:
                self._last[each.entity] = _version_of(due[each.entity][0])
                pause = PAUSE_FACTOR * (now - start_time)
                self._not_before[each.entity] = now + pause, now + max(pause, PUBLISH_COUNTS_SECONDS)
            start_time, size, publications = now, 0, []


def _version_of(state: PublishedState) -> tuple[int, ...]:
    """Return numbers that change whenever the state does."""
    return state.number, state.learned, state.refused, state.rejected


def _session(published: PublishedState, config: RankerConfig | None) -> bytes:
    """Return the state as a saved session, with the versions of its schema."""
    if config is None:
        return b""
    session = Session(config.learner, config.problem, config.body.seed)
    session.restore(published.state, None, published.learned, published.refused)
    return dumps(session, config.schema_notes())

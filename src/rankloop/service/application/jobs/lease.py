"""Leases of partitions: a learner worker holds one for each partition it learns; it expires unless it is renewed."""

import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import ceil
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING

from rankloop.service.errors import Unavailable
from rankloop.service.stores.base import Lease, RegisteredLearner, Store, is_shared

if TYPE_CHECKING:
    from rankloop.service.stores.postgres import PostgresStore

LEASE_SECONDS = 4.0  # until a lease expires
EXPIRY_MARGIN_SECONDS = 0.5  # before its expiry, from which on the holder does not use it any more
RENEW_SECONDS = 0.5  # between two attempts to renew leases, or to acquire expired ones
MIN_REGISTERED_SECONDS = 5.0  # of a learner worker, before others release partitions to it


class LeaseKeeper:
    """Acquires leases of partitions as they become free and renews them, on a thread of its own.

    The clock of the store decides when a lease has expired. The holder stops using it earlier, by its own clock, and
    what it still writes under an expired lease is refused by the fence number.
    """

    def __init__(self, store: Store, on_change: Callable[[], None]) -> None:
        self.store = store
        self.holder = f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"
        self._on_change = on_change
        self.leases: dict[int, Lease] = {}
        self.expires_at = 0.0  # by the monotonic clock of this process
        self._stopping = Flag()
        self._thread = Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        """Begin to acquire leases; a store of one process gives them all at once."""
        if is_shared(self.store):
            self._thread.start()
        else:
            self.leases = {partition: Lease(partition, 0) for partition in range(self.store.partitions)}
            self.expires_at = float("inf")

    @property
    def held(self) -> dict[int, Lease]:
        """The leases that have not expired, by partition."""
        return self.leases if time.monotonic() < self.expires_at else {}

    def stop(self) -> None:
        """Release all leases."""
        self._stopping.set()
        if is_shared(self.store) and self._thread.is_alive():
            self._thread.join()
            with suppress(Unavailable):  # then they expire
                self.store.release(self.holder)
        self.expires_at = 0.0

    def _run(self) -> None:
        """Release partitions to learner workers that have fewer, renew the others, and acquire free ones."""
        store: PostgresStore = self.store  # type: ignore[assignment]
        while not self._stopping.is_set():
            start_time = time.monotonic()
            with suppress(Unavailable):
                learners = store.register_learner(self.holder, LEASE_SECONDS)
                released, partitions = _partitions_to_hold(self.holder, learners, store.partitions)
                if released:
                    self.leases = {number: lease for number, lease in self.leases.items() if number not in released}
                    self._on_change()
                    store.release(self.holder, released)
                leases = {lease.partition: lease for lease in store.lease(self.holder, partitions, LEASE_SECONDS)}
                previous, self.leases = self.leases, leases
                self.expires_at = start_time + LEASE_SECONDS - EXPIRY_MARGIN_SECONDS
                if leases != previous:
                    self._on_change()
            self._stopping.wait(RENEW_SECONDS)


def _partitions_to_hold(
    holder: str, learners: Sequence[RegisteredLearner], n_partitions: int
) -> tuple[list[int], list[int]]:
    """Return the partitions that a learner worker releases, and those that it renews or acquires up to its share."""
    # A released one goes to a worker that has at least two fewer. So the numbers come closer with every release, and no
    # partition goes back and forth.
    counts, share = {each.holder: len(each.held) for each in learners}, ceil(n_partitions / len(learners))
    (learner,) = (each for each in learners if each.holder == holder)
    settled = [each.holder for each in learners if each.seconds >= MIN_REGISTERED_SECONDS]
    released: list[int] = []
    for partition in sorted(learner.held):
        receiver = min([name for name in settled if counts[name] < share], key=counts.__getitem__, default=holder)
        has_more = counts[holder] > share or not released  # others may be releasing at the same moment
        if has_more and counts[holder] - counts[receiver] >= 2:
            counts[holder] -= 1
            counts[receiver] += 1
            released.append(partition)
    partitions = sorted(learner.held.difference(released))
    leased = frozenset().union(*(each.held for each in learners))
    free = [partition for partition in range(n_partitions) if partition not in leased]
    return released, partitions + free[: max(0, share - len(partitions))]

"""Leases of partitions: a learner worker holds one for each partition it learns; it expires unless it is renewed."""

import os
import secrets
import socket
import time
from collections import Counter
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
    """Acquires leases of the allowed partitions as they become free and renews them, on a thread of its own.

    The clock of the store decides when a lease has expired. The holder stops using it earlier, by its own clock, and
    what it still writes under an expired lease is refused by the fence number.
    """

    def __init__(self, store: Store, allowed: Sequence[int], on_change: Callable[[], None]) -> None:
        self.store = store
        self.allowed = list(allowed)
        self.holder = f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"
        self._on_change = on_change
        self.leases: dict[int, Lease] = {}
        self.expires_at = 0.0  # by the monotonic clock of this process
        self._stopping = Flag()
        self._thread = Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        """Begin to acquire leases; a store of one process gives them all at once."""
        if is_shared(self.store):
            if self.allowed:
                self._thread.start()
        else:
            self.leases = {partition: Lease(partition, 0) for partition in self.allowed}
            self.expires_at = float("inf")

    @property
    def held(self) -> dict[int, Lease]:
        """The leases that have not expired, by partition."""
        return self.leases if time.monotonic() < self.expires_at else {}

    def stop(self) -> None:
        """Release all leases."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        store, self.expires_at = self.store, 0.0
        if is_shared(store) and self.allowed:
            with suppress(Unavailable):  # then they expire
                store.release(self.holder)

    def _run(self) -> None:
        """Release partitions to learner workers that have fewer, renew the others, and acquire free ones."""
        store: PostgresStore = self.store  # type: ignore[assignment]
        while not self._stopping.is_set():
            start_time = time.monotonic()
            with suppress(Unavailable):
                learners = store.register_learner(self.holder, self.allowed, LEASE_SECONDS)
                released, partitions = partitions_to_hold(self.holder, learners)
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


def partitions_to_hold(holder: str, learners: Sequence[RegisteredLearner]) -> tuple[list[int], list[int]]:
    """Return the partitions that a learner worker releases, and those that it renews or acquires up to its share.

    A released one goes to a worker that may learn it and has at least two fewer. So the numbers come closer with every
    release, and no partition goes back and forth.

    Args:
      holder: The name of the worker.
      learners: All registered workers.
    """
    counts, shares = {each.holder: len(each.held) for each in learners}, _fair_shares(learners)
    (learner,) = (each for each in learners if each.holder == holder)
    released: list[int] = []
    for partition in sorted(learner.held):
        settled = [each for each in learners if partition in each.allowed and each.seconds >= MIN_REGISTERED_SECONDS]
        candidates = [each.holder for each in settled if counts[each.holder] < shares[each.holder]]
        receiver = min(candidates, key=lambda name: counts[name], default=holder)
        has_more = counts[holder] > shares[holder] or not released  # others may be releasing at the same moment
        if has_more and counts[holder] - counts[receiver] >= 2:
            counts[holder] -= 1
            counts[receiver] += 1
            released.append(partition)
    partitions = sorted(learner.held.difference(released))
    leased = frozenset().union(*(each.held for each in learners))
    for partition in sorted(learner.allowed - leased):
        others = [each for each in learners if partition in each.allowed and each is not learner]
        others_are_full = all(len(each.held) >= shares[each.holder] for each in others)
        is_first = all(holder < each.holder for each in others)
        if len(partitions) < shares[holder] or (others_are_full and is_first):
            partitions.append(partition)
    return released, partitions


def _fair_shares(learners: Sequence[RegisteredLearner]) -> dict[str, int]:
    """Return how many partitions each worker gets if each partition is divided among all that may learn it."""
    n_allowed = Counter(number for each in learners for number in each.allowed)
    return {each.holder: ceil(sum(1 / n_allowed[number] for number in each.allowed) - 1e-9) for each in learners}

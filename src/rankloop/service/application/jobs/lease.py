"""Who learns: a lease of every partition, which ends by itself unless it is renewed."""

import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import ceil
from threading import Event as Flag
from threading import Thread

from rankloop.service.errors import Unavailable
from rankloop.service.stores.base import Attendant, Lease, SharedStore, Store

LEASE_SECONDS = 4.0  # that a lease lives
MARGIN_SECONDS = 0.5  # seconds before its end from which on its holder does not count on it any more
RENEW_SECONDS = 0.5  # seconds between two attempts to renew, or to take what has ended
STEADY_SECONDS = 5.0  # seconds for which a learner has been there, before others make room for it


class LeaseKeeper:
    """Takes the wanted partitions as they become free, and renews what it has; on a thread of its own.

    The clock of the store decides when a lease has ended. The holder stops to count on it earlier, by its own clock,
    and what it still writes in the belief that it leads is refused by the number of the lease.
    """

    def __init__(self, store: Store, wanted: Sequence[int], changed: Callable[[], None]) -> None:
        self.store = store
        self.wanted = list(wanted)
        self.holder = f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"
        self._changed = changed
        self.leases: dict[int, Lease] = {}  # which count until
        self.until = 0.0  # by the clock of this process
        self._stopping = Flag()
        self._thread = Thread(target=self._keep, name="lease", daemon=True)

    def start(self) -> None:
        if isinstance(self.store, SharedStore):
            if self.wanted:
                self._thread.start()
        else:  # nobody else can have it
            self.leases = {partition: Lease(partition, 0) for partition in self.wanted}
            self.until = float("inf")

    @property
    def held(self) -> dict[int, Lease]:
        """What may be learned now."""
        return self.leases if time.monotonic() < self.until else {}

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        store, self.until = self.store, 0.0
        if isinstance(store, SharedStore) and self.wanted:
            with suppress(Unavailable):  # it ends by itself
                store.release(self.holder)

    def _keep(self) -> None:
        while not self._stopping.is_set():
            begun = time.monotonic()
            try:
                found = self._renewed(self.store)  # type: ignore[arg-type]
            except Unavailable:
                found = None
            if found is not None:
                before, self.leases = self.leases, {lease.partition: lease for lease in found}
                self.until = begun + LEASE_SECONDS - MARGIN_SECONDS
                if self.leases != before:
                    self._changed()
            self._stopping.wait(RENEW_SECONDS)

    def _renewed(self, store: SharedStore) -> list[Lease]:
        """What it has, without what it gives to those who have less, and with what is free, up to its share."""
        everybody = store.attend(self.holder, self.wanted, LEASE_SECONDS)
        given = given_away(self.holder, everybody)
        if given:
            self.leases = {part: lease for part, lease in self.leases.items() if part not in given}
            self._changed()
            store.release(self.holder, given)
        return store.lease(self.holder, wanted_now(self.holder, everybody, given), LEASE_SECONDS)


def given_away(holder: str, everybody: Sequence[Attendant]) -> list[int]:
    """The partitions that a learner gives back: each to somebody who may learn it and has fewer, by two at least.

    So the numbers come closer with every one of them, and none goes back and forth.
    """
    counts = {each.holder: len(each.held) for each in everybody}
    shares = {each.holder: _share(each, everybody) for each in everybody}
    mine = next((each.held for each in everybody if each.holder == holder), frozenset())
    given: list[int] = []
    for part in sorted(mine):
        steady = [each.holder for each in everybody if part in each.wanted and each.seconds >= STEADY_SECONDS]
        others = [other for other in steady if counts[other] < shares[other]]
        least = min(others, key=lambda other: counts[other], default=holder)
        has_more = counts[holder] > shares[holder] or not given  # others may be giving at the same moment
        if has_more and counts[holder] - counts[least] >= 2:
            counts[holder] -= 1
            counts[least] += 1
            given.append(part)
    return given


def wanted_now(holder: str, everybody: Sequence[Attendant], given: Sequence[int] = ()) -> list[int]:
    """What a learner renews or takes: what it has, and of what nobody has as much as makes up its share."""
    shares = {each.holder: _share(each, everybody) for each in everybody}
    (me,) = (each for each in everybody if each.holder == holder)
    found = sorted(me.held.difference(given))
    taken = frozenset().union(*(each.held for each in everybody))
    for part in sorted(me.wanted - taken):
        others = [each for each in everybody if part in each.wanted and each is not me]
        is_left = all(len(each.held) >= shares[each.holder] for each in others)  # the others have theirs
        if len(found) < shares[holder] or (is_left and all(holder < each.holder for each in others)):
            found.append(part)
    return found


def _share(learner: Attendant, everybody: Sequence[Attendant]) -> int:
    """How many partitions one has, where each is divided among all who may learn it."""
    return ceil(sum(1 / sum(part in each.wanted for each in everybody) for part in learner.wanted) - 1e-9)

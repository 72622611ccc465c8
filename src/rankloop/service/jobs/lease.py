"""Who learns: a lease of every partition, which ends by itself unless it is renewed."""

import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event as Flag
from threading import Thread

from rankloop.service.errors import Unavailable
from rankloop.service.log.stores.base import Lease, SharedStore, Store

SECONDS = 4.0  # that a lease lives
MARGIN = 0.5  # seconds before its end from which on its holder does not count on it any more
EVERY = 0.5  # seconds between two attempts to renew, or to take what has ended


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
        self._held: dict[int, Lease] = {}
        self._until = 0.0
        self._stopping = Flag()
        self._thread = Thread(target=self._keep, name="lease", daemon=True)

    def start(self) -> None:
        if isinstance(self.store, SharedStore):
            if self.wanted:
                self._thread.start()
        else:  # nobody else can have it
            self._held = {partition: Lease(partition, 0) for partition in self.wanted}
            self._until = float("inf")

    @property
    def held(self) -> dict[int, Lease]:
        """What may be learned now."""
        return self._held if time.monotonic() < self._until else {}

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        store, self._until = self.store, 0.0
        if isinstance(store, SharedStore) and self._held:
            with suppress(Unavailable):  # it ends by itself
                store.release(self.holder)

    def _keep(self) -> None:
        while not self._stopping.is_set():
            begun = time.monotonic()
            try:
                found = self.store.lease(self.holder, self.wanted, SECONDS)  # type: ignore[attr-defined]
            except Unavailable:
                found = None
            if found is not None:
                before, self._held = self._held, {lease.partition: lease for lease in found}
                self._until = begun + SECONDS - MARGIN
                if self._held != before:
                    self._changed()
            self._stopping.wait(EVERY)

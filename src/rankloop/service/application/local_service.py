"""A node inside a Python program that does not wait for anything: an event loop on a thread of its own."""

import asyncio
from collections.abc import Coroutine
from threading import Thread
from typing import Any, TypeVar

from rankloop.core.errors import InvalidInput
from rankloop.service.application.node import Node
from rankloop.service.settings import Settings
from rankloop.service.stores.open import open_store

T = TypeVar("T")


class LocalService:
    """A service on the log of its settings, open until it is closed; `call` waits for what one of its calls gives."""

    def __init__(self, settings: Settings) -> None:
        store = open_store(settings)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="service", daemon=True)
        self._thread.start()
        self.node = Node(store, settings)
        try:
            self.call(self.node.open())
        except BaseException:
            store.close()
            self._stop()
            raise

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            work.close()
            raise InvalidInput("it is closed; what was learned is there when it is opened again")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Finish, keep a snapshot, and stop; a second time it does nothing."""
        if self._loop.is_closed():
            return
        self.call(self.node.close())
        self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

"""Connections: how many there may be, and how long the service waits for one that sends or says nothing."""

import asyncio
import resource
from collections.abc import Iterable
from heapq import nsmallest
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEADER_SECONDS = 15.0  # for a request to begin and its header to be whole
BODY_SECONDS = 30.0  # for a body to be whole, and longer for one that says how long it is:
BODY_RATE = 50_000  # bytes per second; the same for an answer to be read
KEEP_ALIVE = 75  # seconds between two requests
MAX_HEADER = 65_536  # bytes
RESERVED = 64  # descriptors for the log, its archive and whatever else is no connection
EVICTED = 16  # one of so many that wait makes room at a time: looking for the oldest takes a while


def connection_limit(wanted: int) -> int:
    """So many as are wanted, as far as the descriptors of this process reach."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(descriptors - RESERVED, descriptors // 2, 1))


class TimedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """HTTP over one connection that ends when its other side is too slow, or when others need it more."""

    def __init__(self, *, max_connections: int, **given: Any) -> None:
        super().__init__(**given)
        self.max_connections = max_connections
        self.since = self.loop.time()  # the other side has owed us the same thing
        self.active_at = self.since  # when it connected, or was last answered
        self._owed: tuple[Any, ...] | None = None
        self._header_bytes = 0  # of a header that is not whole
        self._unread: tuple[float, int] | None = None  # since when an answer is not read, and how much of it

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            _make_room(self.connections, self)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        is_body = self.cycle is not None and self.cycle.more_body  # perhaps of a request that was answered already
        self._header_bytes = self._header_bytes + len(data) if self.awaits_header and not is_body else 0
        if self._header_bytes > MAX_HEADER and not self.transport.is_closing():
            self.send_400_response(f"The header has more than {MAX_HEADER} bytes.")

    def on_response_complete(self) -> None:
        self.active_at = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.time(), self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread = None

    @property
    def awaits_header(self) -> bool:
        """Whether there is no request, or only a part of its header."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def awaits_body(self) -> bool:
        return not self.awaits_header and self.cycle.more_body

    def check(self, now: float) -> None:
        """Give up on a header or a body that has been awaited for too long, and on an answer that nobody reads."""
        waits = self.awaits_header or self.awaits_body
        owed = (self.cycle, self.awaits_body, self._header_bytes > 0) if waits else None
        if owed != self._owed:
            self._owed, self.since = owed, now
        elif owed is not None and now - self.since > self._patience():
            self.transport.abort()
        if self._unread is not None and now - self._unread[0] > BODY_SECONDS + self._unread[1] / BODY_RATE:
            self.transport.abort()

    def _patience(self) -> float:
        if self.awaits_header:
            begun = self.cycle is None or self.cycle.more_body or self._header_bytes
            return HEADER_SECONDS if begun else KEEP_ALIVE + HEADER_SECONDS
        length = dict(self.cycle.scope["headers"]).get(b"content-length", b"")
        return BODY_SECONDS + (int(length) / BODY_RATE if length.isdigit() else 0.0)


def check_all(connections: Iterable[Any], now: float) -> None:
    """To be called now and then: every connection of a server is checked."""
    for connection in list(connections):
        if isinstance(connection, TimedProtocol):
            connection.check(now)


def _make_room(connections: Iterable[Any], newest: TimedProtocol) -> None:
    """Close those that have waited longest without a request; the newest itself where all others have one."""
    waiting = [each for each in connections if isinstance(each, TimedProtocol) and each.awaits_header]
    waiting = [each for each in waiting if each is not newest and not each.transport.is_closing()]
    oldest = nsmallest(len(waiting) // EVICTED + 1, waiting, key=lambda each: each.since)
    for connection in oldest or [newest]:
        connection.transport.abort()

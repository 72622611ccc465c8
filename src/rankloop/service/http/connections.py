"""Connections: their maximum number, and timeouts for slow or silent clients."""

import asyncio
import resource
from heapq import nsmallest
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

HEADER_SECONDS = 15.0  # for the first request to start and its header to be complete
BODY_SECONDS = 30.0  # for a body to be complete, plus its length divided by
MIN_BYTES_PER_SECOND = 50_000  # also for a response to be read
KEEP_ALIVE_SECONDS = 75  # between two requests
MAX_HEADER_BYTES = 65_536
RESERVED_DESCRIPTORS = 64  # for the log and everything else that is not a connection
EVICTED_SHARE = 16  # one of so many idle connections is closed at a time, since finding the oldest takes time


def connection_limit(max_connections: int) -> int:
    """Return the limit, or less if this process may not open so many file descriptors."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return max_connections
    return min(max_connections, max(descriptors - RESERVED_DESCRIPTORS, descriptors // 2, 1))


class TimedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """HTTP over one connection, which is closed if its client is too slow or if there are too many connections."""

    def __init__(self, *, max_connections: int, **options: Any) -> None:
        super().__init__(**options)
        self.max_connections = max_connections
        self.waiting_since = self.loop.time()  # for the next part of a request
        self.active_at = self.waiting_since  # when the client connected, or its last response was complete
        self._awaited: tuple[Any, ...] | None = None  # identifies the part that is waited for
        self._header_bytes = 0  # of an incomplete header
        self._parsed_bytes = 0  # of the target and the fields of the header that is being parsed
        self._header_is_complete = False
        self._unread: tuple[float, int] | None = None  # since when a response is not read, and its bytes

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Close the connections that have been idle longest if there are too many; this one if all others are busy."""
        super().connection_made(transport)
        if len(self.connections) <= self.max_connections:
            return
        idle = [each for each in self.connections if isinstance(each, TimedProtocol) and each.awaits_header]
        idle = [each for each in idle if each is not self and not each.transport.is_closing()]
        longest_idle = nsmallest(len(idle) // EVICTED_SHARE + 1, idle, key=lambda each: each.waiting_since)
        for connection in longest_idle or [self]:
            connection.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Refuse a header that is too long."""
        super().data_received(data)
        is_body = self.cycle is not None and self.cycle.more_body  # perhaps of a request that has its response already
        self._header_bytes = self._header_bytes + len(data) if self.awaits_header and not is_body else 0
        if self._header_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The header has more than {MAX_HEADER_BYTES} bytes.")

    def on_message_begin(self) -> None:
        """Start to count the bytes of a new header; httptools calls this and the next three."""
        self._parsed_bytes, self._header_is_complete = 0, False
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count the target of a request, then take it."""
        self._count_header_bytes(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header field; fields after the body (trailers) are dropped, since they would replace others."""
        if not self._header_is_complete:
            self._count_header_bytes(len(name) + len(value))
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Note that what follows is no header any more."""
        has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers)
        if has_body and self.parser.should_upgrade():  # httptools would read the body as the next request
            raise ValueError("a request with a body cannot change the protocol")
        super().on_headers_complete()
        self._header_is_complete = True

    def _count_header_bytes(self, n_bytes: int) -> None:
        self._parsed_bytes += n_bytes
        if self._parsed_bytes > MAX_HEADER_BYTES:
            raise ValueError(f"the headers are longer than {MAX_HEADER_BYTES} bytes")  # uvicorn answers 400 and closes

    def on_response_complete(self) -> None:
        """Note the time of the last response."""
        self.active_at = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Note when the client stopped reading."""
        super().pause_writing()
        self._unread = self.loop.time(), self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        super().resume_writing()
        self._unread = None

    @property
    def awaits_header(self) -> bool:
        """True if there is no request, or only a part of its header."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def awaits_body(self) -> bool:
        """True if a part of the body is missing."""
        return not self.awaits_header and self.cycle.more_body

    def check(self, now: float) -> None:
        """Close the connection if a header, a body, or the reading of a response takes too long."""
        is_waiting = self.awaits_header or self.awaits_body
        awaited = (self.cycle, self.awaits_body, self._header_bytes > 0) if is_waiting else None
        if awaited != self._awaited:
            self._awaited, self.waiting_since = awaited, now
        elif awaited is not None and now - self.waiting_since > self._max_waiting_seconds():
            self.transport.abort()
        if self._unread is not None and now - self._unread[0] > BODY_SECONDS + self._unread[1] / MIN_BYTES_PER_SECOND:
            self.transport.abort()

    def _max_waiting_seconds(self) -> float:
        if self.awaits_header:
            is_receiving = self.cycle is None or self.cycle.more_body or self._header_bytes
            return HEADER_SECONDS if is_receiving else KEEP_ALIVE_SECONDS + HEADER_SECONDS
        length = dict(self.cycle.scope["headers"]).get(b"content-length", b"")
        return BODY_SECONDS + (int(length) / MIN_BYTES_PER_SECOND if length.isdigit() else 0.0)


def send_at_once(send: Send, head: bytes, body: bytes) -> bool:
    """Write a response of status 200 in one piece, which takes half the time of a head and a body.

    It writes nothing and returns False unless the channel is that of uvicorn itself and its connection stays open.

    Args:
      send: The ASGI channel.
      head: The headers without the length, each with its end of line.
      body: The body.
    """
    cycle = getattr(send, "__self__", None)
    if not isinstance(cycle, RequestResponseCycle) or not cycle.keep_alive or cycle.disconnected:
        return False
    if cycle.transport.is_closing():  # the loop has not told uvicorn yet
        raise ClientDisconnect
    if cycle.flow.write_paused:
        return False
    cycle.response_started, cycle.waiting_for_100_continue = True, False
    head += b"".join([b"%s: %s\r\n" % header for header in cycle.default_headers])
    cycle.transport.write(b"%s%scontent-length: %d\r\n\r\n%s" % (STATUS_LINE[200], head, len(body), body))
    cycle.response_complete = True
    cycle.message_event.set()
    cycle.on_response()
    return True

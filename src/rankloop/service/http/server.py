"""The server process: its socket, its log as JSON lines, and a stop without failed calls."""

import asyncio
import ctypes
import errno
import gc
import json
import logging
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from socket import socket as Socket
from threading import current_thread, main_thread
from typing import Any

import uvicorn
from fastapi import FastAPI

from rankloop.core.compilation import release_compiler_memory
from rankloop.core.errors import Conflict, InvalidInput
from rankloop.service.application.rebuild import check_kinds
from rankloop.service.errors import Unavailable
from rankloop.service.http.app import Addition, make_app
from rankloop.service.http.connections import KEEP_ALIVE_SECONDS, TimedProtocol, connection_limit
from rankloop.service.settings import Settings
from rankloop.service.stores.base import Store
from rankloop.service.stores.open import open_store


def bound_socket(settings: Settings, shared: bool = False) -> socket.socket:
    """Return a socket at the address of the settings, which does not listen yet.

    Args:
      settings: The settings of the service.
      shared: True if other sockets may use the same port.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is named because asyncio sends small responses at once only if it sees that this is TCP.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        bound.bind((settings.host, settings.port))
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise Conflict(f"port {settings.port} is in use: choose another with --port") from None
        raise InvalidInput(f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}") from None
    return bound


def address_of(bound: socket.socket) -> str:
    """Return the URL of a bound socket."""
    host, port, *_ = bound.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


PROXIES_VARIABLE = "FORWARDED_ALLOW_IPS"  # of uvicorn: the proxies whose X-Forwarded-For is trusted
GRACE_SECONDS = 10  # for running calls, when the server stops
IDLE_SECONDS = 1.0  # a connection without a call for so long is expected to stay idle
DRAIN_CHECK_SECONDS = 0.02  # between two checks of the open connections
CHECK_TICKS = 5  # of 0.1 seconds each, between two checks of the connections
RELEASE_TICKS = 600  # between two releases of the compiler's memory, since new rankers may have loaded kernels
SWITCH_INTERVAL_SECONDS = 0.0005  # so that the thread that waited for the disk runs soon
MALLOC_MMAP_THRESHOLD, MALLOC_ARENA_MAX = -3, -8  # the numbers of these settings in malloc.h
MMAP_THRESHOLD_BYTES, N_ARENAS = 1_000_000, 2
MAX_LINES_PER_SECOND = 20  # in the log, from one place in the code: callers without a key cause some of them
LOG_FIELDS = ("call", "ranker", "status", "seconds", "request", "key", "left_out")


class JsonLines(logging.Formatter):
    """A formatter that writes one JSON object per line, without keys and bodies."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as JSON."""
        table: dict[str, Any] = {"at": round(time.time(), 3), "level": record.levelname.lower()}
        table["event"] = record.getMessage()
        table |= {name: getattr(record, name) for name in LOG_FIELDS if hasattr(record, name)}
        if record.exc_info:
            table["traceback"] = self.formatException(record.exc_info)
        return json.dumps(table)


class LineLimit(logging.Filter):
    """Let at most 20 records a second of one place in the code pass; a later one tells how many were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[tuple[str, int], tuple[int, int]] = {}  # by place: a second, and its records

    def filter(self, record: logging.LogRecord) -> bool:
        """Return true if a record passes."""
        place, second = (record.pathname, record.lineno), int(time.monotonic())
        last, count = self._counts.get(place, (second, 0))
        if last != second:
            if count > MAX_LINES_PER_SECOND:
                record.left_out = count - MAX_LINES_PER_SECOND
            count = 0
        self._counts[place] = second, count + 1
        return count < MAX_LINES_PER_SECOND


class Server(uvicorn.Server):
    """A uvicorn server that reports its start, and on a signal to stop answers open connections once more."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self.app = app
        self.drain = app.state.settings.drain
        self.stops_at = math.inf
        self.when_started: Callable[[], None] = lambda: None

    async def startup(self, sockets: list[Socket] | None = None) -> None:
        """Start, and call `when_started`."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # what was imported stays, and looking through it would hold up requests for 15 ms or more
        self.when_started()

    async def on_tick(self, counter: int) -> bool:
        """Check timeouts twice a second, release memory every minute, and stop when the time to drain is over."""
        if counter % CHECK_TICKS == 0:
            for connection in list(self.server_state.connections):
                if isinstance(connection, TimedProtocol):
                    connection.check(asyncio.get_running_loop().time())
        if counter % RELEASE_TICKS == RELEASE_TICKS - 1:
            release_compiler_memory()
        self.should_exit = self.should_exit or time.monotonic() >= self.stops_at
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals to stop and to read the keys again."""
        if current_thread() is not main_thread():
            yield
            return
        handlers: dict[int, Any] = {sig: signal.signal(sig, self.stop) for sig in (signal.SIGTERM, signal.SIGINT)}
        keyring = self.app.state.settings.keyring
        handlers[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda sig, frame: keyring.refresh())
        try:
            yield
        finally:
            for sig, handler in handlers.items():
                signal.signal(sig, handler)

    def stop(self, sig: int = 0, frame: Any = None) -> None:
        """Report not ready, and stop after `drain` seconds; a second call stops at once."""
        self.should_exit = self.app.state.stopping or not self.drain
        self.stops_at = time.monotonic() + self.drain
        self.app.state.stopping = True

    async def shutdown(self, sockets: list[Socket] | None = None) -> None:
        """Accept no new connections, and close the open ones with their next response."""
        self.app.state.stopping = True
        for server in self.servers:
            server.close()
        loop = asyncio.get_running_loop()
        until = loop.time() + GRACE_SECONDS

        def expects_request(connection: Any) -> bool:
            idle = connection.awaits_header and not connection.transport.is_closing()
            return idle and loop.time() - connection.active_at < IDLE_SECONDS

        while any(map(expects_request, self.server_state.connections)) and loop.time() < until:
            await asyncio.sleep(DRAIN_CHECK_SECONDS)
        await super().shutdown(sockets)


def make_server(settings: Settings, store: Store | None = None, addition: Addition | None = None) -> Server:
    """Build a server that does not run yet.

    Args:
      settings: The settings of the service.
      store: An open store; the store of the settings unless given.
      addition: The demo or the search box.
    """
    app = make_app(settings, store, addition)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=partial(TimedProtocol, max_connections=connection_limit(settings.max_connections)),  # type: ignore[arg-type]
        ws="none",
        proxy_headers=PROXIES_VARIABLE in os.environ,  # else a client could fake addresses to evade the rate limit
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        lifespan="on",
    )
    return Server(config, app)


def serve(
    settings: Settings, announce: Callable[[str], None], shared: int | None = None, addition: Addition | None = None
) -> None:
    """Serve until a signal to stop; then finish running calls, write snapshots and return.

    Args:
      settings: The settings of the service.
      announce: Called with the URL once calls are answered.
      shared: The file descriptor of a socket that is open already.
      addition: The demo or the search box.
    """
    with bound_socket(settings) if shared is None else Socket(fileno=shared) as opened:
        write_json_lines()
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        # Make glibc return the memory of large arrays to the system, and let threads share the memory of small objects.
        with suppress(OSError, AttributeError):  # a C library other than glibc
            set_option = ctypes.CDLL(None).mallopt
            set_option(MALLOC_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
            set_option(MALLOC_ARENA_MAX, N_ARENAS)
        store = open_store(settings)
        try:
            check_kinds(store)
        except InvalidInput:
            store.close()
            raise
        server = make_server(settings, store, addition)
        server.when_started = lambda: announce(address_of(opened))
        with suppress(SystemExit):  # raised by uvicorn if it cannot start
            server.run([opened])
        if not server.started:
            raise Unavailable("the service could not start; the lines above have the reason")


def write_json_lines() -> None:
    """Write the log of the process as JSON lines to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(LineLimit())
    for name in ("rankloop.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)

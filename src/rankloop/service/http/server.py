"""A running server: its socket, logs as JSON lines, a stop that fails no call."""

import asyncio
import ctypes
import errno
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
from typing import Any, Protocol

import uvicorn
from fastapi import FastAPI

from rankloop.core.errors import Conflict, InvalidInput
from rankloop.service.application.node import Node
from rankloop.service.application.rebuild import check_kinds
from rankloop.service.errors import Unavailable
from rankloop.service.http.app import make_app
from rankloop.service.http.connections import KEEP_ALIVE, TimedProtocol, check_all, connection_limit
from rankloop.service.http.demo import Demo
from rankloop.service.http.endpoints import Endpoints
from rankloop.service.settings import Settings
from rankloop.service.stores.base import Store
from rankloop.service.stores.open import open_store


def bound_socket(settings: Settings, shared: bool = False) -> socket.socket:
    """A socket at the address of the settings; it does not listen yet. Others that are `shared` may be there too."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # the protocol is named because asyncio sends small answers at once only where it sees that it is TCP
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


def address_of(settings: Settings, bound: socket.socket) -> str:
    """The URL of a bound socket; its port is known even where the settings leave it to the machine."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{bound.getsockname()[1]}"


TRUSTED = "FORWARDED_ALLOW_IPS"  # the variable of uvicorn with the proxies whose X-Forwarded-For is believed
GRACE = 10  # seconds for calls that have begun
QUIET = 1.0  # seconds: a connection that has asked nothing for so long is not about to ask
TICK = 0.02  # seconds between two looks at what is left
CHECK_TICKS = 5  # of 0.1 seconds each, between two checks of the connections
SWITCH = 0.0005  # seconds: the thread that has waited for the disk gets its turn soon
MALLOC_MMAP_THRESHOLD, MALLOC_ARENA_MAX = -3, -8  # the numbers of these settings in malloc.h
LARGE, ARENAS = 1_000_000, 2
FIELDS = ("method", "path", "status", "seconds", "request", "key")


class JsonLines(logging.Formatter):
    """One JSON object per line; keys and bodies are never in it."""

    def format(self, record: logging.LogRecord) -> str:
        table: dict[str, Any] = {"at": round(time.time(), 3), "level": record.levelname.lower()}
        table["event"] = record.getMessage()
        table |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info:
            table["traceback"] = self.formatException(record.exc_info)
        return json.dumps(table)


class Server(uvicorn.Server):
    """Says when it has started; told to stop it is ready no longer, and answers those who are connected once more."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self.app = app
        self.drain = app.state.settings.drain
        self.stops_at = math.inf
        self.when_started: Callable[[], None] = lambda: None

    async def startup(self, sockets: list[Socket] | None = None) -> None:
        await super().startup(sockets)
        self.when_started()

    async def on_tick(self, counter: int) -> bool:
        if counter % CHECK_TICKS == 0:
            check_all(self.server_state.connections, asyncio.get_running_loop().time())
        self.should_exit = self.should_exit or time.monotonic() >= self.stops_at
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if current_thread() is not main_thread():
            yield
            return
        before: dict[int, Any] = {sig: signal.signal(sig, self.stop) for sig in (signal.SIGTERM, signal.SIGINT)}
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self.read_keys)
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)

    def read_keys(self, sig: int = 0, frame: Any = None) -> None:
        self.app.state.settings.keyring.read()

    def stop(self, sig: int = 0, frame: Any = None) -> None:
        """Not ready from now on; who asks within `drain` seconds is answered. A second call ends that."""
        self.should_exit = self.app.state.stopping or not self.drain
        self.stops_at = time.monotonic() + self.drain
        self.app.state.stopping = True

    async def shutdown(self, sockets: list[Socket] | None = None) -> None:
        """Nobody new is let in; who is there gets an answer that says that it is the last."""
        self.app.state.stopping = True
        for server in self.servers:
            server.close()
        await self._drained()
        await super().shutdown(sockets)

    async def _drained(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + GRACE
        while any(map(self._may_ask, self.server_state.connections)) and loop.time() < until:
            await asyncio.sleep(TICK)

    def _may_ask(self, connection: Any) -> bool:
        """Whether a request is likely to be on its way."""
        idle = connection.awaits_header and not connection.transport.is_closing()
        return idle and asyncio.get_running_loop().time() - connection.active_at < QUIET


class Addition(Protocol):
    """What a server has beside its rankers, such as a demo: it begins with the service, and has calls of its own."""

    async def begin(self, node: Node) -> None: ...
    def add_endpoints(self, endpoints: Endpoints) -> None: ...


def make_server(
    settings: Settings, demo: bool = False, store: Store | None = None, addition: Addition | None = None
) -> Server:
    """The server of these settings, not yet running."""
    addition = Demo() if demo else addition
    app = make_app(settings, addition.begin if addition else None, store)
    if addition:
        addition.add_endpoints(app.state.endpoints)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=partial(TimedProtocol, max_connections=connection_limit(settings.max_connections)),  # type: ignore[arg-type]
        ws="none",
        proxy_headers=TRUSTED in os.environ,  # else a caller could say that it is many, and evade the rate limit
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
        lifespan="on",
    )
    return Server(config, app)


def serve(
    settings: Settings,
    announce: Callable[[str], None],
    demo: bool = False,
    shared: int | None = None,
    addition: Addition | None = None,
) -> None:
    """Serve until told to stop; then finish, snapshot and return.

    `announce` gets the URL once calls are answered. `shared` is a socket that is open already, by its number.
    """
    with bound_socket(settings) if shared is None else Socket(fileno=shared) as opened:
        write_json_lines()
        sys.setswitchinterval(SWITCH)
        _give_memory_back()
        store = open_store(settings)
        try:
            check_kinds(store)
        except InvalidInput:
            store.close()
            raise
        server = make_server(settings, demo, store, addition)
        server.when_started = lambda: announce(address_of(settings, opened))
        with suppress(SystemExit):  # that is how uvicorn leaves when it cannot start
            server.run([opened])
        if not server.started:
            raise Unavailable("the service could not start; the lines above say why")


def _give_memory_back() -> None:
    """Let large arrays go back to the system when they are done with, and threads share what small things leave.

    glibc keeps freed pieces of up to 32 MB, for every thread apart, as soon as one of that size was freed once.
    """
    with suppress(OSError, AttributeError):  # another C library
        settings = ctypes.CDLL(None).mallopt
        settings(MALLOC_MMAP_THRESHOLD, LARGE)
        settings(MALLOC_ARENA_MAX, ARENAS)


def write_json_lines() -> None:
    """The log of the process: JSON lines on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("rankloop.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)

"""A running server: logs as JSON lines, a graceful stop."""

from __future__ import annotations

import gc
import json
import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from socket import socket as Socket
from threading import current_thread, main_thread
from typing import Any

import uvicorn
from fastapi import FastAPI

from rankloop.core.errors import InvalidInput
from rankloop.service.app import make_app
from rankloop.service.demo import Demo
from rankloop.service.errors import Unavailable
from rankloop.service.listening import address_of, bound_socket
from rankloop.service.settings import Settings
from rankloop.service.starting import check_kinds
from rankloop.service.stores.opening import open_store
from rankloop.service.stores.port import Store

GRACE = 10  # seconds for calls that have begun
SWITCH = 0.0005  # seconds: the thread that has waited for the disk gets its turn soon
SELDOM = 50_000, 20, 100  # open impressions are many small objects: walking through them all takes long
FIELDS = ("method", "path", "status", "seconds")


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
    """Says when it has started, ends endless answers when it is told to stop, leaves the exit code to the caller."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self.app = app
        self.when_started: Callable[[], None] = lambda: None

    async def startup(self, sockets: list[Socket] | None = None) -> None:
        await super().startup(sockets)
        self.when_started()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if current_thread() is not main_thread():
            yield
            return
        before = {sig: signal.signal(sig, self.stop) for sig in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)

    def stop(self, sig: int = 0, frame: Any = None) -> None:
        self.app.state.stopping = True
        self.should_exit = True


def make_server(settings: Settings, demo: bool = False, store: Store | None = None) -> Server:
    """The server of these settings, not yet running."""
    simulated = Demo() if demo else None
    app = make_app(settings, simulated.begin if simulated else None, store)
    if simulated:
        simulated.add_calls(app)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE,
        lifespan="on",
    )
    return Server(config, app)


def serve(settings: Settings, announce: Callable[[str], None], demo: bool = False, shared: int | None = None) -> None:
    """Serve until told to stop; then finish, snapshot and return.

    `announce` gets the URL once calls are answered. `shared` is a socket that is open already, by its number.
    """
    with bound_socket(settings) if shared is None else Socket(fileno=shared) as opened:
        _write_json_lines()
        sys.setswitchinterval(SWITCH)
        gc.set_threshold(*SELDOM)
        store = open_store(settings)
        try:
            check_kinds(store)
        except InvalidInput:
            store.close()
            raise
        server = make_server(settings, demo, store)
        server.when_started = lambda: announce(address_of(settings, opened))
        with suppress(SystemExit):  # that is how uvicorn leaves when it cannot start
            server.run([opened])
        if not server.started:
            raise Unavailable("the service could not start; the lines above say why")


def _write_json_lines() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("rankloop.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)

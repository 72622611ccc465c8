"""Connections to PostgreSQL, one for each kind of work, opened anew when they break; and one that listens."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Event as Flag
from threading import Thread
from typing import Any

import psycopg
from psycopg import sql

from rankloop.service.stores.port import MISSED

CHANNEL = "rankloop"
NOTIFY = "SELECT pg_notify(%s, %s)"
PATIENCE = 5  # seconds for a connection to be made
PAUSE = 0.5  # seconds


class Connections:
    """The connections of one process; each purpose belongs to one thread at a time."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._stopping = Flag()
        self._open: dict[str, psycopg.Connection[Any]] = {}
        self._listener: Thread | None = None

    def to(self, purpose: str) -> psycopg.Connection[Any]:
        """The connection for a purpose."""
        connection = self._open.get(purpose)
        if connection is None or connection.closed:
            if self._stopping.is_set():
                raise psycopg.OperationalError("the store is closed")
            name = f"rankloop {os.getpid()} {purpose}"
            connection = psycopg.connect(self.address, autocommit=True, connect_timeout=PATIENCE, application_name=name)
            self._open[purpose] = connection
        return connection

    def has(self, purpose: str) -> bool:
        return purpose in self._open and not self._open[purpose].closed

    def drop(self, purpose: str) -> None:
        connection = self._open.pop(purpose, None)
        if connection is not None:
            connection.close()

    def listen(self, heard: Callable[[str], None]) -> None:
        """Call `heard`, on a thread, with the words of every notice, and with `MISSED` when it begins to listen."""
        self._listener = Thread(target=self._listening, args=(heard,), name="listen", daemon=True)
        self._listener.start()

    def close(self) -> None:
        self._stopping.set()
        if self._listener is not None:
            self._listener.join()
        for connection in self._open.values():
            connection.close()

    def _listening(self, heard: Callable[[str], None]) -> None:
        while not self._stopping.is_set():
            try:
                connection = self.to("listen")
                connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
                heard(MISSED)
                while not self._stopping.is_set():
                    for notice in connection.notifies(timeout=PAUSE):
                        heard(notice.payload)
                        if self._stopping.is_set():
                            return
            except psycopg.Error:
                self.drop("listen")
                self._stopping.wait(PAUSE)

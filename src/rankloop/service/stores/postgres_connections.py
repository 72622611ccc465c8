"""Connections to PostgreSQL: durable, patient with nobody forever, one for each purpose; notices both ways."""

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event as Flag
from threading import Thread
from typing import Any

import psycopg
from psycopg import sql

from rankloop.service.stores.base import MISSED

NOTIFY = "SELECT pg_notify(%s, %s)"
PATIENCE = 5  # seconds for a connection to be made
PAUSE = 0.5  # seconds
TELL_EVERY = 0.02  # seconds between two notices that there is something to learn
IDLE_SECONDS = 3  # for which a process may stand still within a transaction; less than a lease lives
LOCK_SECONDS = 15  # to wait for another's transaction, before the caller is told to try again
STATEMENT_SECONDS = {"read": 300}
OTHER_STATEMENT_SECONDS = 30
ALIVE = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
UNACKNOWLEDGED = {"tcp_user_timeout": 20_000}  # milliseconds, until a connection whose cable was pulled is given up
DURABLE = """SELECT set_config('synchronous_commit', 'on', false)
             WHERE current_setting('synchronous_commit') <> 'remote_apply'"""  # which is more than on


def connected(address: str, purpose: str) -> psycopg.Connection[Any]:
    """A connection whose commits are durable and that waits for nobody forever, whatever the server's defaults are."""
    name = f"rankloop {os.getpid()} {purpose}"
    how = {"connect_timeout": PATIENCE, "application_name": name} | ALIVE | UNACKNOWLEDGED
    connection = psycopg.connect(address, autocommit=True, **how)  # type: ignore[arg-type]
    waits = {
        "idle_in_transaction_session_timeout": IDLE_SECONDS,
        "lock_timeout": LOCK_SECONDS,
        "statement_timeout": STATEMENT_SECONDS.get(purpose, OTHER_STATEMENT_SECONDS),
    }
    try:
        connection.execute(DURABLE)
        if purpose == "write":  # a few keys among millions of rows are looked up, whatever the statistics say
            connection.execute("SET enable_hashjoin = off; SET enable_mergejoin = off")
        for setting, seconds in waits.items():
            connection.execute("SELECT set_config(%s, %s, false)", [setting, f"{seconds}s"])
    except psycopg.Error:
        connection.close()
        raise
    return connection


def _stop_reading(connection: psycopg.Connection[Any]) -> None:
    """Who waits for a notice or an answer on another thread is told at once that none will come."""
    with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.shutdown(socket.SHUT_RD)


class Connections:
    """The connections of one process; each purpose belongs to one thread at a time."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._stopping = Flag()
        self._open: dict[str, psycopg.Connection[Any]] = {}
        self._threads: list[Thread] = []
        self._listened: list[str] = []  # purposes
        self._news = Flag()

    def to(self, purpose: str) -> psycopg.Connection[Any]:
        """The connection for a purpose."""
        connection = self._open.get(purpose)
        if connection is None or connection.closed:
            if self._stopping.is_set():
                raise psycopg.OperationalError("the store is closed")
            connection = connected(self.address, purpose)
            self._open[purpose] = connection
        return connection

    def drop(self, purpose: str) -> None:
        connection = self._open.pop(purpose, None)
        if connection is not None:
            connection.close()

    def listen(self, channel: str, received: Callable[[str], None], purpose: str = "listen") -> None:
        """Call `received`, on a thread, with the words of every notice, and with `MISSED` when it begins to listen."""
        self._listened.append(purpose)
        self._run(self._listening, channel, received, purpose)

    def tell(self, channel: str) -> None:
        """Send an empty notice soon; many of these are one."""
        if not self._news.is_set():
            self._news.set()
            if not any(thread.name == "tell" for thread in self._threads):
                self._run(self._telling, channel, name="tell")

    def close(self) -> None:
        """Statements on other threads get their answers, or fail: closed under them, they could wait forever."""
        self._stopping.set()
        self._news.set()
        for connection in filter(None, map(self._open.get, self._listened)):
            _stop_reading(connection)
        for thread in self._threads:
            thread.join()
        until = time.monotonic() + PATIENCE
        for connection in list(self._open.values()):
            is_free = connection.lock.acquire(timeout=max(0.0, until - time.monotonic()))
            if not is_free:
                _stop_reading(connection)
                is_free = connection.lock.acquire(timeout=PATIENCE)
            connection.close()
            if is_free:
                connection.lock.release()

    def _run(self, work: Callable[..., None], *arguments: Any, name: str = "listen") -> None:
        thread = Thread(target=work, args=arguments, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _telling(self, channel: str) -> None:
        """Apart from the commits that it is about, since all that notify wait for each other; nobody waits for it."""
        while self._news.wait():
            self._news.clear()
            if self._stopping.is_set():  # asked after clearing, which may have taken away the last call of all
                return
            try:
                self.to("tell").execute(NOTIFY, [channel, ""])
            except psycopg.Error:  # who learns looks by itself
                self.drop("tell")
            self._stopping.wait(TELL_EVERY)

    def _listening(self, channel: str, received: Callable[[str], None], purpose: str) -> None:
        while not self._stopping.is_set():
            try:
                connection = self.to(purpose)
                connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                received(MISSED)
                while not self._stopping.is_set():
                    for notice in connection.notifies(timeout=PAUSE):
                        received(notice.payload)
                        if self._stopping.is_set():
                            return
            except psycopg.Error:
                self.drop(purpose)
                self._stopping.wait(PAUSE)

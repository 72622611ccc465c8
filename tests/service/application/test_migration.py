"""A log says its version; one of a newer rankloop is refused, and what is no log too."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from rankloop.cli.main import main
from rankloop.core.errors import Conflict, InvalidInput
from rankloop.service.application.backup import bring_up_to_date, version_of
from rankloop.service.settings import Settings
from rankloop.service.stores.open import open_store
from rankloop.service.stores.sqlite import FILE_NAME
from tests.service.cases import SHOP, Location, learn, running


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    told = capsys.readouterr()
    return int(left.value.code or 0), told.out + told.err


def test_a_log_is_up_to_date_and_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=SHOP).raise_for_status()
        learn(client, 3)
    code, said = run(capsys, "migrate", str(tmp_path), "--check")
    assert (code, "version 1" in said, "it is up to date" in said) == (0, True, True)
    assert "the same bit for bit" in said


def test_a_database_says_its_version(postgres: Callable[[], str]) -> None:
    address = postgres()
    with pytest.raises(InvalidInput, match="not the log"):
        version_of(address)
    open_store(Settings(store=address)).close()
    assert version_of(address) == 1
    assert bring_up_to_date(address) == 1


def test_a_newer_log_is_refused(tmp_path: Path) -> None:
    open_store(Settings(data=tmp_path)).close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("PRAGMA user_version = 99")
    for call in (version_of, bring_up_to_date):
        with pytest.raises(Conflict, match="version 99"):
            call(str(tmp_path))
    with pytest.raises(Conflict, match="version 99"):
        open_store(Settings(data=tmp_path))


def test_another_file_is_no_log(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("nothing of the kind")
    with pytest.raises(InvalidInput, match="not the log"):
        version_of(str(tmp_path))

"""A log of 0.1 says its version, is brought up to date, and replays to the same states; a newer one is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.compatibility.observations import ELSEWHERE, copied, read, rebuilt, same_cpu

from rankloop.cli.main import main
from rankloop.core.errors import Conflict, InvalidInput
from rankloop.service.application.upkeep.backup import back_up
from rankloop.service.application.upkeep.migration import bring_up_to_date, version_of
from rankloop.service.application.upkeep.restoration import check, restore
from rankloop.service.stores.open import log_at

pytestmark = pytest.mark.filterwarnings(ELSEWHERE)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    told = capsys.readouterr()
    return int(left.value.code or 0), told.out + told.err


def test_a_folder_of_0_1_is_brought_up_to_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = copied("archive/data", tmp_path)
    before = (data / "rankloop.db").read_bytes()
    code, said = run(capsys, "migrate", str(data), "--dry-run")
    assert (code, "version 2 (that of rankloop 0.1)" in said, "to go" in said) == (0, True, True)
    assert (data / "rankloop.db").read_bytes() == before
    code, said = run(capsys, "migrate", str(data), "--check")
    assert "taken" in said
    assert code == 0 or not same_cpu()
    with log_at(str(data)) as log:
        listed = [file.name for entity in log.entities() for file in log.manifest(entity)]
    assert sorted(listed) == sorted(file.name for file in (data / "archive").iterdir())
    code, said = run(capsys, "migrate", str(data))
    assert (code, "it is up to date" in said) == (0, True)


def test_a_backup_of_0_1_becomes_a_log_of_today(tmp_path: Path, postgres: Callable[[], str]) -> None:
    """Of a folder into a database, and of the database of 0.1 into a folder."""
    old, new = postgres(), postgres()
    rebuilt(old, read("postgres/expected.json.gz")["open"])
    back_up(old, tmp_path / "from-database", tmp_path)
    restore(tmp_path / "from-database", str(tmp_path / "folder"))
    back_up(str(copied("archive/data", tmp_path)), tmp_path / "from-folder")
    restore(tmp_path / "from-folder", new, tmp_path / "archived")
    ways = ((old, str(tmp_path / "folder"), None), (str(tmp_path / "data"), new, tmp_path / "archived"))
    for before, after, data in ways:
        expected, found = check(before), check(after, data)
        assert found
        assert found == expected
        assert version_of(after).found == version_of(after).current
    assert version_of(old).found == 2
    assert bring_up_to_date(old, tmp_path).found == 2
    assert check(old) == check(str(tmp_path / "folder"))


def test_a_newer_log_and_what_is_none_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = copied("archive/data", tmp_path)
    with closing(sqlite3.connect(data / "rankloop.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(Conflict, match="use the rankloop that wrote it"):
        bring_up_to_date(str(data))
    code, said = run(capsys, "migrate", str(data), "--dry-run")
    assert (code, len(said.splitlines())) == (2, 1)
    (tmp_path / "text").write_text("no database")
    with pytest.raises(InvalidInput, match="is not the log"):
        version_of(str(tmp_path / "text"))

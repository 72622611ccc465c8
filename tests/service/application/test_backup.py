"""A backup is made while the service runs, and becomes the same service in either kind of store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from rankloop.cli.main import main
from rankloop.core.errors import Conflict, InvalidInput, NotFound
from rankloop.service.application.backup import back_up, migrate_log, restore
from rankloop.service.application.rebuild import replay_log
from rankloop.service.settings import Settings
from rankloop.service.stores.open import log_at, open_store
from rankloop.service.stores.sqlite import FILE_NAME
from tests.service.cases import SHOP, Location, feed, inside, learn, rank, report, running, until


def address_of(location: Location) -> str:
    return location.store or str(location.data)


@pytest.fixture(params=["sqlite", "postgres"])
def other(request: pytest.FixtureRequest, postgres: Callable[[], str], tmp_path: Path) -> Location:
    """Where a backup is restored to."""
    return Location(tmp_path / "restored", postgres() if request.param == "postgres" else "")


def test_a_backup_under_load_goes_on_as_the_service_in_either_store(location: Location, other: Location) -> None:
    file = location.data / "shop.rankloop-backup"
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 4})
        learn(client, 9)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 3)
        waiting = rank(client, tags={"page": "home"})
        before = list(inside(client).store.read("ranker/shop"))
        visits = Thread(target=learn, args=(client, 20))
        visits.start()
        summary = back_up(address_of(location), file)
        visits.join()
    restore(file, address_of(other))
    (result,) = replay_log(address_of(other))
    assert not result.differing
    with log_at(address_of(other)) as log:
        restored = list(log.read("ranker/shop"))
    assert restored[: len(before)] == before  # everything that was answered before is in it
    assert restored[-1].seq == summary.last
    with running(other) as client:
        learned = report(client)["counts"]["learned"]
        assert feed(client, waiting["impression"], clicks=waiting["ranking"][1:2], final=True).status_code == 200
        learn(client, 2)
        assert report(client)["counts"]["learned"] == learned + 3
        assert len(client.get("/log/shop.jsonl").text.splitlines()) > len(restored)
    (result,) = replay_log(address_of(other))
    assert not result.differing


def test_a_backup_takes_no_place_that_is_taken(location: Location, other: Location) -> None:
    file = location.data / "backup"
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP)
    back_up(address_of(location), file)
    with pytest.raises(Conflict, match="exists already"):
        back_up(address_of(location), file)
    restore(file, address_of(other))
    for place in (other, location):
        before = place.records()
        with pytest.raises(Conflict, match="empty place"):
            restore(file, address_of(place))
        assert place.records() == before
    assert sorted(path.name for path in location.data.iterdir() if path.name.startswith((".", "backup"))) == ["backup"]


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A small one, of SQLite."""
    location, file = Location(tmp_path / "data"), tmp_path / "backup"
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2})
        learn(client, 5)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 3)
    back_up(str(location.data), file)
    return file


def test_an_incomplete_backup_is_refused_before_anything_is_written(backup: Path, tmp_path: Path) -> None:
    content, to = backup.read_bytes(), tmp_path / "new"
    begin = content.index(b"learner")
    wrongs = {
        "damaged": content[:begin] + b"F" + content[begin + 1 :],
        "not a complete backup": b"nothing of the kind",
        "not a complete backup|damaged": content[: len(content) // 2],
        "versions up to": _changed(backup, "PRAGMA user_version = 2"),
        "not a complete backup .*": _changed(backup, "DROP TABLE rankloop_backup"),
        "damaged: its rows": _changed(backup, "DELETE FROM rankloop_events WHERE seq = 3"),
    }
    for message, wrong in wrongs.items():
        backup.write_bytes(wrong)
        with pytest.raises(InvalidInput, match=message):
            restore(backup, str(to))
        assert not to.exists()
    backup.unlink()
    with pytest.raises(NotFound):
        restore(backup, str(to))


def _changed(file: Path, statement: str) -> bytes:
    changed = file.with_suffix(".changed")
    changed.write_bytes(file.read_bytes())
    with closing(sqlite3.connect(changed)) as connection:
        connection.execute(statement)
        connection.commit()
    return changed.read_bytes()


def test_only_its_owner_can_read_a_backup_which_is_a_log_itself(backup: Path) -> None:
    assert backup.stat().st_mode & 0o077 == 0
    (result,) = replay_log(str(backup))
    assert (result.learned, result.differing) == (5, ())


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    told = capsys.readouterr()
    return int(left.value.code or 0), told.out + told.err


def test_a_log_is_up_to_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_store(Settings(data=tmp_path)).close()
    for place in (tmp_path, tmp_path / FILE_NAME):
        assert run(capsys, "migrate", str(place)) == (0, "the log has version 1: it is up to date\n")
    code, said = run(capsys, "migrate", str(tmp_path), "--dry-run", "--json")
    assert (code, json.loads(said)) == (0, {"version": 1, "current": 1, "migrated": False})
    (tmp_path / FILE_NAME).rename(tmp_path / "copy")
    with pytest.raises(InvalidInput, match="another file"):
        migrate_log(str(tmp_path / "copy"))


def test_a_database_says_its_version(postgres: Callable[[], str]) -> None:
    address = postgres()
    with pytest.raises(InvalidInput, match="not the log"):
        migrate_log(address, dry_run=True)
    open_store(Settings(store=address)).close()
    assert migrate_log(address) == 1


def test_a_newer_log_is_refused(tmp_path: Path) -> None:
    open_store(Settings(data=tmp_path)).close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("PRAGMA user_version = 99")
    for call in (lambda: migrate_log(str(tmp_path)), lambda: open_store(Settings(data=tmp_path))):
        with pytest.raises(Conflict, match="version 99"):
            call()


def test_another_file_is_no_log(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("nothing of the kind")
    with pytest.raises(InvalidInput, match="not the log"):
        back_up(str(tmp_path), tmp_path / "copy")

"""A backup is made while the service runs, and becomes the same service."""

from __future__ import annotations

import gzip
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


def test_a_backup_under_load_goes_on_as_the_service(tmp_path: Path) -> None:
    location, other, file = Location(tmp_path / "data"), Location(tmp_path / "restored"), tmp_path / "shop.db.gz"
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 4})
        learn(client, 9)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 3)
        waiting = rank(client, tags={"page": "home"})
        before = list(inside(client).store.read("ranker/shop"))
        visits = Thread(target=learn, args=(client, 20))
        visits.start()
        contents = back_up(str(location.data), file)
        visits.join()
    assert restore(file, other.data) == contents
    (result,) = replay_log(str(other.data))
    assert not result.differing
    with log_at(str(other.data)) as log:
        restored = list(log.read("ranker/shop"))
    assert restored[: len(before)] == before  # everything that was answered before is in it
    assert (restored[-1].seq, len(restored)) == (contents.last, contents.events)
    with running(other) as client:
        learned = report(client)["counts"]["learned"]
        assert feed(client, waiting["impression"], clicks=waiting["ranking"][1:2], final=True).status_code == 200
        learn(client, 2)
        assert report(client)["counts"]["learned"] == learned + 3
        assert len(client.get("/log/shop.jsonl").text.splitlines()) > len(restored)
    (result,) = replay_log(str(other.data))
    assert not result.differing


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A small one."""
    location, file = Location(tmp_path / "data"), tmp_path / "backup"
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2})
        learn(client, 5)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 3)
    back_up(str(location.data), file)
    return file


def test_a_backup_takes_no_place_that_is_taken(backup: Path, tmp_path: Path) -> None:
    location, other = Location(tmp_path / "data"), Location(tmp_path / "other")
    content = backup.read_bytes()
    with pytest.raises(Conflict, match="exists already"):
        back_up(str(location.data), backup)
    assert backup.read_bytes() == content
    restore(backup, other.data)
    for place in (other, location):
        before = place.records()
        with pytest.raises(Conflict, match="empty place"):
            restore(backup, place.data)
        assert place.records() == before
    (other.data / FILE_NAME).rename(other.data / f"{FILE_NAME}-wal")  # which would be read as a part of the log
    with pytest.raises(Conflict, match="empty place"):
        restore(backup, other.data)
    with pytest.raises(Conflict, match="in use by another process"), running(location):
        restore(backup, location.data)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "data", "other"]


def test_an_incomplete_backup_is_refused_and_leaves_nothing(backup: Path, tmp_path: Path) -> None:
    content, to = backup.read_bytes(), tmp_path / "new"
    middle = len(content) // 2
    wrongs = [  # a single bit of the data may change nothing that is read
        content[:-8] + bytes([content[-8] ^ 1]) + content[-7:],
        content[:middle] + bytes(byte ^ 0xFF for byte in content[middle : middle + 64]) + content[middle + 64 :],
        content[:middle],
        content[:-1],
        b"nothing of the kind",
        gzip.compress(b"nothing of the kind"),
        gzip.compress(_changed(content, tmp_path, "DROP TABLE rankloop_events")),
    ]
    for wrong in wrongs:
        backup.write_bytes(wrong)
        with pytest.raises(InvalidInput, match="not a complete backup"):
            restore(backup, to)
        assert [path.name for path in to.iterdir()] == ["rankloop.lock"]
    backup.write_bytes(gzip.compress(_changed(content, tmp_path, "PRAGMA user_version = 2")))
    with pytest.raises(Conflict, match="versions up to"):
        restore(backup, to)
    backup.unlink()
    with pytest.raises(NotFound):
        restore(backup, to)


def _changed(content: bytes, folder: Path, statement: str) -> bytes:
    changed = folder / "changed"
    changed.write_bytes(gzip.decompress(content))
    with closing(sqlite3.connect(changed)) as connection:
        connection.execute(statement)
        connection.commit()
    return changed.read_bytes()


def test_only_its_owner_can_read_a_backup_which_is_a_compressed_log(backup: Path, tmp_path: Path) -> None:
    assert backup.stat().st_mode & 0o077 == 0
    (tmp_path / "log").write_bytes(gzip.decompress(backup.read_bytes()))
    (result,) = replay_log(str(tmp_path / "log"))
    assert (result.learned, result.differing) == (5, ())


def test_a_database_is_backed_up_by_its_own_tools(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="pg_dump"):
        back_up("postgresql://nowhere/none", tmp_path / "backup")


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

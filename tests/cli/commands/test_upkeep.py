"""`rankloop backup`, `restore` and `replay`, as they are typed: what they say, and their exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rankloop.cli import main
from tests.service.cases import SHOP, Location, learn, running, until

pytestmark = pytest.mark.usefixtures("broken_connections_end_here")
NOBODY = "postgresql://nobody:a-secret@127.0.0.1:1/nothing"  # nothing listens there


def replay(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as left:
        main(["replay", *arguments])
    return left.value.code


def test_replay_proves_the_log_of_either_store(location: Location, capsys: pytest.CaptureFixture[str]) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 4})
        client.put("/rankers/other", json=SHOP)
        learn(client, 10)
        learn(client, 3, "other")
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 3)
    log = location.store or str(location.data)
    assert replay(log, "--json") == 0
    other, shop = sorted(json.loads(capsys.readouterr().out), key=lambda result: str(result["entity"]))
    assert (shop["entity"], shop["learned"], shop["differing"]) == ("ranker/shop", 10, [])
    assert (other["entity"], other["learned"], other["differing"]) == ("ranker/other", 3, [])
    assert shop["checked"] >= 2
    assert replay(log) == 0
    assert capsys.readouterr().out.count("the same bit for bit") == 2


def test_replay_of_what_is_no_log_is_one_line(
    tmp_path: Path, postgres: Callable[[], str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("hello")
    wrong = {
        str(tmp_path): "there is no log",
        str(tmp_path / "text"): "is not the log of a rankloop service",
        postgres(): "is not the log of a rankloop service",
        NOBODY: "this PostgreSQL cannot be read",
    }
    for log, words in wrong.items():
        assert replay(log) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert words in said.err
        assert said.err.count("\n") == 1


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    told = capsys.readouterr()
    return int(left.value.code or 0), told.out + told.err


def test_a_folder_is_backed_up_checked_and_restored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, new = tmp_path / "shop.db.gz", tmp_path / "new"
    with running(Location(tmp_path / "data")) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2})
        learn(client, 3)
        code, said = run(capsys, "backup", tmp_path / "data", "--to", file)
    assert (code, f"{file}: " in said) == (0, True)
    code, said = run(capsys, "restore", file, "--to", new, "--json")
    assert (code, json.loads(said)["events"] >= 7) == (0, True)
    code, said = run(capsys, "replay", new)
    assert (code, "the same bit for bit" in said) == (0, True)
    code, said = run(capsys, "restore", file, "--to", new)
    assert (code, len(said.splitlines()), "empty place" in said) == (2, 1, True)
    code, said = run(capsys, "backup", tmp_path / "nowhere", "--to", tmp_path / "other")
    assert (code, len(said.splitlines())) == (2, 1)

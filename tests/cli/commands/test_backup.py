"""`rankloop backup` and `rankloop restore`: what they say, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rankloop.cli.main import main
from tests.service.cases import SHOP, Location, learn, running


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    told = capsys.readouterr()
    return int(left.value.code or 0), told.out + told.err


def test_a_folder_is_backed_up_checked_and_restored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, new = tmp_path / "shop.rankloop-backup", tmp_path / "new"
    with running(Location(tmp_path / "data")) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2})
        learn(client, 3)
        code, said = run(capsys, "backup", tmp_path / "data", "--to", file, "--check")
    assert (code, "the same bit for bit" in said) == (0, True)
    code, said = run(capsys, "restore", file, "--to", new, "--check", "--json")
    assert (code, json.loads(said)["rows"]["events"] >= 7) == (0, True)
    code, said = run(capsys, "restore", file, "--to", new)
    assert (code, len(said.splitlines()), "empty place" in said) == (2, 1, True)
    code, said = run(capsys, "backup", tmp_path / "nowhere", "--to", tmp_path / "other")
    assert (code, len(said.splitlines())) == (2, 1)

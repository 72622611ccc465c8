"""`rankloop serve` and `rankloop replay`, as they are typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from service_cases import SHOP, Place, inside, learn, running, until

from rankloop.cli import main
from rankloop.service.retention import compact

NOBODY = "postgresql://nobody:a-secret@127.0.0.1:1/nothing"  # nothing listens there


def served(*arguments: str, store: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rankloop.cli", "serve", "--port", "0", *arguments]
    environment = os.environ | {"RANKLOOP_STORE": store}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def replay(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as left:
        main(["replay", *arguments])
    return left.value.code


@pytest.mark.parametrize("workers", ["1", "3"])
def test_a_database_that_cannot_be_reached_is_one_line(tmp_path: Path, workers: str) -> None:
    done = served("--data", str(tmp_path), "--workers", workers, store=NOBODY)
    assert done.returncode == 2
    *_, last = done.stderr.splitlines()
    assert last.startswith("rankloop: the PostgreSQL of RANKLOOP_STORE cannot be used: ")
    assert "Traceback" not in done.stderr
    assert "a-secret" not in done.stderr


def test_a_data_folder_in_use_is_one_line(tmp_path: Path) -> None:
    with running(Place(tmp_path)):
        done = served("--data", str(tmp_path))
    assert done.returncode == 2
    assert "in use by another process" in done.stderr
    assert "Traceback" not in done.stderr


def test_replay_proves_the_log_of_either_store_with_its_archive(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(place) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 4})
        client.put("/rankers/other", json=SHOP)
        learn(client, 10)
        learn(client, 3, "other")
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 2)
        assert compact(inside(client).store, "ranker/shop", place.data, time.time() + 1) > 0
    log = place.store or str(place.data)
    assert replay(log, "--data", str(place.data), "--json") == 0
    other, shop = sorted(json.loads(capsys.readouterr().out), key=lambda result: str(result["stream"]))
    assert (shop["stream"], shop["learned"], shop["differing"]) == ("ranker/shop", 10, [])
    assert (other["stream"], other["learned"], other["differing"]) == ("ranker/other", 3, [])
    assert shop["checked"] >= 2
    assert replay(log, "--data", str(place.data)) == 0
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

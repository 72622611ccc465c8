"""Limits are set by the operator, and only so that they make sense."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.service.cases import SHOP, Place, items, rank, running

from rankloop.cli import main
from rankloop.service.http import server as workers
from rankloop.service.settings import Settings, limits_from


def test_limits_are_set_by_the_operator(tmp_path: Path) -> None:
    with running(Place(tmp_path), **limits_from(["items=3", "open=2", "rankers=1", "body=5000"])) as client:
        client.put("/rankers/shop", json=SHOP).raise_for_status()
        assert client.put("/rankers/second", json=SHOP).status_code == 409
        assert client.post("/rankers/shop/rank", json={"items": items(4)}).status_code == 413
        for _ in range(2):
            rank(client, items=items(3))
        full = client.post("/rankers/shop/rank", json={"items": items(3)})
        assert (full.status_code, "limit" in full.json()["detail"]) == (503, True)
        assert client.post("/rankers/shop/rank", content=bytes(5001)).status_code == 413


def test_limits_that_make_no_sense_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("items", "items=", "items=many", "cooks=3", "items=0", "rate=nan", "rate=inf", "items=-1"):
        with pytest.raises(SystemExit) as left:
            main(["serve", "--data", str(tmp_path), "--limit", wrong])
        assert left.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_every_worker_gets_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[Settings, list[str]]] = []
    monkeypatch.setenv("RANKLOOP_STORE", "postgresql://nobody@127.0.0.1:1/nothing")
    monkeypatch.setattr(
        workers, "serve_with_workers", lambda settings, say, arguments: begun.append((settings, arguments))
    )
    limits = ["--limit", "items=5", "--limit", "rate=2.5"]
    with pytest.raises(SystemExit) as left:
        main(["serve", "--data", str(tmp_path), "--workers", "2", *limits])
    assert left.value.code == 0
    ((settings, arguments),) = begun
    assert (settings.max_items, settings.rate) == (5, 2.5)
    assert arguments[-4:] == limits


@pytest.mark.parametrize("given", ["option", "variable"])
def test_limits_are_options_and_a_variable(tmp_path: Path, given: str) -> None:
    wanted = ["items=3", "cooks=2"]  # the second is wrong, and said to be so: both were read
    options = [part for limit in wanted for part in ("--limit", limit)] if given == "option" else []
    variable = {"RANKLOOP_LIMITS": " ".join(wanted)} if given == "variable" else {}
    command = [sys.executable, "-m", "rankloop.cli", "serve", "--port", "0", "--data", str(tmp_path), *options]
    done = subprocess.run(command, env=os.environ | variable, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("rankloop: --limit cooks=2: ")

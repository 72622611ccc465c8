"""The logs of services of 0.1 replay, export and go on: SQLite after a crash, an archive in Parquet, PostgreSQL."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.compatibility.observations import (
    ELSEWHERE,
    FILES,
    assert_same,
    copied,
    judged_logs,
    read,
    rebuilt,
    reopened,
    same_cpu,
    served,
)
from tests.compatibility.processes import empty_database

pytestmark = pytest.mark.filterwarnings(ELSEWHERE)


@pytest.fixture(scope="module", params=["service", "archive", "postgres"])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What was observed of a log with 0.1, and what is now."""
    told = read(f"{request.param}/expected.json.gz")
    folder: Path = tmp_path_factory.mktemp(request.param)
    if request.param == "postgres":
        with empty_database() as address:
            rebuilt(address, told["open"])
            yield told["expected"], served(folder, address, told)
        return
    data = copied(f"{request.param}/data", folder)
    reopened(data, told["open"])
    yield told["expected"], served(data, "", told)


@pytest.mark.parametrize("part", ["replayed", "reports", "exports"])
def test_a_log_says_what_it_said(log: Any, part: str) -> None:
    """The replay with its digests, every report, snapshot and downloaded state, both exports."""
    expected, found = log
    assert_same(found[part], expected[part], part)


@pytest.mark.parametrize("part", ["answers", "after", "replayed after"])
def test_a_service_goes_on_with_its_log(log: Any, part: str) -> None:
    """Keys and feedback that came before are recognised, open impressions are learned from, the next draws are due."""
    expected, found = log
    assert_same(found[part], expected[part], part)


@pytest.mark.parametrize("part", ["restarted states", "restarted"])
def test_a_service_goes_on_after_another_stop(log: Any, part: str) -> None:
    expected, found = log
    assert_same(found[part], expected[part], part)


def test_a_saved_ranker_is_judged_by_the_old_logs(tmp_path: Path) -> None:
    """By an export of 0.1, and by the folder of its service, with the archive, place by place."""
    for name in ("archive", "commands"):
        copied(name, tmp_path)
    assert_same(judged_logs(tmp_path), read("archive/judged.json"))


def test_the_command_replays_an_archive(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rankloop.cli", "replay", str(copied("archive/data", tmp_path)), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 or not same_cpu(), done.stderr
    assert_same({"rankers": json.loads(done.stdout)}, read("archive/expected.json.gz")["expected"]["replayed"])


def test_every_kind_of_event_is_in_the_logs() -> None:
    kinds, told = set(), set()
    for one in read("service/expected.json.gz")["expected"]["exports"].values():
        kinds |= {line["kind"] for line in one["lines"]}
        told |= {line["what"] for line in one["lines"] if line["kind"] == "fed"}
    assert told == {"clicks", "relevances", "preferred", "reward"}
    assert kinds == {
        "created",
        "experiment",
        "ranked",
        "fed",
        "closed",
        "frozen",
        "resumed",
        "rolled_back",
        "snapshotted",
    }
    assert list((FILES / "archive" / "data" / "archive").glob("*.parquet"))

"""Nothing acknowledged is lost, and the state is the log: crashes at every write point, and kill -9 under load."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.cases import Location
from tests.service.processes import Told, Visitors, serving
from tests.service.promises.crash_points import DIED, POINTS
from tests.service.promises.durability import check_survived

HERE = Path(__file__).parent
KILLS = int(os.environ.get("RANKLOOP_KILLS", "3"))


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def crashed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Location]:
    folder = tmp_path_factory.mktemp("crashes")
    stores = [request.getfixturevalue("postgres")() for _ in POINTS] if request.param == "postgres" else []
    command = [sys.executable, HERE / "crash_points.py", folder, *stores]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == [word for point in POINTS for word in (point, str(DIED))], done.stderr
    return {point: Location(folder / point, stores[i] if stores else "") for i, point in enumerate(POINTS)}


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_a_write_point_loses_nothing_that_was_acknowledged(crashed: dict[str, Location], point: str) -> None:
    location = crashed[point]
    told = [tuple(line.split()) for line in (location.data / "acknowledged").read_text().splitlines()]
    assert check_survived(location, told) >= 10  # type: ignore[arg-type]


@pytest.mark.slow
def test_kill_9_under_load_loses_nothing_that_was_acknowledged(location: Location) -> None:
    told: Told = []
    for kill in range(1, KILLS + 1):
        process, port = serving(location)
        visitors = Visitors(port, told)
        visitors.until(60 * kill)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        visitors.leave()
    check_survived(location, told)


def test_a_graceful_stop_snapshots_and_exits_with_0(tmp_path: Path) -> None:
    location, told = Location(tmp_path), []  # type: ignore[var-annotated]
    process, port = serving(location)
    visitors = Visitors(port, told, n=2)
    visitors.until(20)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    visitors.leave()
    check_survived(location, told)
    assert type(location.records()[-1].event).__name__ == "Snapshotted"

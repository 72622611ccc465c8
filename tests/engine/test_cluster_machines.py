"""Three machines, really: hosts with a Ray head and two workers, which alone see the data, and what happens to them.

A minute of processor time, so it runs with `make cluster-test` and not with `make test`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rankloop.core.files import PACKAGE_FOLDER
from rankloop.engine import Here
from tests.data.parts.cases import write_parts
from tests.engine.machines import PARTS, Machines, three_machines
from tests.hosts import requires_hosts

pytest.importorskip("ray", reason='Ray is not installed: pip install "rankloop[cluster]"')
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("RANKLOOP_CLUSTER_TEST" not in os.environ, reason="three machines: run `make cluster-test`"),
    pytest.mark.filterwarnings("ignore"),
]
TRAINING = Path(__file__).parent / "training.py"


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_parts(tmp_path_factory.mktemp("data"), n_parts=6, n_queries=120, n_items=20)


@pytest.fixture(scope="module")
def expected(parts: Path, tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:  # type: ignore[type-arg]
    """The numbers of one process that sees all the data."""
    from tests.engine.training import train

    out = tmp_path_factory.mktemp("here")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RANKLOOP_CACHE", str(tmp_path_factory.mktemp("cache")))
        train(str(parts), Here(), out)
    numbers: np.ndarray = np.load(out / "numbers.npy")  # type: ignore[type-arg]
    return numbers


@pytest.fixture
def machines(tmp_path: Path, parts: Path) -> Iterator[Machines]:
    with three_machines(tmp_path, parts) as started:
        yield started


def _ended(training: subprocess.Popen[str]) -> str:
    return training.communicate(timeout=240)[0]


@requires_hosts
@pytest.mark.parametrize("fault", ["kill", "cut"])
def test_a_machine_that_dies_does_not_change_a_bit(
    machines: Machines,
    expected: np.ndarray,
    tmp_path: Path,
    fault: str,  # type: ignore[type-arg]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    training = machines.command(TRAINING, PARTS, str(out), "10")
    machines.wait_until((out / "reached").exists, training)
    copies = [list((machines.cache(number) / "parts").glob("*/features.npy")) for number in (1, 2)]
    assert all(copies), "both workers have read parts"
    assert not (machines.cache(0) / "parts").exists(), "the head has read none"
    getattr(machines.hosts[2], fault)()
    (out / "happened").touch()
    printed = _ended(training)
    assert training.returncode == 0, printed
    assert np.array_equal(np.load(out / "numbers.npy"), expected)


@requires_hosts
@pytest.mark.parametrize("at", [0, 1])
def test_a_head_that_dies_is_said_and_leaves_no_model(machines: Machines, tmp_path: Path, at: int) -> None:
    """To a command beside it, which Ray takes along, and to one on another machine."""
    out = tmp_path / "out"
    out.mkdir()
    training = machines.command(TRAINING, PARTS, str(out), "10", at=at)
    machines.wait_until((out / "reached").exists, training)
    for pid in machines.hosts[0].pids():
        if b"ray" in Path(f"/proc/{pid}/cmdline").read_bytes() and pid != training.pid:
            os.kill(pid, signal.SIGKILL)
    (out / "happened").touch()
    printed = _ended(training)
    assert training.returncode != 0
    assert f"the head of the cluster at {machines.hosts[0].address}:6379" in printed
    assert "nothing was saved" in printed
    assert not (out / "model.rankloop").exists()


@requires_hosts
def test_another_version_on_a_machine_and_a_damaged_part_are_named(
    machines: Machines, parts: Path, tmp_path: Path
) -> None:
    shutil.copytree(PACKAGE_FOLDER.parent, tmp_path / "other", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "other" / "rankloop" / "training" / "bundle.py").open("a") as file:
        file.write("LEVEL = 0.4\n")
    machines.hosts[2].kill()
    machines.start_worker(2, source=tmp_path / "other")
    out = tmp_path / "out"
    out.mkdir()
    training = machines.command(TRAINING, PARTS, str(out))
    printed = _ended(training)
    assert training.returncode != 0
    assert f"the machine {machines.hosts[2].address} has other versions" in printed
    assert "rankloop's source" in printed
    machines.hosts[2].kill()
    machines.start_worker(2)
    good = (parts / "part-5.txt.gz").read_bytes()
    (parts / "part-5.txt.gz").write_bytes(good[:-200])
    try:
        training = machines.command(TRAINING, PARTS, str(out))
        printed = _ended(training)
    finally:
        (parts / "part-5.txt.gz").write_bytes(good)
    assert training.returncode != 0
    assert "part-5.txt.gz is cut short or damaged" in printed
    assert not list(out.iterdir())

"""Every engine gives the same results in the same order, and says clearly when something goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import Pipe
from pathlib import Path

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.engine import Engine, Here, LocalProcesses, WorkerDied, processes

PARENT = """
import os, sys, time
from pathlib import Path
from rankloop.engine import LocalProcesses

def sleep(path):
    Path(path).write_text(str(os.getpid()))
    time.sleep(600)

if __name__ == "__main__":
    LocalProcesses(workers=1).map([sys.argv[1]], sleep)
"""
ENGINES: list[Engine] = [Here(), LocalProcesses(workers=2)]


def _sums(task: int) -> float:
    time.sleep(0.05 * (task % 2))  # so that they finish out of order
    return float(np.random.default_rng(task).random(1000).sum())


def _threads(task: int) -> str | None:
    return os.environ.get("OPENBLAS_NUM_THREADS")


def _refuse_three(task: int) -> int:
    if task == 3:
        raise InvalidInput("three is not allowed")
    return task


def _die_once(task: tuple[int, str]) -> int:
    number, marker = task
    if number == 1 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def _die(task: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return task


def _unsendable(task: int) -> object:
    return lambda: task


@pytest.mark.parametrize("engine", ENGINES, ids=repr)
def test_results_are_in_the_order_of_the_tasks(engine: Engine) -> None:
    seen: list[int] = []
    results = engine.map(range(6), _sums, lambda index, result: seen.append(index))
    assert results == [_sums(task) for task in range(6)]
    assert sorted(seen) == list(range(6))


@pytest.mark.parametrize("engine", ENGINES, ids=repr)
def test_no_tasks_no_results(engine: Engine) -> None:
    assert engine.map([], _sums) == []


@pytest.mark.parametrize("engine", ENGINES, ids=repr)
def test_an_error_of_the_function_is_raised_here(engine: Engine) -> None:
    with pytest.raises(InvalidInput, match="three is not allowed"):
        engine.map(range(6), _refuse_three)


def test_workers_use_one_thread_and_leave_this_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    assert LocalProcesses(workers=1).map([0], _threads) == ["1"]
    assert os.environ["OPENBLAS_NUM_THREADS"] == "7"


def test_a_task_whose_worker_died_is_computed_again(tmp_path: Path) -> None:
    marker = str(tmp_path / "died")
    assert LocalProcesses(workers=2).map([(n, marker) for n in range(4)], _die_once) == [0, 1, 2, 3]


def test_a_task_that_kills_every_worker_is_named() -> None:
    with pytest.raises(WorkerDied, match="task 0 died 2 times"):
        LocalProcesses(workers=1).map([0], _die)


def test_a_result_that_cannot_travel_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"pickle|local object"):
        LocalProcesses(workers=1).map([0], _unsendable)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see that a process is gone")
def test_workers_leave_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, str(script), str(tmp_path / "worker")])
    worker = tmp_path / "worker"
    _wait_until(lambda: worker.exists() and worker.read_text() != "", 30)
    parent.kill()
    parent.wait()
    _wait_until(lambda: not _alive(int(worker.read_text())), 10)


def _alive(pid: int) -> bool:
    """Running; a zombie that nobody has buried yet is not."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def _wait_until(reached: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_workers_count_from_one() -> None:
    with pytest.raises(InvalidInput, match="at least 1, got 0"):
        LocalProcesses(workers=0)


def test_a_worker_ends_quietly_if_its_parent_ended_before_it_read_an_answer() -> None:
    """A traceback of the worker would otherwise follow Ctrl-C."""
    parent_end, worker_end = Pipe()
    worker_end.send("an answer that nobody reads")
    parent_end.close()  # with unread bytes, so the worker gets "connection reset" instead of an end of file
    processes._serve(worker_end)


def test_the_first_worker_leaves_ctrl_c_to_its_parent() -> None:
    """In a new process, where the first worker brings the resource tracker, whose start unblocks signals."""
    program = "from rankloop.engine import LocalProcesses; from tests.engine.tasks import blocks_interrupts as blocks; "
    program += "print(LocalProcesses(workers=2).map([0, 1, 2, 3], blocks))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[True, True, True, True]"

"""Sums over partitions are the same on every engine, to the last bit, also when a worker dies."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.engine import Here, LocalProcesses, SummingEngine, Threads, WorkerDied
from tests.engine.tasks import scaled

ENGINES: list[SummingEngine] = [Here(), Threads(workers=1), Threads(workers=3), LocalProcesses(workers=2)]
PARTITIONS = [np.random.default_rng(seed).normal(size=100) * 10.0**seed for seed in range(5)]


def _where(partition: Any, argument: int) -> Any:
    return np.array([os.getpid()])


def _thread(partition: Any, argument: int) -> Any:
    """The number of the thread, at the place of the partition."""
    return np.where([partition is each for each in PARTITIONS], float(threading.get_ident()), 0.0)


def _refuse(partition: Any, argument: int) -> Any:
    raise InvalidInput(f"not {argument}")


def _refuse_seven_in_the_first(partition: Any, argument: int) -> Any:
    if argument == 7 and np.array_equal(partition, PARTITIONS[0]):
        raise InvalidInput("not 7")
    return partition * argument


def _die_once(partition: Any, argument: tuple[float, str]) -> Any:
    factor, marker = argument
    if partition is not None and not Path(marker).exists() and len(partition) == 100:
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return partition * factor


def _die(partition: Any, argument: int) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("engine", ENGINES, ids=repr)
def test_the_sum_is_in_the_order_of_the_partitions(engine: SummingEngine) -> None:
    expected = PARTITIONS[0] * 3.0
    for partition in PARTITIONS[1:]:
        expected = expected + partition * 3.0
    with engine.sum_over(PARTITIONS, scaled) as total:
        assert total(1.0).shape == (100,)
        assert np.array_equal(total(3.0), expected)


@pytest.mark.parametrize("engine", ENGINES, ids=repr)
def test_an_error_is_raised_here(engine: SummingEngine) -> None:
    with engine.sum_over(PARTITIONS, _refuse) as total, pytest.raises(InvalidInput, match="not 7"):
        total(7)


@pytest.mark.parametrize("engine", ENGINES, ids=repr)
def test_the_sum_after_an_error_is_that_of_its_own_argument(engine: SummingEngine) -> None:
    with Here().sum_over(PARTITIONS, scaled) as total:
        expected = total(2.0)
    with engine.sum_over(PARTITIONS, _refuse_seven_in_the_first) as total:
        with pytest.raises(InvalidInput, match="not 7"):
            total(7)
        assert np.array_equal(total(2.0), expected)


def test_the_same_processes_answer_again() -> None:
    with LocalProcesses(workers=2).sum_over(PARTITIONS, _where) as total:
        assert total(0) == total(1)


def test_a_worker_that_died_is_replaced_without_changing_the_sum(tmp_path: Path) -> None:
    with Here().sum_over(PARTITIONS, scaled) as total:
        expected = total(2.0)
    with LocalProcesses(workers=2).sum_over(PARTITIONS, _die_once) as total:
        assert np.array_equal(total((2.0, str(tmp_path / "died"))), expected)
        assert np.array_equal(total((2.0, str(tmp_path / "died"))), expected)
    assert (tmp_path / "died").exists()


def test_a_worker_that_always_dies_is_named() -> None:
    with LocalProcesses(workers=1).sum_over(PARTITIONS, _die) as total, pytest.raises(WorkerDied, match="died 2 times"):
        total(0)


def test_the_thread_that_asks_for_a_sum_computes_a_share() -> None:
    with Threads(workers=2).sum_over(PARTITIONS[:2], _thread) as total:
        assert threading.get_ident() in total(0)
    with Threads(workers=1).sum_over(PARTITIONS, _thread) as total:
        assert set(total(0)) == {threading.get_ident()}


def test_threads_map_in_order_and_stop_at_an_error() -> None:
    assert Threads(workers=2).map(range(5), abs) == list(range(5))
    with pytest.raises(TypeError):
        Threads(workers=2).map(["a"], abs)  # type: ignore[list-item, arg-type]
    with pytest.raises(InvalidInput, match="at least 1"):
        Threads(workers=0)

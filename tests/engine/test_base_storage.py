"""Stored partitions are loaded one ahead; a worker without memory is named."""

from __future__ import annotations

import os
import resource
from typing import NamedTuple

import numpy as np
import pytest

from rankloop.core.types import Floats
from rankloop.engine import Here, LocalProcesses, OutOfMemory, SummingEngine, Threads, kept
from tests.engine.tasks import scaled

ENGINES: list[SummingEngine] = [
    Here(),
    Threads(workers=3),
    pytest.param(LocalProcesses(workers=2), marks=pytest.mark.slow),  # type: ignore[list-item]
]


class Numbers(NamedTuple):
    """A hundred numbers that are made when they are loaded."""

    seed: int

    def load(self) -> Floats:
        return np.random.default_rng(self.seed).normal(size=100) * 10.0**self.seed

    def __str__(self) -> str:
        return f"numbers {self.seed}"


class Huge(NamedTuple):
    """More than the process may have."""

    name: str

    def load(self) -> Floats:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), resource.RLIM_INFINITY))
        return np.empty(1 << 30)

    def __str__(self) -> str:
        return self.name


def _pid(task: int) -> int:
    return os.getpid()


@pytest.mark.parametrize("engine", ENGINES, ids=repr)
def test_the_sum_is_that_of_loaded_partitions_in_their_order(engine: SummingEngine) -> None:
    stored = [Numbers(seed) for seed in range(7)]
    with Here().sum_over([each.load() for each in stored], scaled) as total:
        expected = [total(factor) for factor in (1.0, 3.0)]
    with engine.sum_over(stored, scaled) as total:
        assert [total(factor).tolist() for factor in (1.0, 3.0)] == [each.tolist() for each in expected]


def test_the_next_one_is_loaded_before_the_last_is_computed_with() -> None:
    events: list[str] = []

    class Watched(NamedTuple):
        number: int

        def load(self) -> Floats:
            events.append(f"load {self.number}")
            return np.array([float(self.number)])

    def compute(partition: Floats, argument: float) -> Floats:
        events.append(f"compute {partition[0]:.0f}")
        return partition * argument

    with Here().sum_over([Watched(number) for number in range(3)], compute) as total:
        assert total(2.0).tolist() == [6.0]
    assert events == ["load 0", "load 1", "compute 0", "load 2", "compute 1", "compute 2"]


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc to see how much memory is used")
def test_a_worker_out_of_memory_is_named_with_its_part() -> None:
    with kept(LocalProcesses(workers=1)) as engine:
        [pid] = engine.map([0], _pid)
        with (
            engine.sum_over([Huge("part-7.txt")], scaled) as total,
            pytest.raises(OutOfMemory, match=rf"process {pid}\) ran out of memory with part-7\.txt"),
        ):
            total(1.0)


@pytest.mark.slow
def test_workers_that_are_kept_answer_one_sum_after_the_other() -> None:
    with kept(LocalProcesses(workers=2)) as engine:
        pids = engine.map([0, 1], _pid)
        for factor in (1.0, 2.0):
            with engine.sum_over([np.ones(2), np.ones(2)], scaled) as total:
                assert total(factor).tolist() == [2 * factor, 2 * factor]
        assert set(engine.map([0, 1], _pid)) <= set(pids)
        workers = [worker.process for worker in engine.idle or []]
    assert workers
    assert not any(worker.is_alive() for worker in workers)

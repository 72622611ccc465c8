"""Stored partitions are loaded one ahead, into memory that is used again; a worker without memory is named."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from rankloop.core.types import Floats
from rankloop.engine import Here, LocalProcesses, OutOfMemory, SummingEngine, Threads, kept
from rankloop.engine.storage import Room, is_stored
from tests.engine.tasks import scaled

ENGINES: list[SummingEngine] = [
    Here(),
    Threads(workers=3),
    pytest.param(LocalProcesses(workers=2), marks=pytest.mark.slow),  # type: ignore[list-item]
]


class Numbers(NamedTuple):
    """A hundred numbers that are made when they are loaded."""

    seed: int

    def load(self, room: Callable[[int], Floats]) -> Floats:
        memory = room(100)
        memory[:] = np.random.default_rng(self.seed).normal(size=100) * 10.0**self.seed
        return memory

    def __str__(self) -> str:
        return f"numbers {self.seed}"


class Huge(NamedTuple):
    """More than the process may have."""

    name: str

    def load(self, room: Callable[[int], Floats]) -> Floats:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), resource.RLIM_INFINITY))
        return room(1 << 30)

    def __str__(self) -> str:
        return self.name


def _pid(task: int) -> int:
    return os.getpid()


@pytest.mark.parametrize("engine", ENGINES, ids=repr)
def test_the_sum_is_that_of_loaded_partitions_in_their_order(engine: SummingEngine) -> None:
    stored = [Numbers(seed) for seed in range(7)]
    with Here().sum_over([each.load(np.empty) for each in stored], scaled) as total:
        expected = [total(factor) for factor in (1.0, 3.0)]
    with engine.sum_over(stored, scaled) as total:
        assert [total(factor).tolist() for factor in (1.0, 3.0)] == [each.tolist() for each in expected]


def test_the_next_one_is_loaded_while_the_last_is_computed_with() -> None:
    begun = [threading.Event() for _ in range(3)]

    class Watched(NamedTuple):
        number: int

        def load(self, room: Callable[[int], Floats]) -> Floats:
            begun[self.number].set()
            memory = room(1)
            memory[0] = self.number
            return memory

    def after_the_next(partition: Floats, argument: float) -> Floats:
        number = int(partition[0])
        if number < 2:
            assert begun[number + 1].wait(10)
        assert partition[0] == number, "the room of the one before is left alone"
        return partition * argument

    with Here().sum_over([Watched(number) for number in range(3)], after_the_next) as total:
        assert total(2.0).tolist() == [6.0]


def test_memory_is_used_again() -> None:
    room = Room()
    first = room(100)
    assert np.shares_memory(first, room(90))
    assert len(room(1000)) == 1000
    assert is_stored(Numbers(1))
    assert not is_stored(first)


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

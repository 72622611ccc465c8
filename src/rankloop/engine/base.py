"""What every engine promises, and what all of them share."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from rankloop.core.errors import InvalidInput, RankloopError
from rankloop.core.types import Floats

Task = TypeVar("Task")
Result = TypeVar("Result")
E = TypeVar("E")
Done = Callable[[int, Any], None]
Function = Callable[[Any, Any], Floats]  # of a partition and an argument; importable, as are its results
Total = Callable[[Any], Floats]
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Engine(Protocol):
    """Computes the same function of many tasks, somewhere.

    `function` is importable and its tasks and results travel between processes. The answer is in the order of the
    tasks whichever finished first; `done(index, result)` is called in this process as each finishes, so that results
    can be kept before the last one is there. An error of the function stops the rest and is raised here.
    """

    def map(
        self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None
    ) -> list[Result]: ...


class SummingEngine(Engine, Protocol):
    """An engine that also adds: the same sum on every engine, to the last bit, because the order is that of the list.

    Workers keep their partitions between calls; what travels is the argument and the answers. A worker that died is
    replaced and given its partitions again.
    """

    def sum_over(self, partitions: Sequence[Any], function: Function) -> AbstractContextManager[Total]:
        """While open: argument ↦ Σ over the partitions of function(partition, argument), in their order."""


class WorkerDied(RankloopError):
    """A process that computed a task ended without an answer, more than once."""


class HeadDied(RankloopError):
    """The head of a cluster is gone, and with it the knowledge of who computes what."""


class OutOfMemory(RankloopError):
    """A worker has less memory than its part of the work needs."""


@dataclass(frozen=True, kw_only=True)
class ParallelEngine:
    """An engine of several workers; None stands for one per core that may be used.

    `idle` are workers that have finished and wait for the next sum (see `kept`); None: none are kept.
    """

    workers: int | None = None
    idle: list[Any] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InvalidInput(f"workers must be at least 1, got {self.workers}")


@contextmanager
def kept(engine: E) -> Iterator[E]:
    """The engine, whose workers are used again for one sum after the other while this is open.

    A process or an actor takes a second or two to start; a training with folds asks for a dozen sums.
    """
    if not isinstance(engine, ParallelEngine):
        yield engine
        return
    idle: list[Any] = []
    try:
        yield replace(engine, idle=idle)
    finally:
        for worker in idle:
            worker.terminate()


def usable_cores() -> int:
    """How many cores this process may use, which in a container can be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def shares_of(partitions: Sequence[Any], workers: int) -> list[list[Any]]:
    """Consecutive partitions for each of so many workers, who may be fewer in the end."""
    size = -(-len(partitions) // workers)
    return [list(partitions[first : first + size]) for first in range(0, len(partitions), size)]


def sum_in_order(answers: Sequence[Floats]) -> Floats:
    """The answers one after the other."""
    total = answers[0].copy()
    for answer in answers[1:]:
        total += answer
    return total

"""The contract of every engine, and the engines of this process."""

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import count, islice, takewhile
from operator import iadd
from typing import Any, NamedTuple, Protocol, TypeVar

from rankloop.core.errors import InvalidInput, RankloopError
from rankloop.core.types import Floats

Task = TypeVar("Task")
Result = TypeVar("Result")
E = TypeVar("E")
Done = Callable[[int, Any], None]
Function = Callable[[Any, Any], Floats]  # of a partition and an argument; importable, as are its results
Total = Callable[[Any], Floats]
PIECE_ENTRIES = 256
PIECES_IN_MEMORY = 64  # pieces that the workers get at a time
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Engine(Protocol):
    """An engine that computes one function of many tasks."""

    def map(self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None) -> list[Result]:
        """Return function(task) of all tasks, in their order; an error of the function stops the others and is raised.

        Tasks and results can be pickled, and the function imported. `done` is called in this process with index and
        result of each task as it finishes.
        """


class SummingEngine(Engine, Protocol):
    """An engine that also adds: sums are bit-equal on every engine, because they are added in the order of the list.

    Workers keep their partitions between calls; only the argument and the answers are sent. A worker that died is
    replaced and gets its partitions again.
    """

    def sum_over(self, partitions: Sequence[Any], function: Function) -> AbstractContextManager[Total]:
        """Return a context with argument ↦ Σ over the partitions of function(partition, argument)."""


class WorkerDied(RankloopError):
    """A process that computed a task ended without an answer, more than once."""


class HeadDied(RankloopError):
    """The head of a cluster does not answer, so that its work is lost."""


class OutOfMemory(RankloopError):
    """A worker has less memory than its part of the work needs."""


def usable_cores() -> int:
    """Return the number of cores that this process may use, which a container may limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def sum_in_order(answers: Sequence[Floats]) -> Floats:
    """Return the sum of the answers, added one after the other."""
    return reduce(iadd, answers[1:], answers[0].copy())


def answers_of(partitions: Sequence[Any], function: Function, argument: Any) -> list[Any]:
    """Return function(partition, argument) of each partition.

    Args:
      partitions: In memory, or on disk: what has `load` is loaded early, which only has the system read ahead.
      function: Of a partition and the argument.
      argument: Of all calls.
    """
    answers, partition, loaded = [], None, None
    for following in [*partitions, None]:
        used = following
        try:
            following_loaded = following.load() if hasattr(following, "load") else following
            if partition is not None:
                used = partition
                answers.append(function(loaded, argument))
        except MemoryError:
            machine = f"{socket.gethostname()} (process {os.getpid()})"
            name = f" with {used}" if hasattr(used, "load") else ""
            advice = "give it more, or start fewer workers there"
            raise OutOfMemory(f"a worker on {machine} ran out of memory{name}: {advice}") from None
        partition, loaded = following, following_loaded
    return answers


@dataclass(frozen=True, kw_only=True)
class ParallelEngine:
    """An engine of several workers."""

    workers: int | None = None  # one per usable core
    # Workers that wait for the next sum (see `kept`); None: workers end with their sum.
    idle: list[Any] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InvalidInput(f"workers must be at least 1, got {self.workers}")

    def shares_of(self, partitions: Sequence[Any], n_cores: int) -> list[Sequence[Any]]:
        """Cut partitions into consecutive shares: one per worker, fewer where the partitions do not suffice."""
        size = -(-len(partitions) // (self.workers or n_cores))
        return [partitions[first : first + size] for first in range(0, len(partitions), size)]

    def map_in_threads(
        self, pool: ThreadPoolExecutor, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None
    ) -> list[Result]:
        """Return function(task) of all tasks, in their order, computed by the threads of a pool."""
        futures = {pool.submit(function, task): index for index, task in enumerate(tasks)}
        for future in as_completed(futures):
            result = future.result()
            if done is not None:
                done(futures[future], result)
        return [future.result() for future in futures]

    def release(self, workers: Sequence[Any]) -> None:
        """Keep workers for the next sum, or end them."""
        if self.idle is not None:
            self.idle.extend(workers)
            return
        for worker in workers:
            self.end_worker(worker)

    def end_worker(self, worker: Any) -> None:
        """End a worker."""
        worker.terminate()


@contextmanager
def kept(engine: E) -> Iterator[E]:
    """Yield the engine with workers that are reused for one sum after the other while the block lasts."""
    # A process or an actor takes a second or two to start, and training with folds needs a dozen sums.
    if not isinstance(engine, ParallelEngine):
        yield engine
        return
    idle: list[Any] = []
    try:
        yield replace(engine, idle=idle)
    finally:
        for worker in idle:
            engine.end_worker(worker)


@dataclass(frozen=True, kw_only=True)
class Here:
    """The engine for debugging, small jobs and notebooks: one task after another."""

    def map(self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None) -> list[Result]:
        results = []
        for index, task in enumerate(tasks):
            results.append(function(task))
            if done is not None:
                done(index, results[index])
        return results

    @contextmanager
    def sum_over(self, partitions: Sequence[Any], function: Function) -> Iterator[Total]:
        yield lambda argument: sum_in_order(answers_of(partitions, function, argument))


@dataclass(frozen=True, kw_only=True)
class Threads(ParallelEngine):
    """The engine for compiled kernels, which run in parallel without the global lock; Python code gains nothing."""

    def map(self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None) -> list[Result]:
        pool = ThreadPoolExecutor(self.workers or usable_cores())
        try:
            return self.map_in_threads(pool, tasks, function, done)
        finally:
            pool.shutdown(cancel_futures=True)

    @contextmanager
    def sum_over(self, partitions: Sequence[Any], function: Function) -> Iterator[Total]:
        shares = self.shares_of(partitions, usable_cores())
        with ThreadPoolExecutor(len(shares)) as pool:

            def total(argument: Any) -> Floats:
                others = [pool.submit(answers_of, share, function, argument) for share in shares[1:]]
                answers = answers_of(shares[0], function, argument)  # by this thread, which would only wait
                return sum_in_order(answers + [answer for other in others for answer in other.result()])

            yield total


class Piece(NamedTuple):
    """Consecutive entries, and the argument that all pieces share."""

    first: int  # the number of the first entry, from 0
    entries: list[Any]
    shared: Any


def over_pieces(
    engine: Engine,
    entries: Iterable[E],
    function: Callable[[Piece], Result],
    shared: Any = None,
    *,
    size: int = PIECE_ENTRIES,
    progress: Callable[[int], None] = lambda finished: None,
) -> Iterator[Result]:
    """Yield function(piece) for every `size` entries, in their order; a few pieces are in memory at a time.

    Args:
      engine: The engine.
      entries: Of the log.
      function: An importable function of a piece.
      shared: The argument that all pieces share.
      size: The number of entries of a piece.
      progress: Called with the number of entries that are finished.
    """
    left, finished = iter(entries), 0
    cut = (Piece(first, list(islice(left, size)), shared) for first in count(0, size))
    pieces = takewhile(lambda piece: piece.entries, cut)
    while together := list(islice(pieces, 1 if isinstance(engine, Here) else PIECES_IN_MEMORY)):

        def done(index: int, result: Any, together: list[Piece] = together) -> None:
            nonlocal finished
            finished += len(together[index].entries)
            progress(finished)

        yield from engine.map(together, function, done)

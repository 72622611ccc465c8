"""Tasks and sums in this process: one after another, or in threads."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rankloop.engine.base import (
    Done,
    Function,
    ParallelEngine,
    Result,
    Task,
    Total,
    answers_of,
    sum_in_order,
    usable_cores,
)


@dataclass(frozen=True, kw_only=True)
class Here:
    """The engine for debugging, small jobs and notebooks: one task after another."""

    def map(self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None) -> list[Result]:
        """Return function(task) of all tasks, in their order."""
        results = []
        for index, task in enumerate(tasks):
            results.append(function(task))
            if done is not None:
                done(index, results[index])
        return results

    @contextmanager
    def sum_over(self, partitions: Sequence[Any], function: Function) -> Iterator[Total]:
        """Yield argument ↦ Σ over the partitions of function(partition, argument)."""
        yield lambda argument: sum_in_order(answers_of(partitions, function, argument))


@dataclass(frozen=True, kw_only=True)
class Threads(ParallelEngine):
    """The engine for compiled kernels, which run in parallel without the global lock; Python code gains nothing.

    Attributes:
      workers: The number of threads; None is one per usable core.
    """

    def map(self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None) -> list[Result]:
        """Return function(task) of all tasks, in their order."""
        pool = ThreadPoolExecutor(self.workers or usable_cores())
        try:
            futures = {pool.submit(function, task): index for index, task in enumerate(tasks)}
            for future in as_completed(futures):
                result = future.result()
                if done is not None:
                    done(futures[future], result)
        finally:
            pool.shutdown(cancel_futures=True)
        return [future.result() for future in futures]

    @contextmanager
    def sum_over(self, partitions: Sequence[Any], function: Function) -> Iterator[Total]:
        """Yield argument ↦ Σ over the partitions of function(partition, argument)."""
        workers = min(self.workers or usable_cores(), len(partitions))
        if workers == 1:
            with Here().sum_over(partitions, function) as total:
                yield total
            return
        with ThreadPoolExecutor(workers) as pool:

            def answer(partition: Any, argument: Any) -> Any:
                return answers_of([partition], function, argument)[0]

            yield lambda argument: sum_in_order(list(pool.map(answer, partitions, [argument] * len(partitions))))

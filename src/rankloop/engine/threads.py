"""Several tasks at once in this process, for functions that leave the interpreter alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rankloop.core.errors import InvalidInput
from rankloop.engine.base import Done, Result, Task
from rankloop.engine.processes import usable_cores
from rankloop.engine.sums import Function, Total, added


@dataclass(frozen=True, kw_only=True)
class Threads:
    """The engine for compiled kernels, which run beside each other: no process to start, nothing to send.

    `workers` threads, by default one per core that may be used. Ordinary Python code is no faster here.
    """

    workers: int | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InvalidInput(f"workers must be at least 1, got {self.workers}")

    def map(self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None) -> list[Result]:
        pool = ThreadPoolExecutor(self.workers or usable_cores())
        try:
            futures = {pool.submit(function, task): index for index, task in enumerate(tasks)}
            results: dict[int, Result] = {}
            for future in as_completed(futures):
                results[futures[future]] = future.result()
                if done is not None:
                    done(futures[future], future.result())
        finally:
            pool.shutdown(cancel_futures=True)
        return [results[index] for index in range(len(tasks))]

    @contextmanager
    def sum_over(self, partitions: Sequence[Any], function: Function) -> Iterator[Total]:
        workers = min(self.workers or usable_cores(), len(partitions))
        if workers == 1:
            yield lambda argument: added([function(partition, argument) for partition in partitions])
            return
        with ThreadPoolExecutor(workers) as pool:
            yield lambda argument: added(list(pool.map(function, partitions, [argument] * len(partitions))))

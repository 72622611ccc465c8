"""One task after another, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rankloop.engine.base import Done, Result, Task
from rankloop.engine.sums import Function, Total, added


@dataclass(frozen=True, kw_only=True)
class Here:
    """The engine for debugging, small jobs and notebooks."""

    def map(self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None) -> list[Result]:
        results = []
        for index, task in enumerate(tasks):
            results.append(function(task))
            if done is not None:
                done(index, results[index])
        return results

    @contextmanager
    def sum_over(self, partitions: Sequence[Any], function: Function) -> Iterator[Total]:
        yield lambda argument: added([function(partition, argument) for partition in partitions])

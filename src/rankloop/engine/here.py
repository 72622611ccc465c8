"""One task after another, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rankloop.engine.base import Done, Result, Task


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

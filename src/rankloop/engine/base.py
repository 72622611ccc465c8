"""What every engine promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from rankloop.core.errors import RankloopError

Task = TypeVar("Task")
Result = TypeVar("Result")
Done = Callable[[int, Any], None]


class Engine(Protocol):
    """Computes the same function of many tasks, somewhere.

    `function` is importable and its tasks and results travel between processes. The answer is in the order of the
    tasks whichever finished first; `done(index, result)` is called in this process as each finishes, so that results
    can be kept before the last one is there. An error of the function stops the rest and is raised here.
    """

    def map(
        self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None
    ) -> list[Result]: ...


class WorkerDied(RankloopError):
    """A process that computed a task ended without an answer, more than once."""

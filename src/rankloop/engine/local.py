"""Several tasks at once, each worker a process of this machine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, cast

from rankloop.core.errors import InvalidInput
from rankloop.engine.base import Done, Result, Task, WorkerDied
from rankloop.engine.partitions import kept_by_processes
from rankloop.engine.processes import ATTEMPTS, Worker, receive, send, start, usable_cores
from rankloop.engine.sums import Function, Total


@dataclass(frozen=True, kw_only=True)
class LocalProcesses:
    """The engine for a machine with several cores; `workers` processes, by default one per core that may be used.

    Every task runs in a process of its own kind (spawned, so nothing leaks in from here), with arithmetic on one
    thread, so that the numbers do not depend on how many there are.
    """

    workers: int | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InvalidInput(f"workers must be at least 1, got {self.workers}")

    def map(self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None) -> list[Result]:
        results: dict[int, Result] = {}
        crew = _Crew([(function, task) for task in tasks])
        try:
            for index, result in crew.results(min(self.workers or usable_cores(), len(tasks))):
                results[index] = result
                if done is not None:
                    done(index, result)
        finally:
            crew.dismiss()
        return [results[index] for index in range(len(tasks))]

    def sum_over(self, partitions: Sequence[Any], function: Function) -> AbstractContextManager[Total]:
        return kept_by_processes(partitions, function, self.workers or usable_cores())


class _Crew:
    """The workers of one `map`, and which job each is at."""

    def __init__(self, jobs: list[tuple[Callable[[Any], Any], Any]]) -> None:
        self.jobs = jobs
        self.waiting = deque(range(len(jobs)))
        self.deaths = [0] * len(jobs)
        self.workers: list[Worker] = []
        self.busy: dict[Connection, tuple[Worker, int]] = {}

    def results(self, size: int) -> Iterator[tuple[int, Any]]:
        """Index and result of every job, as they are finished by `size` workers."""
        for _ in range(size):
            self._hire()
        while self.busy:
            for pipe in wait(list(self.busy)):
                worker, index = self.busy.pop(cast(Connection, pipe))
                answer = receive(worker)
                if answer is None:
                    self._replace(worker, index)
                    continue
                if answer.error is not None:
                    raise answer.error
                self._hand_out(worker)
                yield index, answer.result

    def dismiss(self) -> None:
        for worker in self.workers:
            worker.process.terminate()
            worker.process.join()
            worker.pipe.close()

    def _hire(self) -> None:
        worker = start()
        self.workers.append(worker)
        self._hand_out(worker)

    def _hand_out(self, worker: Worker) -> None:
        if self.waiting:
            index = self.waiting.popleft()
            self.busy[worker.pipe] = (worker, index)
            send(worker, self.jobs[index])

    def _replace(self, dead: Worker, index: int) -> None:
        self.deaths[index] += 1
        if self.deaths[index] >= ATTEMPTS:
            raise WorkerDied(
                f"the process that computed task {index} died {ATTEMPTS} times (exit code {dead.process.exitcode}); "
                "perhaps memory ran out: try fewer workers, or the engine `here` to see why"
            )
        self.waiting.appendleft(index)
        self._hire()

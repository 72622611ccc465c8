"""Tasks and sums in several processes of this machine."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, cast

from rankloop.core.types import Floats
from rankloop.engine.base import (
    Done,
    Function,
    ParallelEngine,
    Result,
    Task,
    Total,
    WorkerDied,
    shares_of,
    sum_in_order,
    usable_cores,
)
from rankloop.engine.worker import Answer, Worker

ATTEMPTS = 2  # a task whose worker died once gets a second chance: the first may have been somebody else's fault
ADVICE = "perhaps memory ran out: try fewer workers, or the engine `here` to see why"


@dataclass(frozen=True, kw_only=True)
class LocalProcesses(ParallelEngine):
    """The engine for a machine with several cores; `workers` processes, by default one per core that may be used.

    Every task runs in a process of its own kind (spawned, so nothing leaks in from here), with arithmetic on one
    thread, so that the numbers do not depend on how many there are.
    """

    def map(self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None) -> list[Result]:
        results: dict[int, Result] = {}
        pool = _Pool([(function, task) for task in tasks], self.idle)
        try:
            for index, result in pool.results(min(self.workers or usable_cores(), len(tasks))):
                results[index] = result
                if done is not None:
                    done(index, result)
        finally:
            _let_go(pool.workers, None if pool.busy or pool.waiting else self.idle)
        return [results[index] for index in range(len(tasks))]

    @contextmanager
    def sum_over(self, partitions: Sequence[Any], function: Function) -> Iterator[Total]:
        summation = _Summation(shares_of(partitions, self.workers or usable_cores()), function, self.idle)
        try:
            yield summation.total
        finally:
            _let_go(summation.workers, self.idle if summation.is_settled else None)


class _Pool:
    """The workers of one `map`, and which job each is at."""

    def __init__(self, jobs: list[tuple[Callable[[Any], Any], Any]], idle: list[Worker] | None) -> None:
        self.jobs, self.idle = jobs, idle
        self.waiting = deque(range(len(jobs)))
        self.deaths = [0] * len(jobs)
        self.workers: list[Worker] = []
        self.busy: dict[Connection, tuple[Worker, int]] = {}

    def results(self, size: int) -> Iterator[tuple[int, Any]]:
        """Index and result of every job, as they are finished by `size` workers."""
        for _ in range(size):
            self._spawn()
        while self.busy:
            for pipe in wait(list(self.busy)):
                worker, index = self.busy.pop(cast(Connection, pipe))
                answer = worker.receive()
                if answer is None:
                    self._replace(worker, index)
                    continue
                if answer.error is not None:
                    raise answer.error
                self._assign(worker)
                yield index, answer.result

    def _spawn(self) -> None:
        self.workers.append(_worker(self.idle))
        self.workers[-1].send(None)
        self._assign(self.workers[-1])

    def _assign(self, worker: Worker) -> None:
        if self.waiting:
            index = self.waiting.popleft()
            self.busy[worker.pipe] = (worker, index)
            worker.send(self.jobs[index])

    def _replace(self, dead: Worker, index: int) -> None:
        self.deaths[index] += 1
        if self.deaths[index] >= ATTEMPTS:
            code = dead.process.exitcode
            raise WorkerDied(
                f"the process that computed task {index} died {ATTEMPTS} times (exit code {code}); {ADVICE}"
            )
        self.waiting.appendleft(index)
        self._spawn()


class _Summation:
    """The workers of one sum, each with its share of the partitions; they are held here too, for those that die."""

    def __init__(self, shares: list[list[Any]], function: Function, idle: list[Worker] | None) -> None:
        self.shares, self.function = shares, function
        self.workers, self.is_settled = [_worker(idle) for _ in shares], True  # settled: nobody owes an answer
        for worker, share in zip(self.workers, shares):
            worker.send(share)

    def total(self, argument: Any) -> Floats:
        self.is_settled = False
        for worker in self.workers:
            worker.send((self.function, argument))
        answers = [self._answer(number, argument) for number in range(len(self.workers))]
        self.is_settled = True
        for answer in answers:
            if answer.error is not None:
                raise answer.error
        return sum_in_order([part for answer in answers for part in answer.result])

    def _answer(self, number: int, argument: Any) -> Answer:
        for _ in range(ATTEMPTS):
            answer = self.workers[number].receive()
            if answer is not None:
                return answer
            self.workers[number].terminate()
            self.workers[number] = Worker()
            self.workers[number].send(self.shares[number])
            self.workers[number].send((self.function, argument))
        raise WorkerDied(f"the process with partitions of share {number} died {ATTEMPTS} times; {ADVICE}")


def _worker(idle: list[Worker] | None) -> Worker:
    return idle.pop() if idle else Worker()


def _let_go(workers: list[Worker], idle: list[Worker] | None) -> None:
    """Workers that owe no answer wait for the next sum, if there may be one."""
    if idle is not None:
        idle += [worker for worker in workers if worker.process.is_alive()]
        return
    for worker in workers:
        worker.terminate()

"""Tasks and sums in several processes of this machine: the pool, our end of the pipe to a worker, and its own."""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, cast

from rankloop.core.types import Floats
from rankloop.engine.base import (
    ONE_THREAD,
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
from rankloop.engine.storage import answers_of

ATTEMPTS = 2  # a task whose worker died once gets a second chance: the first may have been somebody else's fault
ADVICE = "perhaps memory ran out: try fewer workers, or the engine `here` to see why"


class WorkerAnswer(NamedTuple):
    """A result, or the error that stands in its place."""

    result: Any
    error: Exception | None


class EngineProcess:
    """A process that is sent (function, argument) and answers, also with the partitions that it was sent as a list."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs,), daemon=True)
        with _environment(ONE_THREAD), _deaf_to_ctrl_c():
            self.process.start()
        theirs.close()

    def send(self, message: Any) -> None:
        try:
            self.pipe.send(message)
        except BrokenPipeError:
            return  # it has died: noticed, and dealt with, when its answer is awaited

    def receive(self) -> WorkerAnswer | None:
        """What the worker answers, or None when it ended without a word."""
        try:
            return cast(WorkerAnswer, self.pipe.recv())
        except (EOFError, ConnectionResetError):
            self.process.join()
            return None

    def terminate(self) -> None:
        self.process.terminate()
        self.process.join()
        self.pipe.close()


def work(pipe: Connection) -> None:
    """In the worker: a function and its argument in, an answer out, until it is terminated or its parent is gone.

    A list that comes in is one of partitions: from then on, functions are of each of them and the argument; None ends
    that.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_follow_parent, daemon=True).start()
    partitions: list[Any] | None = None
    while True:
        try:
            message = pipe.recv()
            if message is None or isinstance(message, list):
                partitions = message
            else:
                function, argument = message
                _answer(pipe, function, argument, partitions)
        except (EOFError, BrokenPipeError):
            return


def _answer(pipe: Connection, function: Any, argument: Any, partitions: list[Any] | None) -> None:
    try:
        if partitions is None:
            answer = WorkerAnswer(function(argument), None)
        else:
            answer = WorkerAnswer(answers_of(partitions, function, argument), None)
    except Exception as error:
        answer = WorkerAnswer(None, error)
    try:
        pipe.send(answer)
    except BrokenPipeError:
        raise
    except Exception as error:  # an answer or an error that cannot travel
        pipe.send(WorkerAnswer(None, TypeError(f"{type(answer.error or answer.result).__name__}: {error}")))


def _follow_parent() -> None:
    """A parent that was killed cannot terminate anybody: leave with it, in the middle of a task if need be."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Environment variables for the processes that are started meanwhile, and for nobody else."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """A process started meanwhile ignores Ctrl-C from its first moment, also while it is still importing."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change this, and only it is interrupted
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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

    def __init__(self, jobs: list[tuple[Callable[[Any], Any], Any]], idle: list[EngineProcess] | None) -> None:
        self.jobs, self.idle = jobs, idle
        self.waiting = deque(range(len(jobs)))
        self.deaths = [0] * len(jobs)
        self.workers: list[EngineProcess] = []
        self.busy: dict[Connection, tuple[EngineProcess, int]] = {}

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

    def _assign(self, worker: EngineProcess) -> None:
        if self.waiting:
            index = self.waiting.popleft()
            self.busy[worker.pipe] = (worker, index)
            worker.send(self.jobs[index])

    def _replace(self, dead: EngineProcess, index: int) -> None:
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

    def __init__(self, shares: list[list[Any]], function: Function, idle: list[EngineProcess] | None) -> None:
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

    def _answer(self, number: int, argument: Any) -> WorkerAnswer:
        for _ in range(ATTEMPTS):
            answer = self.workers[number].receive()
            if answer is not None:
                return answer
            self.workers[number].terminate()
            self.workers[number] = EngineProcess()
            self.workers[number].send(self.shares[number])
            self.workers[number].send((self.function, argument))
        raise WorkerDied(f"the process with partitions of share {number} died {ATTEMPTS} times; {ADVICE}")


def _worker(idle: list[EngineProcess] | None) -> EngineProcess:
    return idle.pop() if idle else EngineProcess()


def _let_go(workers: list[EngineProcess], idle: list[EngineProcess] | None) -> None:
    """Workers that owe no answer wait for the next sum, if there may be one."""
    if idle is not None:
        idle += [worker for worker in workers if worker.process.is_alive()]
        return
    for worker in workers:
        worker.terminate()

"""Tasks and sums in several processes of this machine: the pool, and both ends of the pipe to a worker."""

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
    answers_of,
    shares_of,
    sum_in_order,
    usable_cores,
)

MAX_ATTEMPTS = 2  # for one task: the first death may have another cause
DEATH_ADVICE = "perhaps memory ran out: try fewer workers, or the engine `here` to see why"


class WorkerAnswer(NamedTuple):
    """A result, or the error that stands in its place."""

    result: Any
    error: Exception | None


class EngineProcess:
    """A process that gets (function, argument) and answers, also over the partitions that it got as a list."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True)
        with _environment(ONE_THREAD), _ignoring_ctrl_c():
            self.process.start()
        theirs.close()

    def send(self, message: Any) -> None:
        """Send a message; a worker that died is noticed when its answer is awaited."""
        try:
            self.pipe.send(message)
        except BrokenPipeError:
            return

    def receive(self) -> WorkerAnswer | None:
        """Return the answer of the worker, or None if it died."""
        try:
            return cast(WorkerAnswer, self.pipe.recv())
        except (EOFError, ConnectionResetError):
            self.process.join()
            return None

    def terminate(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.join()
        self.pipe.close()


def _work(pipe: Connection) -> None:
    """Answer functions and their arguments, in the worker, until it is terminated or its parent ends.

    After a list of partitions, functions are applied to each of them and the argument, until None is received.
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
    except Exception as error:  # an answer or an error that cannot be pickled
        pipe.send(WorkerAnswer(None, TypeError(f"{type(answer.error or answer.result).__name__}: {error}")))


def _follow_parent() -> None:
    """End this process with its parent, also in the middle of a task."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables for the processes that are started in the block."""
    previous = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _ignoring_ctrl_c() -> Iterator[None]:
    """Make processes that are started in the block ignore Ctrl-C, also while they import."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change signals, and only it is interrupted
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


@dataclass(frozen=True, kw_only=True)
class LocalProcesses(ParallelEngine):
    """The engine for a machine with several cores.

    Workers are spawned, so that they share no state with this process, and compute on one thread, so that numbers do
    not depend on their number.

    Attributes:
      workers: The number of processes; None is one per usable core.
    """

    def map(self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None) -> list[Result]:
        """Return function(task) of all tasks, in their order."""
        results: dict[int, Result] = {}
        pool = _Pool([(function, task) for task in tasks], self.idle)
        try:
            for index, result in pool.results(min(self.workers or usable_cores(), len(tasks))):
                results[index] = result
                if done is not None:
                    done(index, result)
        finally:
            _release(pool.workers, None if pool.busy or pool.waiting else self.idle)
        return [results[index] for index in range(len(tasks))]

    @contextmanager
    def sum_over(self, partitions: Sequence[Any], function: Function) -> Iterator[Total]:
        """Yield argument ↦ Σ over the partitions of function(partition, argument)."""
        summation = _Summation(shares_of(partitions, self.workers or usable_cores()), function, self.idle)
        try:
            yield summation.total
        finally:
            _release(summation.workers, self.idle if summation.is_settled else None)


class _Pool:
    """The workers of one `map`, and the job of each."""

    def __init__(self, jobs: list[tuple[Callable[[Any], Any], Any]], idle: list[EngineProcess] | None) -> None:
        self.jobs, self.idle = jobs, idle
        self.waiting = deque(range(len(jobs)))
        self.deaths = [0] * len(jobs)
        self.workers: list[EngineProcess] = []
        self.busy: dict[Connection, tuple[EngineProcess, int]] = {}

    def results(self, size: int) -> Iterator[tuple[int, Any]]:
        """Yield index and result of every job as `size` workers finish them."""
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
        if self.deaths[index] >= MAX_ATTEMPTS:
            code = dead.process.exitcode
            raise WorkerDied(
                f"the process that computed task {index} died {MAX_ATTEMPTS} times (exit code {code}); {DEATH_ADVICE}"
            )
        self.waiting.appendleft(index)
        self._spawn()


class _Summation:
    """The workers of one sum, and their shares of the partitions, which a replacement needs."""

    def __init__(self, shares: list[list[Any]], function: Function, idle: list[EngineProcess] | None) -> None:
        self.shares, self.function = shares, function
        self.workers, self.is_settled = [_worker(idle) for _ in shares], True  # settled: no answer is outstanding
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
        for _ in range(MAX_ATTEMPTS):
            answer = self.workers[number].receive()
            if answer is not None:
                return answer
            self.workers[number].terminate()
            self.workers[number] = EngineProcess()
            self.workers[number].send(self.shares[number])
            self.workers[number].send((self.function, argument))
        raise WorkerDied(f"the process with partitions of share {number} died {MAX_ATTEMPTS} times; {DEATH_ADVICE}")


def _worker(idle: list[EngineProcess] | None) -> EngineProcess:
    return idle.pop() if idle else EngineProcess()


def _release(workers: list[EngineProcess], idle: list[EngineProcess] | None) -> None:
    """Keep workers for the next sum, or end them."""
    if idle is not None:
        idle += [worker for worker in workers if worker.process.is_alive()]
        return
    for worker in workers:
        worker.terminate()

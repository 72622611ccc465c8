"""Tasks and sums in several processes of this machine: the pool, and both ends of the pipe to a worker."""

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Any, cast

from rankloop.core.types import Floats
from rankloop.engine import base
from rankloop.engine.base import Done, Function, Result, Task, Total, WorkerDied

MAX_ATTEMPTS = 2  # for one task: the first death may have another cause
DEATH_ADVICE = "perhaps memory ran out: try fewer workers, or the engine `here` to see why"
Answer = tuple[Any, Exception | None]  # a result, or the error that stands in its place


class EngineProcess:
    """A process that gets (function, argument) and answers, also over the partitions that it got as a list."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True)
        with _worker_settings():
            self.process.start()
        theirs.close()

    def send(self, message: Any) -> None:
        """Send a message; a worker that died is noticed when its answer is awaited."""
        with suppress(BrokenPipeError):
            self.pipe.send(message)

    def receive(self) -> Answer | None:
        """Return the answer of the worker, or None if it died."""
        try:
            return cast(Answer, self.pipe.recv())
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
    partitions: Any = None
    with suppress(EOFError, BrokenPipeError):
        while True:
            message = pipe.recv()
            if message is None or isinstance(message, list):
                partitions = message
                continue
            function, argument = message
            answer: Answer
            try:
                is_task = partitions is None
                answer = function(argument) if is_task else base.answers_of(partitions, function, argument), None
            except Exception as error:
                answer = None, error
            try:
                pipe.send(answer)
            except BrokenPipeError:
                raise
            except Exception as error:  # an answer or an error that cannot be pickled
                pipe.send((None, TypeError(f"{type(answer[1] or answer[0]).__name__}: {error}")))


def _follow_parent() -> None:
    """End this process with its parent, also in the middle of a task."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _worker_settings() -> Iterator[None]:
    """Make processes that are started in the block compute on one thread, and ignore Ctrl-C while they import."""
    previous = {name: os.environ.get(name) for name in base.ONE_THREAD}
    os.environ.update(base.ONE_THREAD)
    # Only the main thread may change signals, and only it is interrupted.
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGINT, handler)
        for name, value in previous.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@dataclass(frozen=True, kw_only=True)
class LocalProcesses(base.ParallelEngine):
    """The engine for a machine with several cores.

    Workers are spawned, so that they share no state with this process, and compute on one thread, so that numbers do
    not depend on their number.
    """

    def map(self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None) -> list[Result]:
        """Return function(task) of all tasks, in their order."""
        waiting, deaths, results = deque(range(len(tasks))), Counter[int](), {}
        workers: list[EngineProcess] = []
        busy: dict[Any, tuple[EngineProcess, int]] = {}

        def assign(worker: EngineProcess) -> None:
            if waiting:
                index = waiting.popleft()
                busy[worker.pipe] = (worker, index)
                worker.send((function, tasks[index]))

        def add_worker() -> None:
            workers.append(self._new_worker())
            workers[-1].send(None)
            assign(workers[-1])

        try:
            for _ in range(min(self.workers or base.usable_cores(), len(tasks))):
                add_worker()
            while busy:
                for pipe in wait(list(busy)):
                    worker, index = busy.pop(pipe)
                    answer = worker.receive()
                    if answer is None:
                        deaths[index] += 1
                        if deaths[index] >= MAX_ATTEMPTS:
                            died = f"task {index} died {MAX_ATTEMPTS} times (exit code {worker.process.exitcode})"
                            raise WorkerDied(f"the process that computed {died}; {DEATH_ADVICE}")
                        waiting.appendleft(index)
                        add_worker()
                        continue
                    results[index], error = answer
                    if error is not None:
                        raise error
                    assign(worker)
                    if done is not None:
                        done(index, results[index])
        finally:
            self._release(workers, keep=not (busy or waiting))
        return [results[index] for index in range(len(tasks))]

    @contextmanager
    def sum_over(self, partitions: Sequence[Any], function: Function) -> Iterator[Total]:
        """Yield argument ↦ Σ over the partitions of function(partition, argument)."""
        shares = base.shares_of(partitions, self.workers or base.usable_cores())
        workers, is_settled = [self._new_worker() for _ in shares], True  # settled: no answer is outstanding
        for worker, share in zip(workers, shares):
            worker.send(share)

        def answer_of(number: int, argument: Any) -> Answer:
            for _ in range(MAX_ATTEMPTS):
                answer = workers[number].receive()
                if answer is not None:
                    return answer
                workers[number].terminate()
                workers[number] = EngineProcess()
                workers[number].send(shares[number])
                workers[number].send((function, argument))
            raise WorkerDied(f"the process with partitions of share {number} died {MAX_ATTEMPTS} times; {DEATH_ADVICE}")

        def total(argument: Any) -> Floats:
            nonlocal is_settled
            is_settled = False
            for worker in workers:
                worker.send((function, argument))
            answers = [answer_of(number, argument) for number in range(len(workers))]
            is_settled = True
            for _, error in answers:
                if error is not None:
                    raise error
            return base.sum_in_order([part for results, _ in answers for part in results])

        try:
            yield total
        finally:
            self._release(workers, keep=is_settled)

    def _new_worker(self) -> EngineProcess:
        return self.idle.pop() if self.idle else EngineProcess()

    def _release(self, workers: list[EngineProcess], keep: bool) -> None:
        """Keep workers for the next sum, or end them."""
        if keep and self.idle is not None:
            self.idle.extend(worker for worker in workers if worker.process.is_alive())
            return
        for worker in workers:
            worker.terminate()

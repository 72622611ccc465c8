"""The engine of several processes of this machine."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process, resource_tracker
from queue import SimpleQueue
from typing import Any

from rankloop.core.types import Floats
from rankloop.engine import base
from rankloop.engine.base import Done, Function, Result, Task, Total, WorkerDied

MAX_ATTEMPTS = 2  # for one task: the first death may have another cause
DEATH_ADVICE = "perhaps memory ran out: try fewer workers, or the engine `here` to see why"
_START_LOCK = threading.Lock()  # of environment and processes


@dataclass(frozen=True, kw_only=True)
class LocalProcesses(base.ParallelEngine):
    """The engine for a machine with several cores.

    Workers are spawned, so that they share no state with this process, and compute on one thread, so that numbers do
    not depend on their number.
    """

    def map(self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None) -> list[Result]:
        with self._workers(min(self.workers or base.usable_cores(), len(tasks))) as (pool, workers):
            free: SimpleQueue[EngineProcess] = SimpleQueue()
            for worker in workers:
                free.put(worker)

            def compute(index: int) -> Any:
                worker = free.get()
                try:
                    return worker.call(f"task {index}", function, tasks[index])
                finally:
                    free.put(worker)

            return self.map_in_threads(pool, range(len(tasks)), compute, done)

    @contextmanager
    def sum_over(self, partitions: Sequence[Any], function: Function) -> Iterator[Total]:
        shares = self.shares_of(partitions, base.usable_cores())
        with self._workers(len(shares)) as (pool, workers):

            def total(argument: Any) -> Floats:
                answers = [
                    pool.submit(worker.call, f"share {number} of the partitions", function, argument, share)
                    for number, (worker, share) in enumerate(zip(workers, shares))
                ]
                wait(answers)  # also after an error, so that no answer is left for the next argument
                return base.sum_in_order([part for answer in answers for part in answer.result()])

            yield total

    @contextmanager
    def _workers(self, n_workers: int) -> Iterator[tuple[ThreadPoolExecutor, list["EngineProcess"]]]:
        """Yield workers, and as many threads that wait for their answers."""
        workers = [self.idle.pop() if self.idle else EngineProcess() for _ in range(n_workers)]
        pool = ThreadPoolExecutor(max(1, n_workers))
        try:
            yield pool, workers
        except BaseException:
            for worker in workers:
                worker.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        self.release(workers)


class EngineProcess:
    """A process that computes one function at a time; when it dies, another one takes its place."""

    pipe: connection.Connection
    process: Any
    share: Sequence[Any] | None  # the partitions that the process keeps

    def __init__(self) -> None:
        self.is_terminated = False
        self._start()

    def call(self, work: str, function: Callable[..., Any], argument: Any, share: Sequence[Any] | None = None) -> Any:
        """Return function(argument), or with a share of the partitions the list of function(partition, argument)."""
        for _ in range(MAX_ATTEMPTS):
            try:
                if share is not None and share is not self.share:
                    self.pipe.send(list(share))
                    self.share = share
                self.pipe.send((function, argument, share is not None))
                result, error = self.pipe.recv()
            except (EOFError, ConnectionError):
                self.process.join()
                exit_code = self.process.exitcode
                self._start()
                continue
            if error is not None:
                raise error
            return result
        died = f"{work} died {MAX_ATTEMPTS} times (exit code {exit_code})"
        raise WorkerDied(f"the process that computed {died}; {DEATH_ADVICE}")

    def terminate(self) -> None:
        """End the process, and with it a call that waits for its answer."""
        with _START_LOCK:
            self.is_terminated = True
            self.process.terminate()
            self.process.join()

    def _start(self) -> None:
        context = get_context("spawn")
        resource_tracker.ensure_running()  # its start unblocks Ctrl-C, which the first worker would get
        self.share = None
        with _START_LOCK, _worker_settings():
            if self.is_terminated:
                raise WorkerDied("the worker was ended")
            self.pipe, theirs = context.Pipe()
            self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self.process.start()
            theirs.close()


def _serve(pipe: connection.Connection) -> None:
    """Keep the lists and answer the calls that are received, in the worker, until it is terminated."""
    threading.Thread(target=_follow_parent, daemon=True).start()
    partitions: list[Any] = []
    with suppress(EOFError, ConnectionError):  # the latter where the parent ended before it read an answer
        while True:
            message = pipe.recv()
            if isinstance(message, list):
                partitions = message
                continue
            function, argument, is_sum = message
            answer: tuple[Any, Exception | None]
            try:
                answer = base.answers_of(partitions, function, argument) if is_sum else function(argument), None
            except Exception as error:
                answer = None, error
            try:
                pipe.send(answer)
            except ConnectionError:
                raise
            except Exception as error:  # an answer or an error that cannot be pickled
                pipe.send((None, TypeError(f"{type(answer[1] or answer[0]).__name__}: {error}")))


def _follow_parent() -> None:
    """End this process with its parent, also in the middle of a task."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _worker_settings() -> Iterator[None]:
    """Make processes that are started in the block compute on one thread, and leave Ctrl-C to this process."""
    previous = {name: os.environ.get(name) for name in base.ONE_THREAD}
    os.environ.update(base.ONE_THREAD)
    # Processes inherit the signals that are blocked in the thread that starts them.
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    try:
        yield
    finally:
        if signals is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        for name, value in previous.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

"""Several tasks at once, each worker a process of this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, cast

from rankloop.core.errors import InvalidInput
from rankloop.engine.base import Done, Result, Task, WorkerDied
from rankloop.engine.worker import Answer, work

ATTEMPTS = 2  # a task whose worker died once gets a second chance: the first may have been somebody else's fault
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class _Worker(NamedTuple):
    process: BaseProcess
    pipe: Connection


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


class _Crew:
    """The workers of one `map`, and which job each is at."""

    def __init__(self, jobs: list[tuple[Callable[[Any], Any], Any]]) -> None:
        self.jobs = jobs
        self.waiting = deque(range(len(jobs)))
        self.deaths = [0] * len(jobs)
        self.workers: list[_Worker] = []
        self.busy: dict[Connection, tuple[_Worker, int]] = {}

    def results(self, size: int) -> Iterator[tuple[int, Any]]:
        """Index and result of every job, as they are finished by `size` workers."""
        for _ in range(size):
            self._hire()
        while self.busy:
            for pipe in wait(list(self.busy)):
                worker, index = self.busy.pop(cast(Connection, pipe))
                answer = _receive(worker)
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
        worker = _start()
        self.workers.append(worker)
        self._hand_out(worker)

    def _hand_out(self, worker: _Worker) -> None:
        if self.waiting:
            index = self.waiting.popleft()
            self.busy[worker.pipe] = (worker, index)
            _send(worker, self.jobs[index])

    def _replace(self, dead: _Worker, index: int) -> None:
        self.deaths[index] += 1
        if self.deaths[index] >= ATTEMPTS:
            raise WorkerDied(
                f"the process that computed task {index} died {ATTEMPTS} times (exit code {dead.process.exitcode}); "
                "perhaps memory ran out: try fewer workers, or the engine `here` to see why"
            )
        self.waiting.appendleft(index)
        self._hire()


def usable_cores() -> int:
    """How many cores this process may use, which in a container can be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _start() -> _Worker:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs,), daemon=True)
    with _environment(ONE_THREAD), _deaf_to_ctrl_c():
        process.start()
    theirs.close()
    return _Worker(process, ours)


def _send(worker: _Worker, message: Any) -> None:
    try:
        worker.pipe.send(message)
    except BrokenPipeError:
        return  # it has died: noticed, and dealt with, when its answer is awaited


def _receive(worker: _Worker) -> Answer | None:
    """What the worker answers, or None when it ended without a word."""
    try:
        return cast(Answer, worker.pipe.recv())
    except (EOFError, ConnectionResetError):
        worker.process.join()
        return None


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

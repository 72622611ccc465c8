"""Worker processes of this machine: starting them, and talking to them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, cast

from rankloop.engine.worker import Answer, work

ATTEMPTS = 2  # a task whose worker died once gets a second chance: the first may have been somebody else's fault
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Worker(NamedTuple):
    """A process, and our end of the pipe to it."""

    process: BaseProcess
    pipe: Connection


def usable_cores() -> int:
    """How many cores this process may use, which in a container can be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start() -> Worker:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs,), daemon=True)
    with _environment(ONE_THREAD), _deaf_to_ctrl_c():
        process.start()
    theirs.close()
    return Worker(process, ours)


def send(worker: Worker, message: Any) -> None:
    try:
        worker.pipe.send(message)
    except BrokenPipeError:
        return  # it has died: noticed, and dealt with, when its answer is awaited


def receive(worker: Worker) -> Answer | None:
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

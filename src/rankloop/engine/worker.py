"""A worker process of this machine: our end of the pipe to it, and what it does at its own."""

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, cast

from rankloop.engine.base import ONE_THREAD
from rankloop.engine.storage import Room, answers_of


class Answer(NamedTuple):
    """A result, or the error that stands in its place."""

    result: Any
    error: Exception | None


class Worker:
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

    def receive(self) -> Answer | None:
        """What the worker answers, or None when it ended without a word."""
        try:
            return cast(Answer, self.pipe.recv())
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
    rooms = (Room(), Room())
    while True:
        try:
            message = pipe.recv()
            if message is None or isinstance(message, list):
                partitions = message
            else:
                function, argument = message
                _answer(pipe, function, argument, partitions, rooms)
        except (EOFError, BrokenPipeError):
            return


def _answer(
    pipe: Connection, function: Any, argument: Any, partitions: list[Any] | None, rooms: Sequence[Room]
) -> None:
    try:
        if partitions is None:
            answer = Answer(function(argument), None)
        else:
            answer = Answer(answers_of(partitions, function, argument, rooms), None)
    except Exception as error:
        answer = Answer(None, error)
    try:
        pipe.send(answer)
    except BrokenPipeError:
        raise
    except Exception as error:  # an answer or an error that cannot travel
        pipe.send(Answer(None, TypeError(f"{type(answer.error or answer.result).__name__}: {error}")))


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

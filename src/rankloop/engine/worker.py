"""The other side: what a worker process does."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """A result, or the error that stands in its place."""

    result: Any
    error: Exception | None


def work(pipe: Connection) -> None:
    """A worker's life: a function and a task in, an answer out, until it is dismissed or its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_follow_parent, daemon=True).start()
    while True:
        try:
            function, task = pipe.recv()
            _answer(pipe, function, task)
        except (EOFError, BrokenPipeError):
            return


def _answer(pipe: Connection, function: Callable[[Any], Any], task: Any) -> None:
    try:
        answer = Answer(function(task), None)
    except Exception as error:
        answer = Answer(None, error)
    try:
        pipe.send(answer)
    except BrokenPipeError:
        raise
    except Exception as error:  # an answer or an error that cannot travel
        pipe.send(Answer(None, TypeError(f"{type(answer.error or answer.result).__name__}: {error}")))


def _follow_parent() -> None:
    """A parent that was killed cannot dismiss anybody: leave with it, in the middle of a task if need be."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)

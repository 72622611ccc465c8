"""One process or several behind one port: started, watched, and replaced one after the other without a failed call."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from socket import socket as Socket
from types import FrameType

from rankloop.service.application.rebuild import check_kinds
from rankloop.service.http.server import address_of, bound_socket, serve
from rankloop.service.settings import Settings, half_of_memory
from rankloop.service.stores.open import open_store

PAUSE = 0.2  # seconds between two checks of the workers
PATIENCE = 60  # seconds for a worker to start, and for one to finish
WORKER = "RANKLOOP_WORKER"  # the variable with the socket of a worker, and where it says that it answers
WAITING = 1024  # calls that may wait while a worker starts


class WorkerProcess:
    """A process that serves a socket, which stays open here: who connects while it is replaced waits."""

    def __init__(self, command: list[str], listening: Socket) -> None:
        self._started, told = os.pipe()
        number = listening.fileno()
        environment = os.environ | {WORKER: f"{number} {told}"}
        self.process = subprocess.Popen(command, env=environment, pass_fds=[number, told])
        os.close(told)

    def starts(self, patience: float = PATIENCE) -> bool:
        """Wait until it answers calls; false where it ended before, or takes too long."""
        ready, _, _ = select.select([self._started], [], [], patience)
        return bool(ready) and bool(os.read(self._started, 1))

    def tell_to_stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def finish(self, patience: float) -> None:
        """Wait until it has stopped, and end it where that takes too long."""
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._started)


def run_service(settings: Settings, announce: Callable[[str], None], command: list[str], demo: bool = False) -> None:
    """Serve until told to stop, in this process or in as many as the settings say.

    Args:
      settings: Those of all processes together.
      announce: Gets the address once calls are answered.
      command: Starts this program again, as one of several processes.
      demo: Add rankers to play with.
    """
    inherited = os.environ.pop(WORKER, "")  # set by `WorkerProcess`
    if inherited:
        number, started = map(int, inherited.split())

        def announce_start(address: str) -> None:
            os.write(started, b"\n")

        serve(share_of(settings), announce_start, demo, number)
    elif settings.workers > 1:
        serve_with_workers(settings, announce, command)
    else:
        serve(settings, announce, demo)


def share_of(settings: Settings) -> Settings:
    """Return the settings of one of several processes: rates, and the memory unless set, are those of all together."""
    n, memory = settings.workers, settings.max_open_bytes
    memory = memory // n if memory == half_of_memory() else memory
    return replace(settings, workers=1, sharers=n, rate=settings.rate / n, max_open_bytes=memory)


def serve_with_workers(settings: Settings, announce: Callable[[str], None], command: list[str]) -> None:
    """Run `settings.workers` processes of a command until told to stop.

    SIGHUP replaces them one after the other, by processes of the program as it is on the disk then.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(each) for each in listening_sockets(settings)]
        with closing(open_store(settings)) as store:  # what is wrong is better said once than by every worker
            check_kinds(store)
        signals: list[int] = []

        def note(sig: int, frame: FrameType | None) -> None:
            signals.append(sig)

        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(sig, note)
        announce(address_of(settings, sockets[0]))
        workers = [WorkerProcess(command, each) for each in sockets]
        while not _is_over(signals):
            time.sleep(PAUSE)
            for position, worker in enumerate(workers):
                if worker.process.poll() is not None:
                    worker.finish(0)
                    sockets[position] = stack.enter_context(renewed_socket(settings, sockets[position]))
                    workers[position] = WorkerProcess(command, sockets[position])
            if signal.SIGHUP in signals:
                signals.remove(signal.SIGHUP)
                _replace_all(workers, sockets, command, signals, PATIENCE + settings.drain)
        for worker in workers:
            worker.tell_to_stop()
        for each in sockets:  # who connects now gets a worker that still answers, and not one that has stopped
            each.close()
        for worker in workers:
            worker.finish(PATIENCE + settings.drain)


def listening_sockets(settings: Settings) -> list[Socket]:
    """One for each worker, so that the system deals connections evenly; where it cannot, all share one."""
    first = bound_socket(settings)  # refused where anybody else listens
    if sys.platform == "linux":
        settings = replace(settings, port=first.getsockname()[1])
        first.close()
        sockets = [bound_socket(settings, shared=True) for _ in range(settings.workers)]
    else:
        sockets = [first, *(first.dup() for _ in range(settings.workers - 1))]
    for each in sockets:
        each.listen(WAITING)
        each.set_inheritable(True)
    return sockets


def renewed_socket(settings: Settings, left: Socket) -> Socket:
    """In place of that of a process that has ended: nobody is dealt to it before the next process answers.

    As long as the one before is open the system goes on dealing connections to it, who would wait for a process that
    takes seconds to start, or never does. Where all processes share a socket, the others take them.
    """
    if sys.platform != "linux":
        return left
    settings = replace(settings, port=left.getsockname()[1])
    fresh = bound_socket(settings, shared=True)  # listens when a process serves it
    left.close()
    fresh.set_inheritable(True)
    return fresh


def _is_over(signals: list[int]) -> bool:
    return signal.SIGTERM in signals or signal.SIGINT in signals


def _replace_all(
    workers: list[WorkerProcess], sockets: list[Socket], command: list[str], signals: list[int], patience: float
) -> None:
    """Each makes room for its successor once that answers; the first that does not start ends it, and none is lost."""
    for position, before in enumerate(workers):
        if _is_over(signals):
            return
        after = WorkerProcess(command, sockets[position])
        if not after.starts():
            after.tell_to_stop()
            after.finish(patience)
            print("rankloop: the new worker did not start; the others go on as they are", file=sys.stderr, flush=True)
            return
        workers[position] = after
        before.tell_to_stop()
        before.finish(patience)

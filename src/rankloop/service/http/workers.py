"""Worker processes behind one port: started, restarted after a crash, and replaced one by one without a failed call."""

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

from rankloop.service.application.rebuild import check_kinds
from rankloop.service.http.app import Addition
from rankloop.service.http.server import address_of, bound_socket, serve
from rankloop.service.settings import Settings, half_of_memory
from rankloop.service.stores.open import open_store

CHECK_SECONDS = 0.2  # between two checks of the workers
START_SECONDS = 60  # for a worker to start, and for one to finish
WORKER_VARIABLE = "RANKLOOP_WORKER"  # holds the file descriptors of a worker: its socket, and the pipe to its parent
MAX_WAITING_CONNECTIONS = 1024  # while a worker starts


class WorkerProcess:
    """A process that serves a socket. The socket stays open in the parent, so connections wait during a replacement."""

    def __init__(self, command: list[str], listening: Socket) -> None:
        self._started, write_end = os.pipe()
        number = listening.fileno()
        environment = os.environ | {WORKER_VARIABLE: f"{number} {write_end}"}
        self.process = subprocess.Popen(command, env=environment, pass_fds=[number, write_end])
        os.close(write_end)

    def starts(self) -> bool:
        """Wait until it answers calls; return False if it ended or takes too long."""
        ready, _, _ = select.select([self._started], [], [], START_SECONDS)
        return bool(ready) and bool(os.read(self._started, 1))

    def tell_to_stop(self) -> None:
        """Send the signal to stop."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def finish(self, max_seconds: float) -> None:
        """Wait until it has stopped; kill it if that takes too long."""
        try:
            self.process.wait(max_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._started)


def run_service(
    settings: Settings, announce: Callable[[str], None], command: list[str], addition: Addition | None = None
) -> None:
    """Serve until a signal to stop, in this process or in several.

    Args:
      settings: The settings of all processes together.
      announce: Called with the address once calls are answered.
      command: Starts this program again, as a worker process.
      addition: The demo, if it is served.
    """
    inherited = os.environ.pop(WORKER_VARIABLE, "")  # set by `WorkerProcess`
    if inherited:
        number, started = map(int, inherited.split())

        def announce_start(address: str) -> None:
            os.write(started, b"\n")

        serve(share_of(settings), announce_start, number, addition)
    elif settings.workers > 1:
        _serve_with_workers(settings, announce, command)
    else:
        serve(settings, announce, addition=addition)


def share_of(settings: Settings) -> Settings:
    """Return the settings of one worker: its share of the rate, and of the memory unless that was set."""
    n, memory = settings.workers, settings.max_open_bytes
    memory = memory // n if memory == half_of_memory() else memory
    return replace(settings, workers=1, sharers=n, rate=settings.rate / n, max_open_bytes=memory)


def _serve_with_workers(settings: Settings, announce: Callable[[str], None], command: list[str]) -> None:
    """Run `settings.workers` worker processes until a signal to stop."""
    # SIGHUP replaces them one by one, so a new version of the program on disk is started without a failed call.
    with ExitStack() as stack:
        sockets = [stack.enter_context(each) for each in listening_sockets(settings)]
        with closing(open_store(settings)) as store:  # so that an error is reported once and not by every worker
            check_kinds(store)
        signals: list[int] = []
        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(sig, lambda number, frame: signals.append(number))
        announce(address_of(sockets[0]))
        max_seconds = START_SECONDS + settings.drain
        workers = [WorkerProcess(command, each) for each in sockets]
        stops = {signal.SIGTERM, signal.SIGINT}
        while stops.isdisjoint(signals):
            time.sleep(CHECK_SECONDS)
            for position, worker in enumerate(workers):
                if worker.process.poll() is not None:
                    worker.finish(0)
                    sockets[position] = stack.enter_context(_renewed_socket(settings, sockets[position]))
                    workers[position] = WorkerProcess(command, sockets[position])
            if signal.SIGHUP in signals:
                signals.remove(signal.SIGHUP)
                for position, old in enumerate(workers):
                    if not stops.isdisjoint(signals):
                        break
                    new = WorkerProcess(command, sockets[position])
                    if not new.starts():
                        new.tell_to_stop()
                        new.finish(max_seconds)
                        warning = "rankloop: the new worker did not start; the old workers stay"
                        print(warning, file=sys.stderr, flush=True)
                        break
                    workers[position] = new
                    old.tell_to_stop()
                    old.finish(max_seconds)
        for worker in workers:
            worker.tell_to_stop()
        for each in sockets:  # so that new connections do not wait for a worker that stops
            each.close()
        for worker in workers:
            worker.finish(max_seconds)


def listening_sockets(settings: Settings) -> list[Socket]:
    """Return one socket per worker, so that Linux spreads connections evenly; elsewhere all share one."""
    first = bound_socket(settings)  # fails if another program uses the port
    if sys.platform == "linux":
        settings = replace(settings, port=first.getsockname()[1])
        first.close()
        sockets = [bound_socket(settings, shared=True) for _ in range(settings.workers)]
    else:
        sockets = [first, *(first.dup() for _ in range(settings.workers - 1))]
    for each in sockets:
        each.listen(MAX_WAITING_CONNECTIONS)
        each.set_inheritable(True)
    return sockets


def _renewed_socket(settings: Settings, old: Socket) -> Socket:
    """Return a new socket for a worker that has ended, and close the old one."""
    # Linux assigns connections to a socket as long as it is open, and they would wait for a worker that takes seconds
    # to start. Elsewhere all workers share one socket, so the others accept the connections.
    if sys.platform != "linux":
        return old
    settings = replace(settings, port=old.getsockname()[1])
    fresh = bound_socket(settings, shared=True)  # it listens when a worker serves it
    old.close()
    fresh.set_inheritable(True)
    return fresh

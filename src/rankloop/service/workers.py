"""Several worker processes behind one socket; one that dies is replaced."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from types import FrameType

from rankloop.service.listening import address_of, bound_socket
from rankloop.service.settings import Settings
from rankloop.service.starting import check_kinds
from rankloop.service.stores.opening import open_store

PAUSE = 0.2  # seconds between looks at the workers
PATIENCE = 30  # seconds for a worker to finish
WAITING = 1024  # calls that may wait while the workers start


def serve_with_workers(settings: Settings, announce: Callable[[str], None], arguments: list[str]) -> None:
    """Run `settings.workers` processes until told to stop; `arguments` is the command line of one of them."""
    with bound_socket(settings) as shared:
        with closing(open_store(settings)) as store:  # what is wrong is better said once than by every worker
            check_kinds(store)
        shared.listen(WAITING)
        shared.set_inheritable(True)
        stopping: list[int] = []

        def stop(sig: int, frame: FrameType | None) -> None:
            stopping.append(sig)

        for sig in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sig, stop)
        number = shared.fileno()
        announce(address_of(settings, shared))
        command = [sys.executable, "-m", "rankloop.cli", *arguments, "--socket", str(number)]
        workers = [subprocess.Popen(command, pass_fds=[number]) for _ in range(settings.workers)]
        while not stopping:
            time.sleep(PAUSE)
            for place, worker in enumerate(workers):
                if worker.poll() is not None:
                    workers[place] = subprocess.Popen(command, pass_fds=[number])
        _finish(workers)


def _finish(workers: list[subprocess.Popen[bytes]]) -> None:
    for worker in workers:
        if worker.poll() is None:
            worker.send_signal(signal.SIGTERM)
    for worker in workers:
        try:
            worker.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            worker.kill()

"""The engine of a Ray cluster, or of a small one that is started on this machine."""

import atexit
import copy
import os
import platform
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import numba
import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.files import source_key
from rankloop.core.types import Floats
from rankloop.engine import base
from rankloop.engine.base import Done, Function, HeadDied, Result, Task, Total

MAX_RETRIES = 3  # of one task: a node that goes down takes several workers with it
# An actor takes so little that it runs on any machine with cores, even if all are busy, but not on a head without any.
ACTOR_CORES, TASK_CORES = 1e-3, 0.95
HEAD_CHECK_SECONDS = 2.0  # without an answer, after which the head is checked
HEAD_TIMEOUT_SECONDS = 15.0


@dataclass(frozen=True, kw_only=True)
class Cluster(base.ParallelEngine):
    """The engine for more than one machine; needs `pip install "rankloop[cluster]"` on each of them.

    Ray replaces a worker or a node that dies and computes its part again, with the same result. Machines with another
    version of the package are refused, and a head that dies ends the sum with an error.
    """

    # A running cluster (`auto`, `host:6379`); without it and without RAY_ADDRESS, one is started for this process.
    address: str | None = None

    def map(self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None) -> list[Result]:
        ray = self._connect()
        remote = ray.remote(_answer_here).options(num_cpus=TASK_CORES, max_retries=MAX_RETRIES)
        waiting = {remote.remote(_versions(), function, task): index for index, task in enumerate(tasks)}
        results: dict[int, Result] = {}
        while waiting:
            for answer in _finished(ray, list(waiting)):
                index = waiting.pop(answer)
                try:
                    results[index] = _result_of(ray, answer, f"task {index}")
                except Exception:
                    for other in waiting:
                        ray.cancel(other)
                    raise
                if done is not None:
                    done(index, results[index])
        return [results[index] for index in range(len(tasks))]

    @contextmanager
    def sum_over(self, partitions: Sequence[Any], function: Function) -> Iterator[Total]:
        ray = self._connect()
        shares = self.shares_of(partitions, int(ray.cluster_resources().get("CPU", 1)))
        # Calls are repeated until the last restart has failed: a machine that is down uses up any number of them.
        options: Any = {"num_cpus": ACTOR_CORES, "max_restarts": MAX_RETRIES, "max_task_retries": -1}
        keeper = ray.remote(ShareKeeper).options(scheduling_strategy="SPREAD", **options)
        actors = [self.idle.pop() if self.idle else keeper.remote() for _ in shares]
        stored = [ray.put(list(share)) for share in shares]

        def total(argument: Any) -> Floats:
            sent, answers = ray.put(argument), []
            calls = [actor.answers.remote(_versions(), [share], function, sent) for actor, share in zip(actors, stored)]
            for number, answer in enumerate(calls):
                _finished(ray, [answer])
                names = ", ".join(dict.fromkeys(str(part) for part in shares[number] if hasattr(part, "load")))
                work = f"share {number} of the partitions" + (f" ({names})" if names else "")
                answers += _result_of(ray, answer, work)
            return base.sum_in_order(answers)

        try:
            yield total
        finally:
            self.release(actors)

    def end_worker(self, worker: Any) -> None:
        """End an actor."""
        self._connect().kill(worker)

    def _connect(self) -> Any:
        """Return Ray, connected to the cluster; a connection that the process has already is kept."""
        ray = import_extra("ray")
        address = self.address or os.environ.get("RAY_ADDRESS")
        if address is None:
            if not ray.is_initialized():
                for name, value in base.ONE_THREAD.items():
                    os.environ.setdefault(name, value)
                ray.init(
                    address="local",  # not a cluster that somebody else started on this machine
                    num_cpus=self.workers or base.usable_cores(),
                    include_dashboard=False,
                    log_to_driver=False,
                    _node_ip_address="127.0.0.1",
                )
            return ray
        if not ray.is_initialized():
            try:
                ray.init(address=address, log_to_driver=False)
            except ConnectionError as error:
                raise InvalidInput(f"no Ray cluster answers at {address!r}: {error}") from None
            except RuntimeError as error:  # for example another version of Ray or Python
                raise InvalidInput(f"the cluster at {address!r} cannot be joined: {error}") from None
            _watch_over(address)
        return ray


class ShareKeeper:
    """An actor that keeps a share of the partitions; one that Ray started anew fetches it with the next call.

    It works on copies, because arrays of Ray are read-only and every kernel would be compiled once more for them.
    """

    def __init__(self) -> None:
        self.stored: Any = None

    def answers(self, versions: dict[str, str], share: list[Any], function: Function, argument: Any) -> list[Floats]:
        """Return the answers of all partitions of the share, a list with a reference, which Ray does not resolve."""
        _check_versions(versions)
        if share[0] != self.stored:
            self.partitions, self.stored = copy.deepcopy(import_module("ray").get(share[0])), share[0]
        return base.answers_of(self.partitions, function, copy.deepcopy(argument))


def _result_of(ray: Any, answer: Any, work: str) -> Any:
    """Return an answer, or raise the error of the function, or one that says that its workers died."""
    try:
        return ray.get(answer)
    except ray.exceptions.RayTaskError as error:
        raise cast(Exception, error.cause) from None
    except ray.exceptions.OutOfMemoryError as error:
        raise base.OutOfMemory(f"a machine ran out of memory with {work}: {error}") from None
    except ray.exceptions.RayError as error:
        raise base.WorkerDied(f"the workers of {work} died {MAX_RETRIES + 1} times: {error}") from None


def _answer_here(versions: dict[str, str], function: Callable[[Task], Result], task: Task) -> Result:
    _check_versions(versions)
    return function(task)


def _versions() -> dict[str, str]:
    versions = {"rankloop's source": source_key(), "Python": platform.python_version()}
    return versions | {"numpy": np.__version__, "numba": numba.__version__}


def _check_versions(driver_versions: dict[str, str]) -> None:
    """Raise, in a worker, if this machine has another version of the package or of its arithmetic."""
    versions = _versions()
    others = [name for name, version in versions.items() if driver_versions.get(name) != version]
    if others:
        ray: Any = import_module("ray")
        differences = "; ".join(f"{name} {versions[name]}, not {driver_versions.get(name)}" for name in others)
        fault = f"the machine {ray.util.get_node_ip_address()} has other versions, so that numbers might differ"
        raise InvalidInput(f"{fault}: {differences}. Install the same on every machine")


def _watch_over(address: str) -> None:
    """Start a shell that prints a message if Ray ends this process because its node went down."""
    if os.name == "posix":
        fault = f"the head of the cluster at {address} is gone, or this machine's node of it, and Ray ended the command"
        message = f"rankloop: {fault}: nothing was saved; start the cluster again, and then the command"
        command = ["sh", "-c", 'read word || echo "$0" >&2', message]
        watcher = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        atexit.register(watcher.communicate, b"finished\n")


def _finished(ray: Any, answers: list[Any]) -> list[Any]:
    """Wait until some answers are there, and return those; raise `HeadDied` if the head does not answer."""
    while not (finished := ray.wait(answers, timeout=HEAD_CHECK_SECONDS)[0]):
        address = str(ray.get_runtime_context().gcs_address)
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), HEAD_TIMEOUT_SECONDS).close()
        except OSError as error:
            fault = f"the head of the cluster at {address} does not answer any more ({error})"
            raise HeadDied(f"{fault}: nothing was saved; start it again, and then the command") from None
    return cast(list[Any], finished)

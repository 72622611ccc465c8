"""Tasks and sums on a Ray cluster, or on a small one that is started on this machine."""

import atexit
import copy
import math
import os
import platform
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numba
import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.files import source_key
from rankloop.core.types import Floats
from rankloop.engine.base import (
    ONE_THREAD,
    Done,
    Function,
    HeadDied,
    OutOfMemory,
    ParallelEngine,
    Result,
    Task,
    Total,
    WorkerDied,
    answers_of,
    is_stored,
    shares_of,
    sum_in_order,
    usable_cores,
)

MAX_ATTEMPTS = 4  # for one task: a node that goes down takes several workers with it
HEAD_CHECK_SECONDS = 2.0  # without an answer, after which the head is checked
HEAD_ATTEMPTS, HEAD_TIMEOUT_SECONDS = 3, 5.0
_CHECKED_NODES: set[str] = set()  # nodes with the versions of this process


@dataclass(frozen=True, kw_only=True)
class Cluster(ParallelEngine):
    """The engine for more than one machine; needs `pip install "rankloop[cluster]"` on each of them.

    A worker or a node that dies is replaced and its part computed again, with the same result. Machines with another
    version of the package are refused, and a head that dies ends the sum with an error.

    Attributes:
      workers: The number of workers that keep partitions; None is one per core of the cluster.
      address: A running cluster (`auto`, `host:6379`); without it and without RAY_ADDRESS, one is started for this
        process.
    """

    address: str | None = None

    def map(self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None) -> list[Result]:
        """Return function(task) of all tasks, in their order."""
        ray = self._connect()
        while self.idle:  # idle actors would hold the cores that the tasks need
            self.idle.pop().terminate()
        remote = ray.remote(function).options(max_retries=MAX_ATTEMPTS - 1)
        waiting = {remote.remote(task): index for index, task in enumerate(tasks)}
        results: dict[int, Result] = {}
        while waiting:
            for reference in _ready(ray, list(waiting)):
                index = waiting.pop(reference)
                try:
                    results[index] = ray.get(reference)
                except Exception as error:
                    for other in waiting:
                        ray.cancel(other)
                    raise _cause_of(error, f"task {index}") from None
                if done is not None:
                    done(index, results[index])
        return [results[index] for index in range(len(tasks))]

    @contextmanager
    def sum_over(self, partitions: Sequence[Any], function: Function) -> Iterator[Total]:
        """Yield argument ↦ Σ over the partitions of function(partition, argument)."""
        ray = self._connect()
        workers = self.workers or int(ray.cluster_resources().get("CPU", 1))
        summation = _Summation(ray, shares_of(partitions, workers), function, self.idle)
        try:
            yield summation.total
        finally:
            summation.release(self.idle)

    def _connect(self) -> Any:
        """Return Ray, connected to the cluster; a connection that the process has already is kept."""
        try:
            import ray
        except ImportError:
            raise InvalidInput('the cluster engine needs Ray: pip install "rankloop[cluster]"') from None
        address = self.address or os.environ.get("RAY_ADDRESS")
        if not ray.is_initialized():
            if address is None:
                return self._start_local(ray)
            _join(ray, address)
            _watch_over(address)
        if address is not None:
            _check_versions(ray)
        return ray

    def _start_local(self, ray: Any) -> Any:
        for name, value in ONE_THREAD.items():
            os.environ.setdefault(name, value)
        ray.init(
            address="local",  # not a cluster that somebody else started on this machine
            num_cpus=self.workers or usable_cores(),
            include_dashboard=False,
            log_to_driver=False,
            _node_ip_address="127.0.0.1",
        )
        return ray


class PartitionActor:
    """An actor that keeps a share of the partitions.

    It works on copies, because arrays of Ray are read-only and every kernel would be compiled once more for them.
    """

    def keep(self, partitions: list[Any], function: Function) -> None:
        """Keep the partitions and the function of a sum."""
        self.partitions, self.function = copy.deepcopy(partitions), function

    def answers(self, argument: Any) -> list[Floats]:
        """Return the answers of all partitions."""
        return answers_of(self.partitions, self.function, copy.deepcopy(argument))


class _Actor:
    """A partition actor, and the node that it was put on; None: any node with a free core."""

    def __init__(self, ray: Any, cores: float, node: str | None = None) -> None:
        self.ray, self.node = ray, node
        options: dict[str, Any] = {"num_cpus": cores, "max_restarts": 0}
        if node is not None:
            affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
            options |= {"num_cpus": 0, "scheduling_strategy": affinity}
        self.handle = ray.remote(PartitionActor).options(**options).remote()

    def ask(self, argument: Any) -> Any:
        return self.handle.answers.remote(argument)

    def terminate(self) -> None:
        self.ray.kill(self.handle)


class _Summation:
    """The actors of one sum, and their shares, which a replacement needs."""

    def __init__(self, ray: Any, shares: list[list[Any]], function: Function, idle: list[_Actor] | None) -> None:
        self.ray, self.shares, self.function = ray, shares, function
        cores = min(1.0, ray.cluster_resources().get("CPU", 1.0) / len(shares))
        self.cores = math.floor(1e4 * cores) / 1e4  # Ray counts in steps of 1e-4
        self.actors = [idle.pop() if idle else _Actor(ray, self.cores) for _ in shares]
        self.is_settled = True  # no answer is outstanding
        for actor, share in zip(self.actors, shares):
            actor.handle.keep.remote(share, function)

    def total(self, argument: Any) -> Floats:
        self.is_settled = False
        sent = self.ray.put(argument)
        pending = [actor.ask(sent) for actor in self.actors]
        answers = [part for number, of in enumerate(pending) for part in self._answer(number, of, sent)]
        self.is_settled = True
        return sum_in_order(answers)

    def release(self, idle: list[_Actor] | None) -> None:
        if idle is not None and self.is_settled:
            idle += self.actors
            return
        for actor in self.actors:
            actor.terminate()

    def _answer(self, number: int, pending: Any, sent: Any) -> list[Floats]:
        for attempt in range(MAX_ATTEMPTS):
            try:
                return cast(list[Floats], self.ray.get(_ready(self.ray, [pending])[0]))
            except HeadDied:
                raise
            except Exception as error:
                if isinstance(error, self.ray.exceptions.RayTaskError) or attempt == MAX_ATTEMPTS - 1:
                    raise _cause_of(error, self._name_of(number)) from None
                self._replace(number, attempt)
                pending = self.actors[number].ask(sent)
        raise AssertionError("unreachable")

    def _name_of(self, number: int) -> str:
        names = dict.fromkeys(str(part) for part in self.shares[number] if is_stored(part))
        return f"share {number} of the partitions" + (f" ({', '.join(names)})" if names else "")

    def _replace(self, number: int, attempt: int) -> None:
        """Start another actor for the share, on a machine that is up, even if all its cores are busy."""
        nodes = [node["NodeID"] for node in _worker_nodes(self.ray)]
        taken = [actor.node for actor in self.actors]
        nodes.sort(key=taken.count)
        node = nodes[attempt % len(nodes)] if nodes else None
        self.actors[number] = _Actor(self.ray, self.cores, node)
        self.actors[number].handle.keep.remote(self.shares[number], self.function)


def _join(ray: Any, address: str) -> None:
    try:
        ray.init(address=address, log_to_driver=False)
    except ConnectionError as error:
        raise InvalidInput(f"no Ray cluster answers at {address!r}: {error}") from None
    except RuntimeError as error:  # for example another version of Ray or Python
        raise InvalidInput(f"the cluster at {address!r} cannot be joined: {error}") from None


def _cause_of(error: Exception, computing: str) -> Exception:
    """Return the error of the function, or one that says that its workers died."""
    from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

    if isinstance(error, RayTaskError):
        return cast(Exception, error.cause)
    if isinstance(error, OutOfMemoryError):
        return OutOfMemory(f"a machine ran out of memory with {computing}: {error}")
    if isinstance(error, RayError):
        return WorkerDied(f"the workers of {computing} died {MAX_ATTEMPTS} times: {error}")
    return error


def _check_versions(ray: Any) -> None:
    """Raise if a machine has another version of the package or of its arithmetic; each is checked once."""
    new = [node for node in _worker_nodes(ray) if node["NodeID"] not in _CHECKED_NODES]
    ours = _versions()
    affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    remote_versions, options = ray.remote(_versions), {"num_cpus": 0, "max_retries": 0}
    strategies = [affinity(node["NodeID"], soft=False) for node in new]
    answers = [remote_versions.options(scheduling_strategy=strategy, **options).remote() for strategy in strategies]
    for node, answer in zip(new, answers):
        try:
            theirs = ray.get(_ready(ray, [answer])[0])
        except ray.exceptions.RayTaskError as error:
            raise InvalidInput(
                f"the machine {node['NodeManagerAddress']} cannot run this version of rankloop ({error.cause}): "
                "install the same on every machine"
            ) from None
        except ray.exceptions.RayError:
            continue  # it went down; its work goes to others
        others = [name for name, value in ours.items() if theirs.get(name) != value]
        if others:
            differences = "; ".join(f"{name} {theirs.get(name)}, here {ours[name]}" for name in others)
            raise InvalidInput(
                f"the machine {node['NodeManagerAddress']} has other versions, so that numbers might differ: "
                f"{differences}. Install the same on every machine"
            )
        _CHECKED_NODES.add(node["NodeID"])


def _versions() -> dict[str, str]:
    ours = {"rankloop's source": source_key(), "Python": platform.python_version()}
    return ours | {"numpy": np.__version__, "numba": numba.__version__}


def _watch_over(address: str) -> None:
    """Start a shell that prints a message if Ray ends this process because its node went down."""
    if os.name != "posix":
        return
    message = (
        f"rankloop: the head of the cluster at {address} is gone, or this machine's node of it, and Ray ended the "
        "command: nothing was saved; start the cluster again, and then the command"
    )
    watcher = subprocess.Popen(
        ["sh", "-c", 'read word || echo "$0" >&2', message], stdin=subprocess.PIPE, start_new_session=True
    )
    atexit.register(watcher.communicate, b"finished\n")


def _worker_nodes(ray: Any) -> list[dict[str, Any]]:
    """Return the machines that are up and have cores."""
    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0.0) > 0.0]


def _ready(ray: Any, references: list[Any]) -> list[Any]:
    """Wait until some references have an answer, and return those; raise `HeadDied` if the head does not answer."""
    while True:
        answered: list[Any] = ray.wait(references, timeout=HEAD_CHECK_SECONDS)[0]
        if answered:
            return answered
        _check_head(ray)


def _check_head(ray: Any) -> None:
    address = str(ray.get_runtime_context().gcs_address)
    host, _, port = address.rpartition(":")
    for attempt in range(HEAD_ATTEMPTS):
        try:
            socket.create_connection((host, int(port)), HEAD_TIMEOUT_SECONDS).close()
        except OSError as error:
            if attempt == HEAD_ATTEMPTS - 1:
                raise HeadDied(
                    f"the head of the cluster at {address} does not answer any more ({error}): nothing was saved; "
                    "start it again, and then the command"
                ) from None
        else:
            return

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
from rankloop.engine import base
from rankloop.engine.base import Done, Function, HeadDied, Result, Task, Total

MAX_ATTEMPTS = 4  # for one task: a node that goes down takes several workers with it
HEAD_CHECK_SECONDS = 2.0  # without an answer, after which the head is checked
HEAD_ATTEMPTS, HEAD_TIMEOUT_SECONDS = 3, 5.0
_CHECKED_NODES: set[str] = set()  # nodes with the versions of this process


@dataclass(frozen=True, kw_only=True)
class Cluster(base.ParallelEngine):
    """The engine for more than one machine; needs `pip install "rankloop[cluster]"` on each of them.

    A worker or a node that dies is replaced and its part computed again, with the same result. Machines with another
    version of the package are refused, and a head that dies ends the sum with an error.
    """

    # A running cluster (`auto`, `host:6379`); without it and without RAY_ADDRESS, one is started for this process.
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
        cores = ray.cluster_resources().get("CPU", 1.0)
        shares = base.shares_of(partitions, self.workers or int(cores))
        cores_per_actor = math.floor(1e4 * min(1.0, cores / len(shares))) / 1e4  # Ray counts in steps of 1e-4
        actors = [self.idle.pop() if self.idle else _Actor(ray, cores_per_actor) for _ in shares]
        is_settled = True  # no answer is outstanding
        for actor, share in zip(actors, shares):
            actor.handle.keep.remote(share, function)

        def answers_of(number: int, pending: Any, sent: Any) -> list[Floats]:
            for attempt in range(MAX_ATTEMPTS):
                try:
                    return cast(list[Floats], ray.get(_ready(ray, [pending])[0]))
                except HeadDied:
                    raise
                except Exception as error:
                    if isinstance(error, ray.exceptions.RayTaskError) or attempt == MAX_ATTEMPTS - 1:
                        names = ", ".join(dict.fromkeys(str(part) for part in shares[number] if hasattr(part, "load")))
                        share = f"share {number} of the partitions" + (f" ({names})" if names else "")
                        raise _cause_of(error, share) from None
                # Another actor gets the share, on a machine that is up, even if all its cores are busy.
                nodes = [node["NodeID"] for node in _worker_nodes(ray)]
                nodes.sort(key=[actor.node for actor in actors].count)
                actors[number] = _Actor(ray, cores_per_actor, nodes[attempt % len(nodes)] if nodes else None)
                actors[number].handle.keep.remote(shares[number], function)
                pending = actors[number].handle.answers.remote(sent)
            raise AssertionError("unreachable")

        def total(argument: Any) -> Floats:
            nonlocal is_settled
            is_settled, sent = False, ray.put(argument)
            pending = [actor.handle.answers.remote(sent) for actor in actors]
            answers = [part for number, answer in enumerate(pending) for part in answers_of(number, answer, sent)]
            is_settled = True
            return base.sum_in_order(answers)

        try:
            yield total
        finally:
            if self.idle is not None and is_settled:
                self.idle.extend(actors)
            else:
                for actor in actors:
                    actor.terminate()

    def _connect(self) -> Any:
        """Return Ray, connected to the cluster; a connection that the process has already is kept."""
        try:
            import ray
        except ImportError:
            raise InvalidInput('the cluster engine needs Ray: pip install "rankloop[cluster]"') from None
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
        _check_versions(ray)
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
        return base.answers_of(self.partitions, self.function, copy.deepcopy(argument))


class _Actor:
    """A partition actor, and the node that it was put on; None: any node with a free core."""

    def __init__(self, ray: Any, cores: float, node: str | None = None) -> None:
        self.ray, self.node = ray, node
        options: dict[str, Any] = {"num_cpus": cores, "max_restarts": 0}
        if node is not None:
            affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
            options |= {"num_cpus": 0, "scheduling_strategy": affinity}
        self.handle = ray.remote(PartitionActor).options(**options).remote()

    def terminate(self) -> None:
        self.ray.kill(self.handle)


def _cause_of(error: Exception, computing: str) -> Exception:
    """Return the error of the function, or one that says that its workers died."""
    from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

    if isinstance(error, RayTaskError):
        return cast(Exception, error.cause)
    if isinstance(error, OutOfMemoryError):
        return base.OutOfMemory(f"a machine ran out of memory with {computing}: {error}")
    if isinstance(error, RayError):
        return base.WorkerDied(f"the workers of {computing} died {MAX_ATTEMPTS} times: {error}")
    return error


def _versions() -> dict[str, str]:
    versions = {"rankloop's source": source_key(), "Python": platform.python_version()}
    return versions | {"numpy": np.__version__, "numba": numba.__version__}


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


def _watch_over(address: str) -> None:
    """Start a shell that prints a message if Ray ends this process because its node went down."""
    if os.name == "posix":
        message = (
            f"rankloop: the head of the cluster at {address} is gone, or this machine's node of it, and Ray ended the "
            "command: nothing was saved; start the cluster again, and then the command"
        )
        command = ["sh", "-c", 'read word || echo "$0" >&2', message]
        watcher = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
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
        address = str(ray.get_runtime_context().gcs_address)
        host, _, port = address.rpartition(":")
        for attempt in range(HEAD_ATTEMPTS):
            try:
                socket.create_connection((host, int(port)), HEAD_TIMEOUT_SECONDS).close()
                break
            except OSError as error:
                if attempt == HEAD_ATTEMPTS - 1:
                    raise HeadDied(
                        f"the head of the cluster at {address} does not answer any more ({error}): nothing was saved; "
                        "start it again, and then the command"
                    ) from None

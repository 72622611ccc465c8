"""Tasks and sums on a Ray cluster, or on a small one that is started on this machine."""

import copy
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from rankloop.core.errors import InvalidInput
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
    shares_of,
    sum_in_order,
    usable_cores,
)
from rankloop.engine.members import check_versions, ready, watch_over, worker_nodes
from rankloop.engine.storage import answers_of, is_stored

ATTEMPTS = 4  # a node that goes down takes several workers with it


@dataclass(frozen=True, kw_only=True)
class Cluster(ParallelEngine):
    """The engine for more than one machine; needs `pip install "rankloop[cluster]"` on each of them.

    `address` is that of a cluster that runs already (`auto`, `host:6379`); without it and without RAY_ADDRESS, one is
    started here, for this process only. `workers` is how many keep partitions, by default one per core of the cluster.
    A worker or a node that dies is replaced and its part computed again, with the same result. Machines with another
    version of the package are refused, and a head that dies ends the sum with an error.
    """

    address: str | None = None

    def map(self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None) -> list[Result]:
        ray = self._connected()
        while self.idle:  # they would hold the cores that the tasks need
            self.idle.pop().terminate()
        remote = ray.remote(function).options(max_retries=ATTEMPTS - 1)
        waiting = {remote.remote(task): index for index, task in enumerate(tasks)}
        results: dict[int, Result] = {}
        while waiting:
            for reference in ready(ray, list(waiting)):
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
        ray = self._connected()
        workers = self.workers or int(ray.cluster_resources().get("CPU", 1))
        summation = _Summation(ray, shares_of(partitions, workers), function, self.idle)
        try:
            yield summation.total
        finally:
            summation.let_go(self.idle)

    def _connected(self) -> Any:
        """Ray, connected to the cluster; one that the process already uses is kept."""
        try:
            import ray
        except ImportError:
            raise InvalidInput('the cluster engine needs Ray: pip install "rankloop[cluster]"') from None
        address = self.address or os.environ.get("RAY_ADDRESS")
        if not ray.is_initialized():
            if address is None:
                return self._started(ray)
            _join(ray, address)
            watch_over(address)
        if address is not None:
            check_versions(ray)
        return ray

    def _started(self, ray: Any) -> Any:
        for name, value in ONE_THREAD.items():
            os.environ.setdefault(name, value)
        ray.init(
            address="local",  # never one that somebody else has started on this machine
            num_cpus=self.workers or usable_cores(),
            include_dashboard=False,
            log_to_driver=False,
            _node_ip_address="127.0.0.1",
        )
        return ray


class PartitionActor:
    """Lives on a worker and keeps a share of the partitions, or where they lie.

    Arrays of Ray's are read-only, for which every kernel would be compiled once more: it works on copies.
    """

    def keep(self, partitions: list[Any], function: Function) -> None:
        self.partitions, self.function = copy.deepcopy(partitions), function

    def answers(self, argument: Any) -> list[Floats]:
        return answers_of(self.partitions, self.function, copy.deepcopy(argument))


class _Actor:
    """A partition actor, and the node that it was put on; None: wherever a core is free."""

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
    """The actors of one sum; the shares are held here too, for those that die."""

    def __init__(self, ray: Any, shares: list[list[Any]], function: Function, idle: list[_Actor] | None) -> None:
        self.ray, self.shares, self.function = ray, shares, function
        cores = min(1.0, ray.cluster_resources().get("CPU", 1.0) / len(shares))
        self.cores = math.floor(1e4 * cores) / 1e4  # in the steps that Ray counts
        self.actors = [idle.pop() if idle else _Actor(ray, self.cores) for _ in shares]
        self.is_settled = True  # nobody owes an answer
        for actor, share in zip(self.actors, shares):
            actor.handle.keep.remote(share, function)

    def total(self, argument: Any) -> Floats:
        self.is_settled = False
        sent = self.ray.put(argument)
        pending = [actor.ask(sent) for actor in self.actors]
        answers = [part for number, of in enumerate(pending) for part in self._answer(number, of, sent)]
        self.is_settled = True
        return sum_in_order(answers)

    def let_go(self, idle: list[_Actor] | None) -> None:
        if idle is not None and self.is_settled:
            idle += self.actors
            return
        for actor in self.actors:
            actor.terminate()

    def _answer(self, number: int, pending: Any, sent: Any) -> list[Floats]:
        for attempt in range(ATTEMPTS):
            try:
                return cast(list[Floats], self.ray.get(ready(self.ray, [pending])[0]))
            except HeadDied:
                raise
            except Exception as error:
                if isinstance(error, self.ray.exceptions.RayTaskError) or attempt == ATTEMPTS - 1:
                    raise _cause_of(error, self._name_of(number)) from None
                self._replace(number, attempt)
                pending = self.actors[number].ask(sent)
        raise AssertionError("unreachable")

    def _name_of(self, number: int) -> str:
        names = dict.fromkeys(str(part) for part in self.shares[number] if is_stored(part))
        return f"share {number} of the partitions" + (f" ({', '.join(names)})" if names else "")

    def _replace(self, number: int, attempt: int) -> None:
        """Another actor for the share, on a machine that is up, whether or not it has a core to spare."""
        nodes = [node["NodeID"] for node in worker_nodes(self.ray)]
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
    except RuntimeError as error:  # another version of Ray or Python above all
        raise InvalidInput(f"the cluster at {address!r} cannot be joined: {error}") from None


def _cause_of(error: Exception, computing: str) -> Exception:
    """The function's own error, or that its workers died."""
    from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

    if isinstance(error, RayTaskError):
        return cast(Exception, error.cause)
    if isinstance(error, OutOfMemoryError):
        return OutOfMemory(f"a machine ran out of memory with {computing}: {error}")
    if isinstance(error, RayError):
        return WorkerDied(f"the workers of {computing} died {ATTEMPTS} times: {error}")
    return error

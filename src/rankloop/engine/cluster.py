"""Tasks and sums on a Ray cluster, or on a small one that is started on this machine."""

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
    ParallelEngine,
    Result,
    Task,
    Total,
    WorkerDied,
    shares_of,
    sum_in_order,
    usable_cores,
)

ATTEMPTS = 4  # a node that goes down takes several workers with it


@dataclass(frozen=True, kw_only=True)
class Cluster(ParallelEngine):
    """The engine for more than one machine; needs `pip install "rankloop[cluster]"` on each of them.

    `address` is that of a cluster that runs already (`auto`, `host:6379`); without it and without RAY_ADDRESS, one is
    started here, for this process only. `workers` is how many keep partitions, by default one per core of the cluster.
    A worker or a node that dies is replaced and its part computed again, with the same result.
    """

    address: str | None = None

    def map(self, tasks: Sequence[Task], function: Callable[[Task], Result], done: Done | None = None) -> list[Result]:
        ray = self._connected()
        remote = ray.remote(function).options(max_retries=ATTEMPTS - 1)
        waiting = {remote.remote(task): index for index, task in enumerate(tasks)}
        results: dict[int, Result] = {}
        while waiting:
            for reference in ray.wait(list(waiting))[0]:
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
        summation = _Summation(ray, shares_of(partitions, workers), function)
        try:
            yield summation.total
        finally:
            summation.terminate()

    def _connected(self) -> Any:
        """Ray, connected to the cluster; one that the process already uses is kept."""
        try:
            import ray
        except ImportError:
            raise InvalidInput('the cluster engine needs Ray: pip install "rankloop[cluster]"') from None
        if ray.is_initialized():
            return ray
        address = self.address or os.environ.get("RAY_ADDRESS")
        if address is not None:
            return _joined(ray, address)
        for name, value in ONE_THREAD.items():
            os.environ.setdefault(name, value)
        ray.init(
            num_cpus=self.workers or usable_cores(),
            include_dashboard=False,
            log_to_driver=False,
            _node_ip_address="127.0.0.1",
        )
        return ray


class PartitionActor:
    """Lives on a worker and keeps a share of the partitions."""

    def __init__(self, partitions: list[Any], function: Function) -> None:
        self.partitions, self.function = partitions, function

    def answers(self, argument: Any) -> list[Floats]:
        return [self.function(partition, argument) for partition in self.partitions]


class _Summation:
    """The actors of one sum; the shares are held here too, for those that die."""

    def __init__(self, ray: Any, shares: list[list[Any]], function: Function) -> None:
        self.ray, self.shares, self.function = ray, shares, function
        self.actors = [self._spawn(share) for share in shares]

    def total(self, argument: Any) -> Floats:
        sent = self.ray.put(argument)
        pending = [actor.answers.remote(sent) for actor in self.actors]
        return sum_in_order([part for number, of in enumerate(pending) for part in self._answer(number, of, sent)])

    def terminate(self) -> None:
        for actor in self.actors:
            self.ray.kill(actor)

    def _spawn(self, share: list[Any]) -> Any:
        return self.ray.remote(PartitionActor).options(num_cpus=1, max_restarts=0).remote(share, self.function)

    def _answer(self, number: int, pending: Any, sent: Any) -> list[Floats]:
        for attempt in range(ATTEMPTS):
            try:
                return cast(list[Floats], self.ray.get(pending))
            except Exception as error:
                if isinstance(error, self.ray.exceptions.RayTaskError) or attempt == ATTEMPTS - 1:
                    raise _cause_of(error, f"share {number} of the partitions") from None
                self.actors[number] = self._spawn(self.shares[number])
                pending = self.actors[number].answers.remote(sent)
        raise AssertionError("unreachable")


def _joined(ray: Any, address: str) -> Any:
    try:
        ray.init(address=address, log_to_driver=False)
    except ConnectionError as error:
        raise InvalidInput(f"no Ray cluster answers at {address!r}: {error}") from None
    return ray


def _cause_of(error: Exception, computing: str) -> Exception:
    """The function's own error, or that its workers died."""
    from ray.exceptions import RayError, RayTaskError

    if isinstance(error, RayTaskError):
        return cast(Exception, error.cause)
    if isinstance(error, RayError):
        return WorkerDied(f"the workers of {computing} died {ATTEMPTS} times: {error}")
    return error

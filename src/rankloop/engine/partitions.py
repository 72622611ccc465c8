"""Partitions that stay with the processes that compute on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rankloop.core.types import Floats
from rankloop.engine.base import WorkerDied
from rankloop.engine.processes import ATTEMPTS, Worker, receive, send, start
from rankloop.engine.sums import Function, Total, added

_kept: list[Any] = []  # filled in worker processes only, each of which serves one sum


def keep(partitions: list[Any]) -> None:
    """In a worker: take these partitions in."""
    _kept[:] = partitions


def answers(question: tuple[Function, Any]) -> list[Floats]:
    """In a worker: the function of each kept partition."""
    function, argument = question
    return [function(partition, argument) for partition in _kept]


@contextmanager
def kept_by_processes(partitions: Sequence[Any], function: Function, workers: int) -> Iterator[Total]:
    """Consecutive partitions with each of `workers` processes; here they are held as well, for a worker that dies."""
    size = -(-len(partitions) // workers)
    keepers = _Keepers([list(partitions[first : first + size]) for first in range(0, len(partitions), size)], function)
    try:
        yield keepers.total
    finally:
        keepers.dismiss()


class _Keepers:
    """The workers of one sum, each with its share of the partitions."""

    def __init__(self, shares: list[list[Any]], function: Function) -> None:
        self.shares, self.function = shares, function
        self.workers = [start() for _ in shares]
        for worker, share in zip(self.workers, shares):
            send(worker, (keep, share))
        self.fresh = [True] * len(shares)  # whether what `keep` answers is still to be read

    def total(self, argument: Any) -> Floats:
        for worker in self.workers:
            send(worker, (answers, (self.function, argument)))
        return added([part for position in range(len(self.workers)) for part in self._answer(position, argument)])

    def dismiss(self) -> None:
        for worker in self.workers:
            _dismiss(worker)

    def _answer(self, position: int, argument: Any) -> list[Floats]:
        for _ in range(ATTEMPTS):
            found = self._received(position)
            if found is not None:
                return found
            _dismiss(self.workers[position])
            self.workers[position], self.fresh[position] = start(), True
            send(self.workers[position], (keep, self.shares[position]))
            send(self.workers[position], (answers, (self.function, argument)))
        raise WorkerDied(
            f"the process with partitions of share {position} died {ATTEMPTS} times; perhaps memory ran out: try fewer "
            "workers, or the engine `here` to see why"
        )

    def _received(self, position: int) -> list[Floats] | None:
        """What the worker answers, the word that it has its partitions left out; None when it died."""
        while True:
            answer = receive(self.workers[position])
            if answer is None:
                return None
            if answer.error is not None:
                raise answer.error
            if not self.fresh[position]:
                found: list[Floats] = answer.result
                return found
            self.fresh[position] = False


def _dismiss(worker: Worker) -> None:
    worker.process.terminate()
    worker.process.join()
    worker.pipe.close()

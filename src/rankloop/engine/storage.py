"""Partitions that lie on a disk: loaded for every answer, the next one while the last is computed with."""

import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from rankloop.core.types import Floats
from rankloop.engine.base import Function, OutOfMemory

GROWTH = 1.125  # of a room, so that partitions of about the same size need one


class Stored(Protocol):
    """A partition that is loaded where it is used; what it loads is what the function of a sum gets."""

    def load(self, room: Callable[[int], Floats]) -> Any: ...


def is_stored(partition: Any) -> bool:
    """Whether it is loaded, rather than here; asked at every pass, so by name only."""
    return hasattr(partition, "load")


class Room:
    """Memory that is used again: clearing fresh pages would take longer than reading into them."""

    def __init__(self) -> None:
        self._memory = np.empty(0)

    def __call__(self, size: int) -> Floats:
        if size > len(self._memory):
            self._memory = np.empty(0)  # let go of the old before the new is taken
            self._memory = np.empty(int(GROWTH * size))
        return self._memory[:size]


def answers_of(partitions: Sequence[Any], function: Function, argument: Any, rooms: Sequence[Room] = ()) -> list[Any]:
    """function(partition, argument) of each; stored ones are loaded one ahead, in a thread."""
    if not any(is_stored(partition) for partition in partitions):
        return [function(partition, argument) for partition in partitions]
    return [answer_of(found, function, argument) for found in _one_ahead(partitions, rooms or (Room(), Room()))]


def answer_of(partition: Any, function: Function, argument: Any, room: Room | None = None) -> Any:
    """function(partition, argument), of a stored one when it is loaded."""
    with_name = partition
    try:
        if is_stored(partition):
            partition = partition.load(room or Room())
        return function(partition, argument)
    except MemoryError:
        raise out_of_memory(with_name) from None


def out_of_memory(partition: Any) -> OutOfMemory:
    name = f" with {partition}" if is_stored(partition) else ""
    return OutOfMemory(f"a worker on {machine()} ran out of memory{name}: give it more, or start fewer workers there")


def machine() -> str:
    """What people call the machine that this process runs on: its address in the cluster, or its name."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        return str(ray.util.get_node_ip_address())
    return f"{socket.gethostname()} (process {os.getpid()})"


def _one_ahead(partitions: Sequence[Any], rooms: Sequence[Room]) -> Iterator[Any]:
    """Each partition, loaded; two rooms take turns."""

    def loaded(number: int) -> Any:
        partition = partitions[number]
        try:
            return partition.load(rooms[number % 2]) if is_stored(partition) else partition
        except MemoryError:
            raise out_of_memory(partition) from None

    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(loaded, 0)
        for number in range(len(partitions)):
            found = ahead.result()
            if number + 1 < len(partitions):
                ahead = pool.submit(loaded, number + 1)
            yield found

"""Partitions that lie on a disk: loaded for every answer, the next one while the last is computed with."""

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from rankloop.core.types import Floats
from rankloop.engine.base import Function, OutOfMemory

GROWTH = 1.125  # of a room, so that partitions of about the same size need one


def is_stored(partition: Any) -> bool:
    """Return true if a partition has `load(room)`, which gives what the function of a sum gets where it is used."""
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


def answers_of(partitions: Sequence[Any], function: Function, argument: Any, rooms: Sequence[Room]) -> list[Any]:
    """function(partition, argument) of each; stored ones are loaded one ahead, in a thread."""
    if not any(is_stored(partition) for partition in partitions):
        return [function(partition, argument) for partition in partitions]
    with ThreadPoolExecutor(1) as pool:
        answers, ahead = [], pool.submit(_loaded, partitions[0], rooms[0])
        for number, partition in enumerate(partitions):
            loaded = ahead.result()
            if number + 1 < len(partitions):
                ahead = pool.submit(_loaded, partitions[number + 1], rooms[(number + 1) % 2])
            with _memory_for(partition):
                answers.append(function(loaded, argument))
    return answers


def answer_of(partition: Any, function: Function, argument: Any, room: Room) -> Any:
    """function(partition, argument), of a stored one when it is loaded."""
    with _memory_for(partition):
        return function(_loaded(partition, room), argument)


def _loaded(partition: Any, room: Room) -> Any:
    with _memory_for(partition):
        return partition.load(room) if is_stored(partition) else partition


@contextmanager
def _memory_for(partition: Any) -> Iterator[None]:
    """Name the machine, and the partition where it has a name, when there is too little memory."""
    try:
        yield
    except MemoryError:
        name = f" with {partition}" if is_stored(partition) else ""
        advice = "give it more, or start fewer workers there"
        raise OutOfMemory(f"a worker on {machine()} ran out of memory{name}: {advice}") from None


def machine() -> str:
    """What people call the machine that this process runs on: its address in the cluster, or its name."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        return str(ray.util.get_node_ip_address())
    return f"{socket.gethostname()} (process {os.getpid()})"

"""Partitions that stay on disk: a worker loads each for its answer, the next one ahead of its turn."""

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rankloop.engine.base import Function, OutOfMemory


def is_stored(partition: Any) -> bool:
    """Return true if a partition has `load()`, which returns the argument of the function of a sum."""
    return hasattr(partition, "load")


def answers_of(partitions: Sequence[Any], function: Function, argument: Any) -> list[Any]:
    """Return function(partition, argument) of each partition.

    Args:
      partitions: In memory or stored; `load` of a stored one only has the system read ahead, so it is called early.
      function: Of a partition and the argument.
      argument: Of all calls.

    Returns:
      The answers, in order.

    Raises:
      OutOfMemory: If a partition does not fit into memory.
    """
    answers, loaded = [], _loaded(partitions[0])
    for number, partition in enumerate(partitions):
        following = _loaded(partitions[number + 1]) if number + 1 < len(partitions) else None
        with _memory_for(partition):
            answers.append(function(loaded, argument))
        loaded = following
    return answers


def _loaded(partition: Any) -> Any:
    with _memory_for(partition):
        return partition.load() if is_stored(partition) else partition


@contextmanager
def _memory_for(partition: Any) -> Iterator[None]:
    """Name the machine, and a stored partition, if memory runs out."""
    try:
        yield
    except MemoryError:
        name = f" with {partition}" if is_stored(partition) else ""
        advice = "give it more, or start fewer workers there"
        raise OutOfMemory(f"a worker on {machine()} ran out of memory{name}: {advice}") from None


def machine() -> str:
    """Return the name of this machine: its address in the cluster, or its host name."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        return str(ray.util.get_node_ip_address())
    return f"{socket.gethostname()} (process {os.getpid()})"

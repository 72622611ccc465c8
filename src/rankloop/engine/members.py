"""The machines of a Ray cluster: those that are up, their versions, and the head."""

import atexit
import os
import platform
import socket
import subprocess
from typing import Any

import numba
import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.files import source_key
from rankloop.engine.base import HeadDied

HEAD_CHECK_SECONDS = 2.0  # without an answer, after which the head is checked
HEAD_ATTEMPTS, HEAD_TIMEOUT_SECONDS = 3, 5.0
_CHECKED_NODES: set[str] = set()  # nodes with the versions of this process


def check_versions(ray: Any) -> None:
    """Raise if a machine has another version of the package or of its arithmetic; each is checked once."""
    new = [node for node in worker_nodes(ray) if node["NodeID"] not in _CHECKED_NODES]
    ours = versions()
    affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    remote_versions, options = ray.remote(versions), {"num_cpus": 0, "max_retries": 0}
    strategies = [affinity(node["NodeID"], soft=False) for node in new]
    answers = [remote_versions.options(scheduling_strategy=strategy, **options).remote() for strategy in strategies]
    for node, answer in zip(new, answers):
        try:
            theirs = ray.get(ready(ray, [answer])[0])
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


def versions() -> dict[str, str]:
    """Return the versions on which numbers may depend."""
    ours = {"rankloop's source": source_key(), "Python": platform.python_version()}
    return ours | {"numpy": np.__version__, "numba": numba.__version__}


def watch_over(address: str) -> None:
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


def worker_nodes(ray: Any) -> list[dict[str, Any]]:
    """Return the machines that are up and have cores."""
    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0.0) > 0.0]


def ready(ray: Any, references: list[Any]) -> list[Any]:
    """Wait until some references have an answer.

    Args:
      ray: The module.
      references: Of answers that are outstanding.

    Returns:
      Those that have an answer.

    Raises:
      HeadDied: If the head of the cluster does not answer.
    """
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

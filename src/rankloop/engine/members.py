"""The machines of a Ray cluster: which are up, whether they are alike, and whether the head is still there."""

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

PATIENCE = 2.0  # seconds, before the head is asked whether it is still there
HEAD_ATTEMPTS, HEAD_TIMEOUT = 3, 5.0
_ALIKE: set[str] = set()  # nodes with the versions of this process


def check_versions(ray: Any) -> None:
    """Every machine that computes has the same package and arithmetic as this one; each is asked once."""
    new = [node for node in worker_nodes(ray) if node["NodeID"] not in _ALIKE]
    ours = versions()
    affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    asked, options = ray.remote(versions), {"num_cpus": 0, "max_retries": 0}
    strategies = [affinity(node["NodeID"], soft=False) for node in new]
    answers = [asked.options(scheduling_strategy=strategy, **options).remote() for strategy in strategies]
    for node, answer in zip(new, answers):
        try:
            theirs = ray.get(ready(ray, [answer])[0])
        except ray.exceptions.RayTaskError as error:
            raise InvalidInput(
                f"the machine {node['NodeManagerAddress']} cannot run this version of rankloop ({error.cause}): "
                "install the same on every machine"
            ) from None
        except ray.exceptions.RayError:
            continue  # it went down meanwhile: its work goes to others
        others = [name for name, value in ours.items() if theirs.get(name) != value]
        if others:
            found = "; ".join(f"{name} {theirs.get(name)}, here {ours[name]}" for name in others)
            raise InvalidInput(
                f"the machine {node['NodeManagerAddress']} has other versions, so that numbers might differ: {found}. "
                "Install the same on every machine"
            )
        _ALIKE.add(node["NodeID"])


def versions() -> dict[str, str]:
    """What numbers may depend on, but for the kind of processor."""
    ours = {"rankloop's source": source_key(), "Python": platform.python_version()}
    return ours | {"numpy": np.__version__, "numba": numba.__version__}


def watch_over(address: str) -> None:
    """Ray ends its driver on the spot when the node under it goes down: then a shell that waits for us says so."""
    if os.name != "posix":
        return
    said = (
        f"rankloop: the head of the cluster at {address} is gone, or this machine's node of it, and Ray ended the "
        "command: nothing was saved; start the cluster again, and then the command"
    )
    watcher = subprocess.Popen(
        ["sh", "-c", 'read word || echo "$0" >&2', said], stdin=subprocess.PIPE, start_new_session=True
    )
    atexit.register(watcher.communicate, b"farewell\n")


def worker_nodes(ray: Any) -> list[dict[str, Any]]:
    """The machines that are up and have cores to compute with."""
    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0.0) > 0.0]


def ready(ray: Any, references: list[Any]) -> list[Any]:
    """Those that have an answer, as soon as one has; an error when the head of the cluster is gone."""
    while True:
        answered: list[Any] = ray.wait(references, timeout=PATIENCE)[0]
        if answered:
            return answered
        _check_head(ray)


def _check_head(ray: Any) -> None:
    address = str(ray.get_runtime_context().gcs_address)
    host, _, port = address.rpartition(":")
    for attempt in range(HEAD_ATTEMPTS):
        try:
            socket.create_connection((host, int(port)), HEAD_TIMEOUT).close()
        except OSError as error:
            if attempt == HEAD_ATTEMPTS - 1:
                raise HeadDied(
                    f"the head of the cluster at {address} does not answer any more ({error}): nothing was saved; "
                    "start it again, and then the command"
                ) from None
        else:
            return

"""Engines that compute many runs and sums: in this process, in several of this machine, or on a cluster.

The process pool is not that of joblib, nor `concurrent.futures`: workers keep their partitions from one call to the
next, and one that dies is replaced and its task named, where these give up the pool.
"""

from rankloop.engine.base import (
    Engine,
    HeadDied,
    Here,
    OutOfMemory,
    SummingEngine,
    Threads,
    WorkerDied,
    kept,
    usable_cores,
)
from rankloop.engine.cluster import Cluster
from rankloop.engine.processes import LocalProcesses

__all__ = ["Cluster", "Engine", "HeadDied", "Here", "LocalProcesses", "OutOfMemory", "SummingEngine", "Threads"]
__all__ += ["WorkerDied", "kept", "usable_cores"]

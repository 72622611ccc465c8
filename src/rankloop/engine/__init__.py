"""Where many runs and sums are computed: in this process, in several of this machine, or on a cluster."""

from rankloop.engine.base import Engine, WorkerDied
from rankloop.engine.cluster import Cluster
from rankloop.engine.local import LocalProcesses
from rankloop.engine.processes import usable_cores
from rankloop.engine.serial import Here
from rankloop.engine.sums import SummingEngine
from rankloop.engine.threads import Threads

__all__ = ["Cluster", "Engine", "Here", "LocalProcesses", "SummingEngine", "Threads", "WorkerDied", "usable_cores"]

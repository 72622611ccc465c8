"""Where many runs are computed: in this process, or in several of this machine."""

from rankloop.engine.base import Engine, WorkerDied
from rankloop.engine.here import Here
from rankloop.engine.local import LocalProcesses, usable_cores

__all__ = ["Engine", "Here", "LocalProcesses", "WorkerDied", "usable_cores"]

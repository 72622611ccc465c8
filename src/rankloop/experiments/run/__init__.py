"""Playing an experiment: from tasks to finished runs in a folder."""

from rankloop.aliases import moved_from

__getattr__ = moved_from(__name__, "worker")

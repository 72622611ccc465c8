"""The core: types, protocols, the session and its file, the adapter, the registry, kernels, what learners share."""

from rankloop.aliases import moved_from

__getattr__ = moved_from(__name__)

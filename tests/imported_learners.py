"""Learners that a test writes into files and imports: what that changes in this process is undone."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rankloop.core.registry import entries
from tests.registry_entries import unregister


@contextmanager
def forgotten_afterwards(folder: Path) -> Iterator[Path]:
    """Modules of this folder, and what they register, are gone afterwards."""
    path, modules = list(sys.path), set(sys.modules)
    kinds = {entry.kind for entry in entries("learner")}
    yield folder
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    for entry in entries("learner"):
        if entry.kind not in kinds:
            unregister(entry.kind, "learner")

"""The source of this package as one number: compiled kernels and kept results belong to the code that made them."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


@cache
def source_key() -> str:
    """Changes with any line of the package; `make` computes the same from its files in order."""
    total = hashlib.sha1(usedforsecurity=False)
    for path in sorted(PACKAGE.rglob("*.py"), key=lambda path: path.relative_to(PACKAGE).as_posix()):
        total.update(path.read_bytes())
    return total.hexdigest()[:12]


def cache_folder() -> Path:
    """$RANKLOOP_CACHE, else `rankloop` in $XDG_CACHE_HOME or ~/.cache."""
    chosen = os.environ.get("RANKLOOP_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rankloop"


def kernel_folder() -> Path:
    """Where compiled kernels are kept: beside a checkout, where `make` keeps them too, else in the cache folder.

    numba looks at the file of a kernel only; a kernel that calls one in another file would go stale without the key.
    """
    checkout = PACKAGE.parents[1]
    home = checkout / ".cache" if (checkout / "pyproject.toml").exists() else cache_folder()
    return home / f"numba-{source_key()}"

"""Packages that only some data sets need."""

from __future__ import annotations

import importlib
from typing import Any

from rankloop.core.errors import RankloopError


class MissingPackage(RankloopError, ImportError):
    """A package of the extra `data` is not installed."""


def need(package: str, purpose: str) -> Any:
    """Import a package of the extra `data`, or say plainly how to get it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise MissingPackage(
            f"{purpose} needs the package {package.split('.')[0]!r}: pip install 'rankloop[data]'"
        ) from None

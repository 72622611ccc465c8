"""Learning to rank while the ranking is used, from clicks, grades and other weak feedback."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

# The modules of the public names, which type checkers read in the same file. They are imported when first used: numba
# alone takes longer to import than the rest of a short command.
_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOMES = {name: module for module, name in re.findall(r"from (\S+) import (\w+) as", _STUB)}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("rankloop")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    try:
        return import_module(f"rankloop.{name}")
    except ModuleNotFoundError:
        raise AttributeError(f"module 'rankloop' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted(__all__)

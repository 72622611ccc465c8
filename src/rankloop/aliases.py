"""Names of 0.1 that go on working beside the ones that took their place: modules that moved, keywords that changed."""

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
MOVED = Path(__file__).with_suffix(".txt")


class MovedModule(ModuleType):
    """A module under its name in 0.1; the one that took its place is imported when something of it is asked for."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(f"rankloop.{old}", f"Moved to `rankloop.{new}`.")
        self._new = f"rankloop.{new}"
        self.__path__: list[str] = []  # what moved out of a package is in the table too

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # tools that look at every module need not import this one
            raise AttributeError(name)
        return getattr(import_module(self._new), name)


def moved_modules() -> dict[str, str]:
    """The modules of 0.1, and where they stand now."""
    _, *lines = MOVED.read_text(encoding="utf-8").splitlines()
    return dict(line.split(maxsplit=1) for line in lines)


def keep_moved_modules() -> None:
    """Let `import` find the modules of 0.1; nothing is loaded before it is used."""
    for old, new in moved_modules().items():
        sys.modules.setdefault(f"rankloop.{old}", MovedModule(old, new))


def renamed(**old: str) -> Callable[[F], F]:
    """Let a function be called with the keywords that it had before: `@renamed(places="positions")`."""

    def with_old(function: F) -> F:
        @wraps(function)
        def called(*given: Any, **named: Any) -> Any:
            return function(*given, **{old.get(name, name): value for name, value in named.items()})

        return cast("F", called)

    return with_old

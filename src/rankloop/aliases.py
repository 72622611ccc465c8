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
        if name.startswith("__") and name != "__all__":  # tools that look at every module need not import this one
            raise AttributeError(name)
        found = sys.modules.get(f"{self.__name__}.{name}")
        return found if found is not None else getattr(import_module(self._new), name)

    def __dir__(self) -> list[str]:
        return dir(import_module(self._new))


def moved_modules() -> dict[str, str]:
    """The modules of 0.1, and where they stand now."""
    _, *lines = MOVED.read_text(encoding="utf-8").splitlines()
    return dict(line.split(maxsplit=1) for line in lines)


def keep_moved_modules() -> None:
    """Let `import` find the modules of 0.1, without a finder that every other import would have to ask."""
    for old, new in moved_modules().items():
        sys.modules.setdefault(f"rankloop.{old}", MovedModule(old, new))


def moved_from(package: str, module: str = "") -> Callable[[str], Any]:
    """The `__getattr__` of a package that modules moved out of, or that was a module: then `module` has its names."""

    def attribute(name: str) -> Any:
        found = sys.modules.get(f"{package}.{name}")
        if found is None and module and not name.startswith("_"):
            found = getattr(import_module(f"{package}.{module}"), name, None)
        if found is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return found

    return attribute


def renamed(**old: str) -> Callable[[F], F]:
    """Let a function be called with the keywords that it had before: `@renamed(places="positions")`."""

    def with_old(function: F) -> F:
        @wraps(function)
        def called(*given: Any, **named: Any) -> Any:
            return function(*given, **{old.get(name, name): value for name, value in named.items()})

        return cast("F", called)

    return with_old

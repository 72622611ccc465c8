"""Names of 0.1 that go on working beside the ones that took their place: modules that moved, keywords that changed."""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
MOVED = Path(__file__).with_suffix(".txt")


class MovedModule(ModuleType):
    """A module under its name in 0.1; the one that took its place is imported when something of it is asked for."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(old, f"Moved to `{new}`.")
        self._new = new

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":  # tools that look at every module need not import this one
            raise AttributeError(name)
        return getattr(import_module(self._new), name)

    def __dir__(self) -> list[str]:
        return dir(import_module(self._new))


class MovedModules:
    """Finds the modules of 0.1, after everything else has been asked; nothing is loaded before it is used."""

    def __init__(self, moved: dict[str, str]) -> None:
        self.moved = {f"rankloop.{old}": f"rankloop.{new}" for old, new in moved.items()}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        # what moved out of a package is in the table too: each may be one
        return ModuleSpec(name, self, is_package=True) if name in self.moved else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return MovedModule(spec.name, self.moved[spec.name])

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def moved_modules() -> dict[str, str]:
    """The modules of 0.1, and where they stand now."""
    _, *lines = MOVED.read_text(encoding="utf-8").splitlines()
    return dict(line.split(maxsplit=1) for line in lines)


def keep_moved_modules() -> None:
    """Let `import` find the modules of 0.1."""
    sys.meta_path.append(MovedModules(moved_modules()))


def renamed(**old: str) -> Callable[[F], F]:
    """Let a function be called with the keywords that it had before: `@renamed(places="positions")`."""

    def with_old(function: F) -> F:
        @wraps(function)
        def called(*given: Any, **named: Any) -> Any:
            return function(*given, **{old.get(name, name): value for name, value in named.items()})

        return cast("F", called)

    return with_old

"""What a contract is: a check with a name, the promise that it holds a learner to, and how to mend what breaks it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Broken(AssertionError):
    """What a learner did instead of what it promises."""


def require(kept: bool, fault: str) -> None:
    """Say what is broken; `assert` would be silent under `python -O`."""
    if not kept:
        raise Broken(fault)


@dataclass(frozen=True)
class Contract:
    """Called with what it is tried on, it raises where the contract is broken."""

    check: Callable[[Any], None]
    mend: str

    @property
    def name(self) -> str:
        return self.check.__name__.removeprefix("check_")

    @property
    def promise(self) -> str:
        """The first line of its docstring."""
        return (self.check.__doc__ or "").strip().split("\n")[0]

    def __call__(self, subject: Any) -> None:
        self.check(subject)


def contract(mend: str) -> Callable[[Callable[[Any], None]], Contract]:
    """Make a function `check_something` the contract `something`."""
    return lambda check: Contract(check, mend)


def contracts_of(module: Any) -> tuple[Contract, ...]:
    """The contracts that a module declares, by name."""
    found = [value for value in vars(module).values() if isinstance(value, Contract)]
    return tuple(sorted((one for one in found if one.check.__module__ == module.__name__), key=lambda one: one.name))

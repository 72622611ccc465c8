"""A contract: a named check, the promise that it tests, and how to fix a learner that fails it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class ContractViolation(AssertionError):
    """An error that says what a learner did instead of what its contract promises."""


def require(condition: bool, message: str) -> None:
    """Raise `ContractViolation` unless the condition holds; `assert` would be silent under `python -O`.

    Args:
      condition: The condition that the contract demands.
      message: What the learner did instead.

    Raises:
      ContractViolation: If the condition does not hold.
    """
    if not condition:
        raise ContractViolation(message)


@dataclass(frozen=True)
class Contract:
    """A check of one promise, which raises where its subject does not keep it.

    Attributes:
      check: The function `check_NAME`; its docstring begins with the promise.
      fix: What the author of a failing learner can do.
    """

    check: Callable[[Any], None]
    fix: str

    @property
    def name(self) -> str:
        """The name of the check without `check_`."""
        return self.check.__name__.removeprefix("check_")

    @property
    def promise(self) -> str:
        """The first line of the check's docstring."""
        return (self.check.__doc__ or "").strip().split("\n")[0]

    def __call__(self, subject: Any) -> None:
        """Check a subject; raise `ContractViolation` if it fails."""
        self.check(subject)


def contract(fix: str) -> Callable[[Callable[[Any], None]], Contract]:
    """Return a decorator that makes a function `check_something` the contract `something`."""
    return lambda check: Contract(check, fix)


def contracts_of(module: Any) -> tuple[Contract, ...]:
    """Return the contracts that a module declares, by name."""
    declared = [value for value in vars(module).values() if isinstance(value, Contract)]
    declared = [entry for entry in declared if entry.check.__module__ == module.__name__]
    return tuple(sorted(declared, key=lambda entry: entry.name))

"""Names of 0.1 that go on working beside the ones that took their place."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def renamed(**old: str) -> Callable[[F], F]:
    """Let a function be called with the keywords that it had before: `@renamed(places="positions")`."""

    def with_old(function: F) -> F:
        @wraps(function)
        def called(*given: Any, **named: Any) -> Any:
            return function(*given, **{old.get(name, name): value for name, value in named.items()})

        return cast("F", called)

    return with_old

"""Numbers that a bound cannot mean anything for, refused by the name of the argument."""

import inspect
import math
from collections.abc import Callable
from functools import wraps
from numbers import Real
from typing import Any, NamedTuple, ParamSpec, TypeVar

from rankloop.core.errors import InvalidInput

P = ParamSpec("P")
T = TypeVar("T")


class Range(NamedTuple):
    """In words, and as a test."""

    words: str
    holds: Callable[[Any], bool]


COUNT_RANGE = Range("a finite number from 1", lambda value: 1 <= value < math.inf)
SIZE_RANGE = Range("a finite number above 0", lambda value: 0 < value < math.inf)
FROM_ZERO = Range("a finite number from 0", lambda value: 0 <= value < math.inf)
RANGE_BY_NAME = {
    **dict.fromkeys(("n_queries", "n_items", "n_features"), COUNT_RANGE),
    **dict.fromkeys(("lipschitz", "smoothness", "smoothing", "radius", "longest", "largest", "size"), SIZE_RANGE),
    **dict.fromkeys(("euclidean", "best", "training", "level"), FROM_ZERO),
    "max_grade": Range("a grade from 0 to 1000", lambda value: 0 <= value <= 1000),
    "delta": Range("a probability above 0 and below 1", lambda value: 0 < value < 1),
}


def checked(bound: Callable[P, T]) -> Callable[P, T]:
    """Return the function with a check of the range of each argument, by the argument's name."""
    signature = inspect.signature(bound)

    @wraps(bound)
    def of_checked(*positional: P.args, **named: P.kwargs) -> T:
        for name, value in signature.bind(*positional, **named).arguments.items():
            allowed = RANGE_BY_NAME.get(name)
            if allowed is not None and not (isinstance(value, Real) and allowed.holds(value)):
                raise InvalidInput(f"{name} = {value!r} must be {allowed.words}")
        return bound(*positional, **named)

    return of_checked

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


COUNT = Range("a finite number from 1", lambda value: 1 <= value < math.inf)
SIZE = Range("a finite number above 0", lambda value: 0 < value < math.inf)
FROM_ZERO = Range("a finite number from 0", lambda value: 0 <= value < math.inf)
RANGES = {
    **dict.fromkeys(("n_queries", "n_items", "n_features"), COUNT),
    **dict.fromkeys(("lipschitz", "smoothness", "smoothing", "radius", "longest", "largest"), SIZE),
    **dict.fromkeys(("euclidean", "best", "training", "level"), FROM_ZERO),
    "max_grade": Range("a grade from 0 to 1000", lambda value: 0 <= value <= 1000),
    "delta": Range("a probability above 0 and below 1", lambda value: 0 < value < 1),
}


def checked(bound: Callable[P, T]) -> Callable[P, T]:
    """The same function, which refuses arguments outside their range; ranges go by name."""
    signature = inspect.signature(bound)

    @wraps(bound)
    def of_checked(*given: P.args, **named: P.kwargs) -> T:
        for name, value in signature.bind(*given, **named).arguments.items():
            known = RANGES.get(name)
            if known is not None and not (isinstance(value, Real) and known.holds(value)):
                raise InvalidInput(f"{name} = {value!r} must be {known.words}")
        return bound(*given, **named)

    return of_checked

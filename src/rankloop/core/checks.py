"""Checks of parameters by name, and types of parameters that `register` checks; errors name the parameter."""

import math
import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated

from rankloop.core.errors import InvalidInput


def check_finite(**values: float | Sequence[float]) -> None:
    """Raise unless all numbers, or lists of numbers, are finite."""
    for name, numbers in values.items():
        for position, value in enumerate(numbers if isinstance(numbers, Sequence) else [numbers]):
            if not math.isfinite(value):
                raise InvalidInput(f"{name}[{position}] = {value}: every number must be finite")


def check_positive(**numbers: float) -> None:
    """Raise unless all numbers are finite and above 0."""
    for name, value in numbers.items():
        if value is None or isinstance(value, str | list | tuple) or not 0 < value <= sys.float_info.max:
            raise InvalidInput(f"{name} = {value!r:.60} must be a finite number above 0")


def check_not_negative(**numbers: float) -> None:
    """Raise unless all numbers are finite and at least 0."""
    for name, value in numbers.items():
        if not 0.0 <= value < math.inf:
            raise InvalidInput(f"{name} = {value} must be a finite number of at least 0")


def check_probability(**numbers: float) -> None:
    """Raise unless all numbers are probabilities."""
    for name, value in numbers.items():
        if not 0.0 <= value <= 1.0:
            raise InvalidInput(f"{name} = {value} is not a probability from 0 to 1")


def check_at_least(least: int, **numbers: int | None) -> None:
    """Raise for numbers below `least`; None is allowed."""
    for name, number in numbers.items():
        if number is not None and number < least:
            raise InvalidInput(f"{name} = {number} must be at least {least}")


def check_between(low: float, high: float, **numbers: float) -> None:
    """Raise for numbers outside of a closed range.

    Args:
      low: The smallest number that is allowed.
      high: The largest.
      **numbers: The parameters by name.
    """
    for name, number in numbers.items():
        if not low <= number <= high:
            raise InvalidInput(f"{name} = {number} must be from {low} to {high}")


Positive = Annotated[float, check_positive]
NotNegative = Annotated[float, check_not_negative]
Probability = Annotated[float, check_probability]
Count = Annotated[int, partial(check_at_least, 0)]
PositiveCount = Annotated[int, partial(check_at_least, 1)]
FiniteNumbers = Annotated[tuple[float, ...], check_finite]

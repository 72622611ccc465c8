"""Checks of parameters; each raises an `InvalidInput` that names the parameter."""

import math
import sys

from rankloop.core.errors import InvalidInput


def check_finite(name: str, values: tuple[float, ...]) -> None:
    """Raise unless all numbers are finite.

    Args:
      name: The name of the parameter.
      values: Its numbers.

    Raises:
      InvalidInput: Otherwise.
    """
    for position, value in enumerate(values):
        if not math.isfinite(value):
            raise InvalidInput(f"{name}[{position}] = {value}: every number must be finite")


def check_positive(name: str, value: float) -> None:
    """Raise unless a value is a finite number above 0.

    Args:
      name: The name of the parameter.
      value: Its value.

    Raises:
      InvalidInput: Otherwise.
    """
    if value is None or isinstance(value, str | list | tuple) or not 0 < value <= sys.float_info.max:
        raise InvalidInput(f"{name} = {value!r:.60} must be a finite number above 0")


def check_not_negative(name: str, value: float) -> None:
    """Raise unless a value is a finite number of at least 0.

    Args:
      name: The name of the parameter.
      value: Its value.

    Raises:
      InvalidInput: Otherwise.
    """
    if not 0.0 <= value < math.inf:
        raise InvalidInput(f"{name} = {value} must be a finite number of at least 0")


def check_probability(name: str, value: float) -> None:
    """Raise unless a value is a probability.

    Args:
      name: The name of the parameter.
      value: Its value.

    Raises:
      InvalidInput: Otherwise.
    """
    if not 0.0 <= value <= 1.0:
        raise InvalidInput(f"{name} = {value} is not a probability from 0 to 1")


def check_at_least(least: int, **numbers: int | None) -> None:
    """Raise `InvalidInput` for numbers below `least`; None is allowed."""
    for name, number in numbers.items():
        if number is not None and number < least:
            raise InvalidInput(f"{name} = {number} must be at least {least}")


def check_between(low: float, high: float, **numbers: float) -> None:
    """Raise for numbers outside of a closed range.

    Args:
      low: The smallest number that is allowed.
      high: The largest.
      **numbers: The parameters by name.

    Raises:
      InvalidInput: If one is outside.
    """
    for name, number in numbers.items():
        if not low <= number <= high:
            raise InvalidInput(f"{name} = {number} must be from {low} to {high}")

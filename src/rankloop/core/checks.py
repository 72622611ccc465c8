"""Checks of parameters: each refuses what makes no sense with an `InvalidInput` that names it."""

import math
import sys

from rankloop.core.errors import InvalidInput


def check_finite(name: str, values: tuple[float, ...]) -> None:
    """Refuse numbers with a NaN or an infinity among them."""
    for position, value in enumerate(values):
        if not math.isfinite(value):
            raise InvalidInput(f"{name}[{position}] = {value}: every number must be finite")


def check_positive(name: str, value: float) -> None:
    """Refuse what is not a finite number above zero."""
    if value is None or isinstance(value, str | list | tuple) or not 0 < value <= sys.float_info.max:
        raise InvalidInput(f"{name} = {value!r:.60} must be a finite number above 0")


def check_not_negative(name: str, value: float) -> None:
    """Refuse what is not a finite number from zero."""
    if not 0.0 <= value < math.inf:
        raise InvalidInput(f"{name} = {value} must be a finite number from 0")


def check_probability(name: str, value: float) -> None:
    """Refuse what is not a probability."""
    if not 0.0 <= value <= 1.0:
        raise InvalidInput(f"{name} = {value} is not a probability from 0 to 1")


def check_at_least(least: int, **numbers: int | None) -> None:
    """Refuse numbers below `least`; None is no limit."""
    for name, number in numbers.items():
        if number is not None and number < least:
            raise InvalidInput(f"{name} = {number} must be at least {least}")


def check_between(low: float, high: float, **numbers: float) -> None:
    """Refuse numbers outside of a range, both ends of which are possible."""
    for name, number in numbers.items():
        if not low <= number <= high:
            raise InvalidInput(f"{name} = {number} must be from {low} to {high}")

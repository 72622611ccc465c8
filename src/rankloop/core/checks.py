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


def check_horizon(horizon: int | None) -> None:
    """Refuse a number of rounds below 1; None is an open end."""
    if horizon is not None and horizon < 1:
        raise InvalidInput(f"horizon = {horizon} must be a number of rounds from 1")


def check_rounds(name: str, value: int) -> None:
    """Refuse a number of rounds below 0."""
    if value < 0:
        raise InvalidInput(f"{name} = {value} must be a number of rounds from 0")


def check_positions(name: str, value: int | None) -> None:
    """Refuse a number of positions or clicks below 1; None is all of them."""
    if value is not None and value < 1:
        raise InvalidInput(f"{name} = {value}: there must be at least 1")


def check_at_least(least: int, **numbers: int) -> None:
    """Refuse numbers below `least`."""
    for name, number in numbers.items():
        if number < least:
            raise InvalidInput(f"{name} must be at least {least}, got {number}")


def check_deviation(**deviations: float) -> None:
    """Refuse what cannot be a standard deviation."""
    for name, deviation in deviations.items():
        if not 0.0 <= deviation < math.inf:
            raise InvalidInput(f"{name} is a standard deviation, finite and at least 0, got {deviation}")

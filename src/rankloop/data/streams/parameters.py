"""Checks of the parameters of streams."""

from __future__ import annotations

import math

from rankloop.core.errors import InvalidInput


def check_at_least(least: int, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < least:
            raise InvalidInput(f"{name} must be at least {least}, got {number}")


def check_deviation(**deviations: float) -> None:
    for name, deviation in deviations.items():
        if not 0.0 <= deviation < math.inf:
            raise InvalidInput(f"{name} is a standard deviation, finite and at least 0, got {deviation}")

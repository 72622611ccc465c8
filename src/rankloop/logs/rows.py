"""A piece of a log as arrays, checked row by row at the border."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, real_numbers


class Rows(NamedTuple):
    """One entry per logged decision."""

    reward: Floats
    propensity: Floats  # the probability with which the logging policy showed it
    target: Floats  # the probability with which the target policy would
    predicted: Floats | None = None  # a reward model's value of what was shown
    expected: Floats | None = None  # the model's value of the target policy: Σ_a target(a) · predicted(a)


def rows_of(
    reward: ArrayLike,
    propensity: ArrayLike,
    target: ArrayLike,
    predicted: ArrayLike | None = None,
    expected: ArrayLike | None = None,
    *,
    first_row: int = 0,
    where: str = "",
    ndim: int = 1,
) -> Rows:
    """Check and copy; a fault names its row, counted from `first_row`, and `where` it is (a file).

    With `ndim` = 2 every entry is a row of numbers, one per place of a ranking.
    """
    position = f"{where}, " if where else ""
    rewards = _floats(reward, "reward", position, ndim)
    columns = {"propensity": propensity, "target": target, "predicted": predicted, "expected": expected}
    arrays = {name: None if given is None else _floats(given, name, position, ndim) for name, given in columns.items()}
    for name, values in arrays.items():
        if values is not None and values.shape != rewards.shape:
            raise InvalidInput(f"{position}{name} has shape {values.shape}, reward has {rewards.shape}")
    logged, wanted = arrays["propensity"], arrays["target"]
    if logged is None or wanted is None:
        raise InvalidInput(f"{position}propensity and target are needed, one for each reward")
    _refuse(~np.isfinite(logged), logged, f"{position}row {{}}: the propensity is missing", first_row)
    _refuse(
        (logged <= 0) | (logged > 1), logged, f"{position}row {{}}: the propensity is {{}}; {ABOVE_ZERO}", first_row
    )
    _refuse(
        ~((wanted >= 0) & (wanted <= 1 + 1e-9)),
        wanted,
        f"{position}row {{}}: the target is {{}}; {FROM_ZERO}",
        first_row,
    )
    for name, values in (("reward", rewards), *((n, arrays[n]) for n in ("predicted", "expected"))):
        if values is not None:
            _refuse(
                ~np.isfinite(values), values, f"{position}row {{}}: the {name} is {{}}; it must be finite", first_row
            )
    return Rows(rewards, logged, wanted, arrays["predicted"], arrays["expected"])


ABOVE_ZERO = "what was shown had a probability above 0 and at most 1"
FROM_ZERO = "it must be a probability from 0 to 1"


def _floats(values: ArrayLike, name: str, position: str, ndim: int) -> Floats:
    array = real_numbers(values, f"{position}{name}")
    if array.ndim != ndim:
        raise InvalidInput(f"{position}{name} must have {ndim} dimension(s), got shape {array.shape}")
    return array


def _refuse(bad: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], values: Floats, message: str, first_row: int) -> None:
    if bad.any():
        index = tuple(np.argwhere(bad)[0].tolist())
        raise InvalidInput(message.format(index[0] + first_row, values[index]))

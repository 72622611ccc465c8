"""A piece of a log as arrays, checked row by row at the border."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, real_numbers

ABOVE_ZERO = "what was shown had a probability above 0 and at most 1"
Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


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

    With `ndim` = 2 every entry is a row of numbers, one per position of a ranking.
    """
    prefix = f"{where}, " if where else ""
    columns = {
        name: _floats(given, f"{prefix}{name}", ndim)
        for name, given in zip(Rows._fields, (reward, propensity, target, predicted, expected))
        if given is not None
    }
    if not {"reward", "propensity", "target"} <= columns.keys():
        raise InvalidInput(f"{prefix}propensity and target are needed, one for each reward")
    shape, logged, wanted = columns["reward"].shape, columns["propensity"], columns["target"]
    for name, values in columns.items():
        if values.shape != shape:
            raise InvalidInput(f"{prefix}{name} has shape {values.shape}, reward has {shape}")

    def refuse(bad: Mask, values: Floats, fault: str) -> None:
        if bad.any():
            index = tuple(np.argwhere(bad)[0].tolist())
            raise InvalidInput(f"{prefix}row {index[0] + first_row}: the {fault.format(values[index])}")

    refuse(~np.isfinite(logged), logged, "propensity is missing")
    refuse((logged <= 0) | (logged > 1), logged, f"propensity is {{}}; {ABOVE_ZERO}")
    refuse(~((wanted >= 0) & (wanted <= 1 + 1e-9)), wanted, "target is {}; it must be a probability from 0 to 1")
    for name in ("reward", *list(columns)[3:]):
        refuse(~np.isfinite(columns[name]), columns[name], f"{name} is {{}}; it must be finite")
    return Rows(**columns)


def _floats(values: ArrayLike, name: str, ndim: int) -> Floats:
    array = real_numbers(values, name)
    if array.ndim != ndim:
        raise InvalidInput(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    return array

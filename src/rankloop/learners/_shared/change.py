"""Whether people have changed: the test of Page and Hinkley, on where they click first."""

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints

MEAN, ABOVE, BELOW, COUNT, N_NUMBERS = range(5)  # the entries of a watch
SLACK = 0.1  # departures from the mean of less than this do not add up


@kernel
def first_click(ranking: Ints, seen: int, clicked: Floats) -> float:
    """1 / (1 + the position of the first click); 0 of no click."""
    for position in range(seen):
        if clicked[ranking[position]] > 0.0:
            return 1.0 / (1.0 + position)
    return 0.0


@kernel
def watched(watch: Floats, value: float) -> Floats:
    """The watch after one more value: the mean of all, and how far they have lately run above it, and below it.

    mean ← mean + (value − mean) / count, above ← max(0, above + value − mean − SLACK), below likewise.
    """
    after = watch.copy()
    after[COUNT] += 1.0
    after[MEAN] += (value - after[MEAN]) / after[COUNT]
    after[ABOVE] = max(0.0, after[ABOVE] + value - after[MEAN] - SLACK)
    after[BELOW] = max(0.0, after[BELOW] + after[MEAN] - value - SLACK)
    return after


@kernel
def has_changed(watch: Floats, alarm: float) -> bool:
    """Whether the values have run away from their mean by more than `alarm` (0: nothing is ever an alarm)."""
    return bool(alarm > 0.0 and max(watch[ABOVE], watch[BELOW]) > alarm)


def is_watch(watch: Floats) -> bool:
    """Whether values from 0 to 1 can lead to these numbers."""
    return bool(np.all(watch >= 0.0) and watch[MEAN] <= 1.0)

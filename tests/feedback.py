"""Feedback from plain lists."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.types import Clicks, Relevances


def relevances(items: ArrayLike, grades: ArrayLike) -> Relevances:
    """Return `Relevances` of item numbers with one grade each."""
    return Relevances(np.array(items, dtype=np.int64), np.array(grades, dtype=np.float64))


def clicks(items: Sequence[int] | ArrayLike, weights: ArrayLike | None = None) -> Clicks:
    """Return `Clicks` on item numbers, each of weight 1 unless weights are given."""
    indices = np.array(items, dtype=np.int64)
    return Clicks(indices, np.ones(len(indices)) if weights is None else np.array(weights, dtype=np.float64))

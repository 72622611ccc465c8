"""Compiled arithmetic: one decorator that sets numba's flags once, and the one place where scores come from."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from rankloop.core.errors import UnstableUpdate
from rankloop.core.files import kernel_folder
from rankloop.core.types import Floats

F = TypeVar("F", bound=Callable[..., Any])
settings: Any = numba.config
if not settings.CACHE_DIR:
    settings.CACHE_DIR = str(kernel_folder())


def kernel(function: F, *, fastmath: bool | set[str] = False) -> F:
    """Compile to machine code, without the interpreter lock, and keep the result on disk."""
    try:
        return numba.njit(function, cache=True, nogil=True, fastmath=fastmath)  # type: ignore[no-any-return]
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        warnings.warn(
            "compiled kernels cannot be kept: neither the package nor the home folder is writable, so every start "
            "compiles anew; set NUMBA_CACHE_DIR to a writable folder",
            RuntimeWarning,
            stacklevel=2,
        )
        return numba.njit(function, nogil=True, fastmath=fastmath)  # type: ignore[no-any-return]


def reassociated(function: F) -> F:
    """A kernel whose sums may be reordered by the compiler (as fast as BLAS); NaN and infinity keep their meaning."""
    return kernel(function, fastmath={"reassoc", "contract", "nsz"})


@reassociated
def scores_of(features: Floats, weights: Floats) -> Floats:
    """features · weights, row by row: equal rows get equal scores wherever they stand, which BLAS does not promise."""
    n_items, n_features = features.shape
    scores = np.empty(n_items)
    for i in range(n_items):
        total = 0.0
        for j in range(n_features):
            total += features[i, j] * weights[j]
        scores[i] = total
    return scores


@kernel
def weighted_rows(features: Floats, row_weights: Floats) -> Floats:
    """Σ_i row_weights[i] · features[i]: a gradient over scores turned into one over weights."""
    n_items, n_features = features.shape
    total = np.zeros(n_features)
    for i in range(n_items):
        if row_weights[i] != 0.0:
            for j in range(n_features):
                total[j] += row_weights[i] * features[i, j]
    return total


@kernel
def all_finite(values: Floats) -> bool:
    for value in values.flat:
        if not np.isfinite(value):
            return False
    return True


def require_finite(values: Floats) -> Floats:
    """`values`, or `UnstableUpdate` when one of them is not finite: the last thing before a new state."""
    if not all_finite(values):
        raise UnstableUpdate(
            "the step would leave a non-finite number in the state; it is refused, the old state stands"
        )
    return values


stable = require_finite  # its name in 0.1, which learners of others import

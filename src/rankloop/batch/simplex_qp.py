"""The small inner problem of the bundle method: a quadratic over the simplex."""

from __future__ import annotations

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints

RIDGE = 1e-13  # relative to the largest diagonal entry: keeps cuts that depend on each other apart


@kernel
def _on_free(gram: Floats, offsets: Floats, free: Ints, ridge: float) -> Floats:
    """The best α on these cuts with Σα = 1, whatever its signs."""
    n = len(free)
    system, right = np.zeros((n + 1, n + 1)), np.ones(n + 1)
    for a in range(n):
        for b in range(n):
            system[a, b] = gram[free[a], free[b]]
        system[a, a] += ridge
        system[a, n] = 1.0
        system[n, a] = 1.0
        right[a] = offsets[free[a]]
    solved: Floats = np.linalg.solve(system, right).astype(np.float64)
    return solved[:n]


@kernel
def _walk(alpha: Floats, free: Ints, target: Floats) -> int:
    """Move α towards the target until an entry would turn negative; the place of that entry, or −1."""
    share, blocking = 1.0, -1
    for a in range(len(free)):
        if target[a] < 0.0:
            reach = alpha[free[a]] / (alpha[free[a]] - target[a])
            if reach < share:
                share, blocking = reach, a
    for a in range(len(free)):
        alpha[free[a]] += share * (target[a] - alpha[free[a]])
    if blocking >= 0:
        alpha[free[blocking]] = 0.0
    return blocking


@kernel
def minimise_on_simplex(gram: Floats, offsets: Floats, start: Floats, tolerance: float, max_steps: int) -> Floats:
    """α ≥ 0 with Σα = 1 that minimises ½ α·gram·α − offsets·α, by an active set that begins with the used cuts.

    Each step solves for the cuts in use, drops the one that would turn negative, or else takes in the one of the
    smallest slope; it stops when none is smaller than their common slope by more than `tolerance`. Whenever it stops, α
    is feasible.
    """
    alpha, n = start.copy(), len(start)
    alpha /= alpha.sum()
    free, n_free, largest = np.empty(n, np.int64), 0, 0.0
    for i in range(n):
        largest = max(largest, gram[i, i])
        if alpha[i] > 0.0:
            free[n_free] = i
            n_free += 1
    ridge = RIDGE * largest if largest > 0.0 else 1.0
    for _ in range(max_steps):
        target = _on_free(gram, offsets, free[:n_free], ridge)
        if not np.all(np.isfinite(target)):
            break
        blocking = _walk(alpha, free[:n_free], target)
        if blocking >= 0:
            n_free -= 1
            free[blocking] = free[n_free]
            continue
        slope = gram @ alpha - offsets
        lowest = np.argmin(slope)
        if alpha[lowest] > 0.0 or slope[lowest] >= np.sum(alpha * slope) - tolerance or n_free == n:
            break
        free[n_free] = lowest
        n_free += 1
    alpha /= alpha.sum()
    return alpha

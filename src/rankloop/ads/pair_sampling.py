"""Stochastic gradient descent on the AUC loss, a random pair of a clicked and an unclicked example at a time."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from rankloop.ads.auc_loss import Loss
from rankloop.core.kernels import reassociated
from rankloop.core.types import Floats

LOSSES: dict[Loss, int] = {"logistic": 0, "hinge": 1, "squared_hinge": 2}
CHUNK = 100_000


@reassociated
def steepness(margin: float, loss: int) -> float:
    """−ℓ′(margin)."""
    if loss == 0:
        small: float = np.exp(-abs(margin))
        return small / (1.0 + small) if margin >= 0.0 else 1.0 / (1.0 + small)
    if margin >= 1.0:
        return 0.0
    return 1.0 if loss == 1 else 2.0 * (1.0 - margin)


@reassociated
def descend(
    clicked: Floats,
    unclicked: Floats,
    draws: Floats,
    weights: Floats,
    total: Floats,
    step: int,
    rate: float,
    ridge: float,
    lasso: float,
    loss: int,
    average: bool,
) -> None:
    """One step per row of draws, in place; the penalties act by their proximal maps, so that no rate is too large."""
    n_features = len(weights)
    for row in range(len(draws)):
        own = clicked[int(draws[row, 0] * len(clicked))]
        other = unclicked[int(draws[row, 1] * len(unclicked))]
        eta = rate / (1.0 + 2.0 * ridge * rate * (step + row)) if ridge > 0.0 else rate / np.sqrt(1.0 + step + row)
        margin = 0.0
        for j in range(n_features):
            margin += weights[j] * (own[j] - other[j])
        push, shrink, cut = eta * steepness(margin, loss), 1.0 / (1.0 + 2.0 * ridge * eta), lasso * eta
        for j in range(n_features):
            moved = (weights[j] + push * (own[j] - other[j])) * shrink
            weights[j] = np.sign(moved) * max(abs(moved) - cut, 0.0) if cut > 0.0 else moved
            if average:
                total[j] += weights[j]


def sampled_weights(
    clicked: Floats, unclicked: Floats, *, loss: Loss, ridge: float, lasso: float, n_pairs: int, rng: Generator
) -> Floats:
    """The mean of the second half of `n_pairs` steps from 0.

    w ← prox(w + η_t · −ℓ′(w · (x⁺ − x⁻)) · (x⁺ − x⁻)), η_t = η / (1 + 2 ridge η t), or η / √t without a ridge; η is 1
    over the mean squared length of a difference.
    Reference: Shamir and Zhang (2013), Stochastic Gradient Descent for Non-smooth Optimization.
    """
    weights, total = np.zeros(clicked.shape[1]), np.zeros(clicked.shape[1])
    length = float((clicked.var(0) + unclicked.var(0) + (clicked.mean(0) - unclicked.mean(0)) ** 2).sum())
    rate, averaged = 1.0 / max(length, 1e-12), 0
    for start in range(0, n_pairs, CHUNK):
        draws = rng.random((min(CHUNK, n_pairs - start), 2))
        late = start + len(draws) > n_pairs // 2
        descend(clicked, unclicked, draws, weights, total, start, rate, ridge, lasso, LOSSES[loss], late)
        averaged += late * len(draws)
    return total / averaged

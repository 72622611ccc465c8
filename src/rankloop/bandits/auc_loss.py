"""The AUC loss over pairs of a clicked and an unclicked example: exact gradients, and descent on sampled pairs."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel, reassociated
from rankloop.core.types import Floats, Ints

Loss = Literal["logistic", "hinge", "squared_hinge"]
BLOCK_SIZE = 1024  # examples that stay in the processor's cache
MAX_DRAWS_IN_MEMORY = 100_000


@kernel
def _hinge(ordered: Floats, others: Floats, counts: Ints, squared: bool) -> tuple[float, Floats, Floats]:
    """Return Σ over pairs of max(0, 1 + other − ordered) or its square, and its slope in both.

    `ordered` ascends. An `other` has a positive loss with the first `counts` of the ordered, those below 1 + other, so
    that prefix sums replace the sum over pairs.
    """
    n, limits = len(ordered), others + 1.0
    sums, squares = np.zeros(n + 1), np.zeros(n + 1)
    for i in range(n):
        sums[i + 1] = sums[i] + ordered[i]
        squares[i + 1] = squares[i] + ordered[i] ** 2
    value, slope_others = 0.0, np.empty(len(others))
    reached, limit_sums = np.zeros(n + 1), np.zeros(n + 1)  # by k: how many others, and the sum of their limits
    for j in range(len(others)):
        k, limit = counts[j], limits[j]
        gap = k * limit - sums[k]
        value += k * limit**2 - 2.0 * limit * sums[k] + squares[k] if squared else gap
        slope_others[j] = 2.0 * gap if squared else float(k)
        reached[k] += 1.0
        limit_sums[k] += limit
    slope, above, limit_sum = np.empty(n), 0.0, 0.0
    for i in range(n - 1, -1, -1):
        above += reached[i + 1]
        limit_sum += limit_sums[i + 1]
        slope[i] = -2.0 * (limit_sum - above * ordered[i]) if squared else -above
    return value, slope, slope_others


@kernel
def _logistic(clicked: Floats, unclicked: Floats) -> tuple[float, Floats, Floats]:
    """Return Σ over pairs of ln(1 + exp(unclicked − clicked)), and its slope in both."""
    value, slope, slope_others = 0.0, np.zeros(len(clicked)), np.zeros(len(unclicked))
    for start in range(0, len(unclicked), BLOCK_SIZE):
        for i in range(len(clicked)):
            for j in range(start, min(start + BLOCK_SIZE, len(unclicked))):
                t = unclicked[j] - clicked[i]
                small = np.exp(-abs(t))
                value += max(t, 0.0) + np.log1p(small)
                share = 1.0 / (1.0 + small) if t >= 0.0 else small / (1.0 + small)
                slope[i] -= share
                slope_others[j] += share
    return value, slope, slope_others


def auc_loss(clicked: Floats, unclicked: Floats, loss: Loss = "squared_hinge") -> tuple[float, Floats, Floats]:
    """Return the mean over pairs of ℓ(clicked − unclicked), and its slope in the scores of either kind.

    The hinges take O((n + m) log min(n, m)): the smaller side is sorted, the larger looked up in it. The logistic loss
    visits every pair.

    Args:
      clicked: The scores of clicked examples.
      unclicked: The scores of the others.
      loss: `logistic`: ln(1 + e^−t); `hinge`: max(0, 1 − t); `squared_hinge`: its square.

    Raises:
      InvalidInput: If one of the two kinds has no example.
    """
    if not len(clicked) or not len(unclicked):
        raise InvalidInput("there must be at least one clicked and one unclicked example")
    n_pairs = float(len(clicked)) * float(len(unclicked))
    if loss == "logistic":
        value, slope, slope_others = _logistic(clicked, unclicked)
    elif len(clicked) <= len(unclicked):
        value, slope, slope_others = _sorted_hinge(clicked, unclicked, loss == "squared_hinge")
    else:  # clicked − unclicked = (−unclicked) − (−clicked): the same pairs with the sides swapped
        value, slope_others, slope = _sorted_hinge(-unclicked, -clicked, loss == "squared_hinge")
        slope, slope_others = -slope, -slope_others
    return value / n_pairs, slope / n_pairs, slope_others / n_pairs


def _sorted_hinge(scores: Floats, others: Floats, squared: bool) -> tuple[float, Floats, Floats]:
    order = np.argsort(scores, kind="stable")
    ordered, middle = scores[order], float(scores.mean())
    counts = np.searchsorted(ordered, others + 1.0, side="left")
    # Only differences matter, and sums of numbers near 0 lose the fewest digits.
    value, slope, slope_others = _hinge(ordered - middle, others - middle, counts, squared)
    unsorted = np.empty(len(scores))
    unsorted[order] = slope
    return value, unsorted, slope_others


LOSSES: dict[Loss, int] = {"logistic": 0, "hinge": 1, "squared_hinge": 2}


@reassociated
def steepness(margin: float, loss: int) -> float:
    """Return −ℓ′(margin).

    Args:
      margin: The score of the clicked example less that of the other.
      loss: The number of the loss in `LOSSES`.
    """
    if loss == 0:
        small: float = np.exp(-abs(margin))
        return small / (1.0 + small) if margin >= 0.0 else 1.0 / (1.0 + small)
    if margin >= 1.0:
        return 0.0
    return 1.0 if loss == 1 else 2.0 * (1.0 - margin)


class StepSize(NamedTuple):
    """The parameters of a descent on pairs."""

    rate: float
    ridge: float
    loss: int  # its number in `LOSSES`


@reassociated
def _descend(
    clicked: Floats, unclicked: Floats, draws: Floats, weights: Floats, total: Floats, start: int, size: StepSize
) -> None:
    """Take one step per row of draws; the penalty acts by its proximal map, so that no rate is too large."""
    n_features, rate, ridge = len(weights), size.rate, size.ridge
    for row in range(len(draws)):
        hit = clicked[int(draws[row, 0] * len(clicked))]
        other = unclicked[int(draws[row, 1] * len(unclicked))]
        eta = rate / (1.0 + 2.0 * ridge * rate * (start + row)) if ridge > 0.0 else rate / np.sqrt(1.0 + start + row)
        margin = 0.0
        for j in range(n_features):
            margin += weights[j] * (hit[j] - other[j])
        push, shrink = eta * steepness(margin, size.loss), 1.0 / (1.0 + 2.0 * ridge * eta)
        for j in range(n_features):
            weights[j] = (weights[j] + push * (hit[j] - other[j])) * shrink
            if len(total):
                total[j] += weights[j]


def sampled_weights(
    clicked: Floats, unclicked: Floats, *, loss: Loss, ridge: float, n_pairs: int, rng: Generator
) -> Floats:
    """Return the mean of the second half of `n_pairs` stochastic gradient steps from 0.

    w ← (w − η_t ℓ′(w · (x⁺ − x⁻)) · (x⁺ − x⁻)) / (1 + 2 ridge η_t), η_t = η / (1 + 2 ridge η t), or η / √t without a
    ridge; η is 1 over the mean squared length of a difference.

    Args:
      clicked: The features of clicked examples.
      unclicked: The features of the others.
      loss: The loss of a pair.
      ridge: The weight of the penalty ‖w‖².
      n_pairs: The number of steps.
      rng: Draws the pairs.

    References:
      Shamir and Zhang (2013), Stochastic Gradient Descent for Non-smooth Optimization.
    """
    weights, total = np.zeros(clicked.shape[1]), np.zeros(clicked.shape[1])
    length = float((clicked.var(0) + unclicked.var(0) + (clicked.mean(0) - unclicked.mean(0)) ** 2).sum())
    size, averaged = StepSize(1.0 / max(length, 1e-12), ridge, LOSSES[loss]), 0
    for start in range(0, n_pairs, MAX_DRAWS_IN_MEMORY):
        draws = rng.random((min(MAX_DRAWS_IN_MEMORY, n_pairs - start), 2))
        late = start + len(draws) > n_pairs // 2
        _descend(clicked, unclicked, draws, weights, total if late else total[:0], start, size)
        averaged += late * len(draws)
    return total / averaged

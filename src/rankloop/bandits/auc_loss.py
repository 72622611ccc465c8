"""The AUC loss over pairs of a clicked and an unclicked example: its slope without visiting them, steps by samples."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel, reassociated
from rankloop.core.types import Floats, Ints

Loss = Literal["logistic", "hinge", "squared_hinge"]
BLOCK = 1024


@kernel
def _cell(value: float, low: float, scale: float, n_cells: int) -> int:
    """Which of n_cells equal pieces of the range a value is in; never falls as the value rises."""
    position = (value - low) * scale
    if not position > 0.0:
        return 0
    return n_cells - 1 if position >= n_cells else int(position)


@kernel
def _counts_below(ordered: Floats, limits: Floats) -> Ints:
    """For each limit, how many of the ascending numbers are below it: a cell is looked up, then searched."""
    n, low = len(ordered), ordered[0]
    n_cells = 4 * n
    width = ordered[-1] - low
    scale = n_cells / width if width > 0.0 else 0.0
    starts = np.zeros(n_cells + 1, np.int64)  # how many of the numbers are in cells before this one
    for value in ordered:
        starts[_cell(value, low, scale, n_cells) + 1] += 1
    for cell in range(n_cells):
        starts[cell + 1] += starts[cell]
    counts = np.empty(len(limits), np.int64)
    for j in range(len(limits)):
        cell = _cell(limits[j], low, scale, n_cells)
        first, last = starts[cell], starts[cell + 1]
        while first < last:
            middle = (first + last) // 2
            if ordered[middle] < limits[j]:
                first = middle + 1
            else:
                last = middle
        counts[j] = first
    return counts


@kernel
def _hinge(ordered: Floats, others: Floats, counts: Ints, squared: bool) -> tuple[float, Floats, Floats]:
    """Σ over pairs of max(0, 1 + other − own) or its square, and its slope in both; `ordered` ascends.

    An `other` is in conflict with the first `counts` of the ordered, those below 1 + other, so prefix sums do.
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
    """Σ over pairs of ln(1 + exp(unclicked − clicked)), in blocks that stay in the cache."""
    value, slope, slope_others = 0.0, np.zeros(len(clicked)), np.zeros(len(unclicked))
    for start in range(0, len(unclicked), BLOCK):
        for i in range(len(clicked)):
            for j in range(start, min(start + BLOCK, len(unclicked))):
                t = unclicked[j] - clicked[i]
                small = np.exp(-abs(t))
                value += max(t, 0.0) + np.log1p(small)
                share = 1.0 / (1.0 + small) if t >= 0.0 else small / (1.0 + small)
                slope[i] -= share
                slope_others[j] += share
    return value, slope, slope_others


def auc_loss(clicked: Floats, unclicked: Floats, loss: Loss = "squared_hinge") -> tuple[float, Floats, Floats]:
    """Mean over pairs of ℓ(clicked − unclicked), and its slope in the scores of either kind.

    ℓ(t) is ln(1 + e^−t), max(0, 1 − t) or its square. The hinges take O((n + m) log min(n, m)): the smaller side is
    sorted, the larger looked up in it. The logistic one visits every pair.
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


def _sorted_hinge(own: Floats, others: Floats, squared: bool) -> tuple[float, Floats, Floats]:
    order = np.argsort(own, kind="stable")
    ordered, middle = own[order], float(own.mean())
    counts = _counts_below(ordered, others + 1.0)
    # only differences matter, and sums of scores near 0 cancel least
    value, slope, slope_others = _hinge(ordered - middle, others - middle, counts, squared)
    unsorted = np.empty(len(own))
    unsorted[order] = slope
    return value, unsorted, slope_others


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


class StepSize(NamedTuple):
    """How a descent on pairs steps: its rate, its penalties, and the number of its loss in `LOSSES`."""

    rate: float
    ridge: float
    lasso: float
    loss: int


@reassociated
def descend(
    clicked: Floats, unclicked: Floats, draws: Floats, weights: Floats, total: Floats, start: int, size: StepSize
) -> None:
    """One step per row of draws, in place; the penalties act by their proximal maps, so that no rate is too large.

    The weights after each step are added to `total`, unless it is empty.
    """
    n_features, rate, ridge = len(weights), size.rate, size.ridge
    for row in range(len(draws)):
        hit = clicked[int(draws[row, 0] * len(clicked))]
        other = unclicked[int(draws[row, 1] * len(unclicked))]
        eta = rate / (1.0 + 2.0 * ridge * rate * (start + row)) if ridge > 0.0 else rate / np.sqrt(1.0 + start + row)
        margin = 0.0
        for j in range(n_features):
            margin += weights[j] * (hit[j] - other[j])
        push, shrink, cut = eta * steepness(margin, size.loss), 1.0 / (1.0 + 2.0 * ridge * eta), size.lasso * eta
        for j in range(n_features):
            moved = (weights[j] + push * (hit[j] - other[j])) * shrink
            weights[j] = np.sign(moved) * max(abs(moved) - cut, 0.0) if cut > 0.0 else moved
            if len(total):
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
    size, averaged = StepSize(1.0 / max(length, 1e-12), ridge, lasso, LOSSES[loss]), 0
    for start in range(0, n_pairs, CHUNK):
        draws = rng.random((min(CHUNK, n_pairs - start), 2))
        late = start + len(draws) > n_pairs // 2
        descend(clicked, unclicked, draws, weights, total if late else total[:0], start, size)
        averaged += late * len(draws)
    return total / averaged

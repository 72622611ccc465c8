"""One-sided bounds of a mean."""

import math
from typing import Literal

import numpy as np
from numpy.random import default_rng

from rankloop.core.kernels import kernel
from rankloop.core.statistics import student_quantile
from rankloop.core.types import Floats, Ints
from rankloop.evaluation.off_policy.sums import BOTTOM, REWARD, TOP, Sums

Bound = Literal["t", "bernstein", "hoeffding", "bootstrap"]
RESAMPLES, AT_ONCE = 2000, 50
Ends = tuple[float, float]  # lower and upper; each holds with the level asked for, by itself


def margins(sums: Sums, bound: Bound, level: float, span: float, seed: int, max_reward: float) -> tuple[Ends, Ends]:
    """Return one-sided bounds of the value and of its gain over the log.

    Args:
      sums: The sums over the log.
      bound: The name of the bound.
      level: The probability with which the bound holds.
      span: The length of the interval in which each summand lies.
      seed: The seed of random draws.
      max_reward: The largest possible reward of a row.
    """
    if bound == "bootstrap":
        return _bootstrap(sums.filled_groups(), level, seed)
    width = half_width(sums.standard_error(), sums.n, bound, level, span)
    gain_width = half_width(sums.standard_error(gain=True), sums.n, bound, level, span + max_reward)
    value, gain = sums.value, sums.value - sums.current
    return (value - width, value + width), (gain - gain_width, gain + gain_width)


def half_width(error: float, n: int, bound: str, level: float, span: float) -> float:
    """Return the distance of a one-sided bound from the mean, with δ = 1 − level; infinite with one row.

    t: t_(level, n−1) · σ / √n, equation 5.5 of the thesis.  hoeffding: span · √(ln(1/δ) / (2 n)), Hoeffding (1963).
    bernstein: √(2 σ² ln(2/δ) / n) + 7 · span · ln(2/δ) / (3 (n − 1)), theorem 4 of Maurer and Pontil (2009).

    Args:
      error: The standard error of the mean, σ / √n.
      n: The number of rows.
      bound: The name of the bound.
      level: The probability with which the bound holds.
      span: The length of the interval in which each summand lies.
    """
    if bound == "hoeffding":
        return span * math.sqrt(math.log(1.0 / (1.0 - level)) / (2.0 * n))
    if n < 2:
        return math.inf
    if bound == "t":
        return error * student_quantile(level, n - 1)
    log, deviation = math.log(2.0 / (1.0 - level)), error * math.sqrt(n)
    return deviation * math.sqrt(2.0 * log / n) + 7.0 * span * log / (3.0 * (n - 1))


@kernel
def _resampled(groups: Floats, draws: Ints) -> Floats:
    """For each row of draws the sum of the drawn groups."""
    totals = np.zeros((len(draws), groups.shape[1]))
    for row in range(len(draws)):
        for group in draws[row]:
            for column in range(groups.shape[1]):
                totals[row, column] += groups[group, column]
    return totals


def _bootstrap(groups: Floats, level: float, seed: int) -> tuple[Ends, Ends]:
    """Quantiles over resamples of the groups, each drawn with replacement; infinite with one row."""
    rng, n = default_rng(seed), len(groups)
    if n < 2:
        return (-math.inf, math.inf), (-math.inf, math.inf)
    totals = np.concatenate([_resampled(groups, rng.integers(0, n, (AT_ONCE, n))) for _ in range(RESAMPLES // AT_ONCE)])
    has_weight = totals[:, BOTTOM] > 0.0  # a resample without any weight says nothing, which counts as the worst
    values = np.where(has_weight, totals[:, TOP] / np.where(has_weight, totals[:, BOTTOM], 1.0), -math.inf)
    return _quantiles(values, level), _quantiles(values - totals[:, REWARD] / totals[:, 3], level)


def _quantiles(values: Floats, level: float) -> Ends:
    low, high = np.quantile(values, [1.0 - level, level], method="lower")
    return float(low), float(high)

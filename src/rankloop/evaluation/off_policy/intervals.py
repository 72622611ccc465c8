"""One-sided bounds of a mean, and diagnostics that tell if a log can answer at all."""

import math
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.random import default_rng

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.registry.specs import nearest
from rankloop.core.statistics import student_quantile
from rankloop.core.types import Floats, Ints
from rankloop.evaluation.off_policy.sums import BOTTOM, REWARD, TOP, Sums

Bound = Literal["t", "bernstein", "hoeffding", "bootstrap"]
RANGE_BOUNDS = ("bernstein", "hoeffding")  # these hold for any distribution, of a known range
RESAMPLES, AT_ONCE = 2000, 50


class Margins(NamedTuple):
    """Each end holds with the level asked for, by itself."""

    lower: float
    upper: float


def check_bound(bound: str, level: float, ratio: bool) -> None:
    """Refuse unknown bounds, and those that need a known range where the estimate has none.

    Args:
      bound: The name of the bound.
      level: The probability with which the bound holds.
      ratio: True if the estimate is a ratio of two sums.
    """
    if not 0.5 <= level < 1.0:
        raise InvalidInput(f"level = {level} must be a probability from 0.5 to below 1, such as 0.95")
    if bound not in get_args(Bound):
        raise InvalidInput(f"bound = {bound!r} is not known{nearest(bound, get_args(Bound))}")
    if ratio and bound in RANGE_BOUNDS:
        raise InvalidInput(
            f"the {bound} bound is for means, and the self-normalised estimate is a ratio: use 't' or 'bootstrap'"
        )


def margins(
    sums: Sums, bound: Bound, level: float, span: float, seed: int, max_reward: float
) -> tuple[Margins, Margins]:
    """Return one-sided bounds of the value and of its gain over the log.

    Each summand lies in an interval of length `span`, each reward in one of length `max_reward`.

    Args:
      sums: The sums over the log.
      bound: The name of the bound.
      level: The probability with which the bound holds.
      span: The length of the interval in which each summand lies.
      seed: The seed of random draws.
      max_reward: The largest possible reward.
    """
    if bound == "bootstrap":
        return _bootstrap(sums.filled_groups(), level, seed)
    width = _width(sums.standard_error(), sums.n, bound, level, span)
    gain_width = _width(sums.standard_error(gain=True), sums.n, bound, level, span + max_reward)
    value, gain = sums.value, sums.value - sums.current
    return Margins(value - width, value + width), Margins(gain - gain_width, gain + gain_width)


def _width(error: float, n: int, bound: Bound, level: float, span: float) -> float:
    if bound == "t":
        return student(error, n, level)
    return bernstein(error * math.sqrt(n), n, level, span) if bound == "bernstein" else hoeffding(n, level, span)


def student(error: float, n: int, level: float) -> float:
    """Return t_(level, n−1) · σ / √n, equation 5.5 of the thesis; infinite with one row.

    Args:
      error: The standard error of the mean.
      n: The number of rows.
      level: The probability with which the bound holds.
    """
    return error * student_quantile(level, n - 1) if n > 1 else math.inf


def bernstein(deviation: float, n: int, level: float, span: float) -> float:
    """Return √(2 σ² ln(2/δ) / n) + 7 · span · ln(2/δ) / (3 (n − 1)) with δ = 1 − level.

        Reference: Maurer and Pontil (2009), theorem 4.

    Args:
      deviation: The standard deviation of a summand.
      n: The number of rows.
      level: The probability with which the bound holds.
      span: The length of the interval in which each summand lies.
    """
    if n < 2:
        return math.inf
    log = math.log(2.0 / (1.0 - level))
    return deviation * math.sqrt(2.0 * log / n) + 7.0 * span * log / (3.0 * (n - 1))


def hoeffding(n: int, level: float, span: float) -> float:
    """Return span · √(ln(1/δ) / (2 n)) with δ = 1 − level (Hoeffding 1963).

    Args:
      n: The number of rows.
      level: The probability with which the bound holds.
      span: The length of the interval in which each summand lies.
    """
    return span * math.sqrt(math.log(1.0 / (1.0 - level)) / (2.0 * n))


@kernel
def _resampled(groups: Floats, draws: Ints) -> Floats:
    """For each row of draws the sum of the drawn groups."""
    totals = np.zeros((len(draws), groups.shape[1]))
    for row in range(len(draws)):
        for group in draws[row]:
            for column in range(groups.shape[1]):
                totals[row, column] += groups[group, column]
    return totals


def _bootstrap(groups: Floats, level: float, seed: int) -> tuple[Margins, Margins]:
    """Quantiles over resamples of the groups, each drawn with replacement; infinite with one row."""
    rng, n = default_rng(seed), len(groups)
    if n < 2:
        return Margins(-math.inf, math.inf), Margins(-math.inf, math.inf)
    totals = np.concatenate([_resampled(groups, rng.integers(0, n, (AT_ONCE, n))) for _ in range(RESAMPLES // AT_ONCE)])
    has_weight = totals[:, BOTTOM] > 0.0  # a resample without any weight says nothing, which counts as the worst
    values = np.where(has_weight, totals[:, TOP] / np.where(has_weight, totals[:, BOTTOM], 1.0), -math.inf)
    return _quantiles(values, level), _quantiles(values - totals[:, REWARD] / totals[:, 3], level)


def _quantiles(values: Floats, level: float) -> Margins:
    low, high = np.quantile(values, [1.0 - level, level], method="lower")
    return Margins(float(low), float(high))


MIN_REWARDS, MIN_ROWS = 20, 100
THIN_SHARE = 0.1
HEAVY_SHARE = 0.1


class Overlap(NamedTuple):
    """Diagnostics of the weights w = target / propensity; on a log that covers the target they average 1."""

    mean_weight: float
    mean_weight_error: float
    largest_weight: float
    largest_share: float  # of the sum of all weights
    unsupported: float  # share of rows that the target would never show
    effective_n: float
    effective_rewards: float  # so many rewarded rows of equal weight carry the estimate
    effective_losses: float  # so many rows pull it down; the bound from below rests on them


def overlap_of(sums: Sums) -> Overlap:
    """Return diagnostics of the weights from their running sums."""
    mean = sums.weight_sum / sums.n
    variance = max(0.0, sums.weight_squares / sums.n - mean**2)
    return Overlap(
        mean,
        math.sqrt(variance / sums.n),
        sums.largest_weight,
        sums.largest_weight / sums.weight_sum if sums.weight_sum else 1.0,
        sums.unsupported / sums.n,
        sums.effective_n,
        sums.effective_rewards,
        sums.effective_losses,
    )


def is_off_balance(overlap: Overlap) -> bool:
    """Return true where the weights average so far from 1 that the log cannot tell how good the target policy is."""
    return abs(overlap.mean_weight - 1.0) > 4.0 * overlap.mean_weight_error + 0.01


def rests_on(overlap: Overlap, bound: str) -> float:
    """Return how many rows carry the estimate and its lower bound; `MIN_REWARDS` are needed.

    Args:
      overlap: Diagnostics of the weights.
      bound: The name of the bound.
    """
    rewards, losses = overlap.effective_rewards, overlap.effective_losses
    return rewards if bound in RANGE_BOUNDS else min(rewards, losses)


def warnings_of(overlap: Overlap, n: int, bound: str) -> tuple[str, ...]:
    """Return sentences about what makes the estimate unreliable; none if nothing does.

    Args:
      overlap: Diagnostics of the weights.
      n: The number of rows.
      bound: The name of the bound.
    """
    warnings = []
    if overlap.effective_rewards < MIN_REWARDS:
        warnings.append(
            f"the log is too small to tell: the estimate is based on about {overlap.effective_rewards:.0f} rewarded "
            f"rows, and needs {MIN_REWARDS} or more for a bound worth having"
        )
    elif rests_on(overlap, bound) < MIN_REWARDS:
        warnings.append(
            f"the log is too small to tell: only about {overlap.effective_losses:.0f} rows earned much less than the "
            f"others, and the lower bound needs {MIN_REWARDS} or more to hold"
        )
    if overlap.effective_n < min(MIN_ROWS, n) or overlap.effective_n < THIN_SHARE * n:
        warnings.append(
            f"the log's {n:,} rows count as only {overlap.effective_n:,.0f}: the target policy mostly shows what the "
            "log seldom shows"
        )
    if overlap.largest_share > HEAVY_SHARE and n > 1:
        warnings.append(f"a single row carries {overlap.largest_share:.0%} of the weight")
    if is_off_balance(overlap):
        warnings.append(
            f"the weights average {overlap.mean_weight:.3g} and should average 1: the propensities are wrong, or the "
            "target policy shows what the log never shows"
        )
    return tuple(warnings)

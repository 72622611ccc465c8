"""Estimators of a policy's reward from the log of another one, with bounds."""

import math
import sys
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.random import default_rng
from numpy.typing import ArrayLike

from rankloop.core.checks import check_positive
from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest
from rankloop.core.statistics import student_quantile
from rankloop.core.types import Floats, whole_number
from rankloop.evaluation.off_policy import running_sums
from rankloop.evaluation.off_policy.running_sums import BOTTOM, REWARD, TOP, Extremes, Series, Sums
from rankloop.logs.choice_log import ChoiceRows, rows_of

Bound = Literal["t", "bernstein", "hoeffding", "bootstrap"]
RESAMPLES, AT_ONCE = 2000, 50
Ends = tuple[float, float]  # lower and upper; each holds with the level asked for, by itself
Method = Literal[
    "ips", "clipped_ips", "snips", "direct_method", "doubly_robust", "switch_dr", "position_wise", "cascade_ips"
]
REWARD_MODEL_METHODS = ("direct_method", "doubly_robust", "switch_dr")  # these need a reward model
SUMMED_METHODS = ("cascade_ips", "position_wise")  # over positions, each with a weight of its own
ROUNDING_TOLERANCE = 1e-9
# The range of a summand per unit of reward, from the heaviest weight and the limit; by estimator.
SPANS: dict[str, Callable[[float, float], float]] = {
    "clipped_ips": min,
    "direct_method": lambda heaviest, limit: 1.0,
    "doubly_robust": lambda heaviest, limit: 1.0 + 2.0 * heaviest,
    "switch_dr": lambda heaviest, limit: 1.0 + 2.0 * min(heaviest, limit),
    "pseudo_inverse": lambda heaviest, limit: 2.0 * heaviest,  # whose weights may be negative
}


class Estimate(NamedTuple):
    """An estimated mean reward. `lower` holds with probability `level`, and so does `upper`, each by itself.

    Report `lower`: with rare rewards the t and bootstrap bounds from above are too low more often than they promise.
    With rare losses (nearly every row rewarded) it is the other way round, and `warnings` say so.
    """

    value: float
    lower: float
    n: int
    effective_n: float
    upper: float
    standard_error: float
    current: float  # what the logging policy earned
    gain: float  # value − current
    gain_lower: float
    level: float
    method: str  # as it was asked for
    bound: str
    overlap: running_sums.Overlap
    warnings: tuple[str, ...]

    @property
    def is_answered(self) -> bool:
        """False where the log cannot tell, so that no bound may be relied on; `warnings` then say why."""
        return not self.overlap.is_off_balance and self.overlap.rests_on(self.bound) >= running_sums.MIN_REWARDS

    @classmethod
    def of(cls, sums: Sums, method: str, options: "Options", positions: int = 1) -> "Estimate":
        """Return the estimate when the log has ended; a row adds up the rewards of so many positions."""
        options.check(method)
        sums.check()
        if options.bound in running_sums.RANGE_BOUNDS:
            options.check_range(sums.extremes)
        (lower, upper), (gain_lower, _) = _ends(sums, method, options, positions)
        overlap = sums.overlap()
        return cls(
            value=sums.value,
            lower=lower,
            n=sums.n,
            effective_n=overlap.effective_n,
            upper=upper,
            standard_error=sums.standard_error(),
            current=sums.current,
            gain=sums.value - sums.current,
            gain_lower=gain_lower,
            level=options.level,
            method=method,
            bound=options.bound,
            overlap=overlap,
            warnings=overlap.warnings(sums.n, options.bound),
        )


class Options(NamedTuple):
    """Options that all estimators share."""

    level: float = 0.95  # the probability of each one-sided bound
    bound: Bound = "t"
    limit: float = math.inf  # the weight at which `clipped_ips` cuts, beyond which `switch_dr` trusts the reward model
    max_reward: float = 1.0  # the largest possible reward, for the bounds that need a range
    max_weight: float | None = None  # the largest possible weight, for these bounds; None: 1 / the smallest propensity
    seed: int = 0  # of the bootstrap

    def check(self, method: str) -> None:
        """Refuse options that no log can satisfy with this estimator, before the log is read."""
        if not 0.5 <= self.level < 1.0:
            raise InvalidInput(f"level = {self.level} must be a probability from 0.5 to below 1, such as 0.95")
        if self.bound not in get_args(Bound):
            raise InvalidInput(f"bound = {self.bound!r} is not known{nearest(self.bound, get_args(Bound))}")
        if method == "snips" and self.bound in running_sums.RANGE_BOUNDS:
            fault = f"the {self.bound} bound is for means, and the self-normalised estimate is a ratio"
            raise InvalidInput(f"{fault}: use 't' or 'bootstrap'")
        whole_number(self.seed, "seed", 0)
        if not (0.0 < self.limit <= sys.float_info.max or self.limit == math.inf):
            raise InvalidInput(f"limit = {self.limit} must be a weight above 0")
        check_positive(max_reward=self.max_reward)
        if self.max_weight is not None:
            check_positive(max_weight=self.max_weight)

    def check_range(self, extremes: Extremes) -> None:
        """Refuse a log beyond the range: in rewards of any position, those of the reward model, or weights."""
        least, largest, heaviest, _ = extremes
        if least < -ROUNDING_TOLERANCE * self.max_reward or largest > (1.0 + ROUNDING_TOLERANCE) * self.max_reward:
            rule = f"the {self.bound} bound is for rewards from 0 to max_reward = {self.max_reward}"
            fault = f"the log or its reward model has them from {least} to {largest}"
            raise InvalidInput(f"{rule}, and {fault}: give the largest possible one, or use 't'")
        if self.max_weight is not None and heaviest > (1.0 + ROUNDING_TOLERANCE) * self.max_weight:
            rule = f"max_weight = {self.max_weight} must be the largest weight that could occur"
            raise InvalidInput(f"{rule}, and the log has {heaviest}")


def estimate(pieces: Iterable[ChoiceRows], method: str = "ips", options: Options | None = None) -> Estimate:
    """Estimate from a log that comes in pieces, in constant memory.

    References:
      Ionides (2008), Truncated Importance Sampling (clipped_ips); Wang, Agarwal and Dudík (2017), Optimal and Adaptive
      Off-policy Evaluation in Contextual Bandits (switch_dr); Li, Abbasi-Yadkori, Kveton, Muthukrishnan, Vinay and Wen
      (2018), Offline Evaluation of Ranking Policies with Click Models (position_wise); McInerney, Brost, Chandar,
      Mehrotra and Carterette (2020), Counterfactual Evaluation of Slate Recommendations (cascade_ips).

    Args:
      pieces: The pieces, in any number; for position_wise and cascade_ips with numbers by position (`ndim=2`).
      method: The name of the estimator; `series_of` has the formulas.
      options: Level, bound and limits; see `Options`.
    """
    options, estimator = options or Options(), method_of(method)
    options.check(estimator)
    sums, positions = Sums(), 1
    for rows in pieces:
        sums.add(series_of(rows, estimator, float(options.limit)))
        positions = max((positions, *rows.reward.shape[1:]))
    return Estimate.of(sums, method, options, positions)


def ips(reward: ArrayLike, propensity: ArrayLike, target: ArrayLike, **options: Any) -> Estimate:
    """Estimate by inverse propensity scoring: (1/n) Σ reward · target / propensity.

    Unbiased when whatever the target policy shows had a probability above 0 in the log; noisy when that was small.
    References: Horvitz and Thompson (1952); Theocharous, Thomas and Ghavamzadeh (2015), Personalized Ad Recommendation
    Systems for Life-Time Value Optimization with Guarantees.

    Args:
      reward: The reward of each row.
      propensity: The probability with which the logging policy showed what was shown.
      target: The probability with which the target policy would show it.
      **options: Fields of `Options`.
    """
    return estimate([rows_of(reward, propensity, target)], "ips", Options(**options))


def snips(reward: ArrayLike, propensity: ArrayLike, target: ArrayLike, **options: Any) -> Estimate:
    """Estimate by self-normalised IPS: Σ reward · weight / Σ weight. Its bounds are t (linearised) and bootstrap.

    Reference: Swaminathan and Joachims (2015), The Self-Normalized Estimator for Counterfactual Learning.

    Args:
      reward: As of `ips`.
      propensity: As of `ips`.
      target: As of `ips`.
      **options: Fields of `Options`.
    """
    return estimate([rows_of(reward, propensity, target)], "snips", Options(**options))


def doubly_robust(
    reward: ArrayLike,
    propensity: ArrayLike,
    target: ArrayLike,
    *,
    predicted: ArrayLike,
    expected: ArrayLike,
    **options: Any,
) -> Estimate:
    """Estimate by a reward model, corrected by IPS of its errors.

    Reference: Dudík, Langford and Li (2011), Doubly Robust Policy Evaluation and Learning.

    Args:
      reward: As of `ips`.
      propensity: As of `ips`.
      target: As of `ips`.
      predicted: The reward model's prediction for what was shown.
      expected: The reward model's mean under the target policy.
      **options: Fields of `Options`.
    """
    return estimate([rows_of(reward, propensity, target, predicted, expected)], "doubly_robust", Options(**options))


def method_of(name: str) -> Method:
    """Return the estimator of this name."""
    if name not in get_args(Method):
        raise InvalidInput(f"method = {name!r} is not known{nearest(name, get_args(Method))}")
    return cast("Method", name)


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def series_of(rows: ChoiceRows, method: Method, limit: float) -> Series:
    """Return the summands of an estimator; w = target / propensity, q is the reward model, p a position of a ranking.

    ips: w·r (thesis, 5.4).  clipped_ips: min(w, limit)·r.  snips: Σ w·r / Σ w.  direct_method: Σ_a target(a)·q(a).
    doubly_robust: Σ_a target(a)·q(a) + w·(r − q).  switch_dr: the same, with the correction only where w ≤ limit.
    position_wise: Σ_p w_p·r_p.  cascade_ips: Σ_p (Π_{q ≤ p} w_q)·r_p.

    Args:
      rows: The rows.
      method: The name of the estimator.
      limit: The weight beyond which the estimator cuts or uses the model.
    """
    weight, propensity = rows.target / rows.propensity, rows.propensity
    expected, predicted = rows.expected, rows.predicted
    if (rows.reward.ndim == 2) != (method in SUMMED_METHODS):
        raise InvalidInput(f"{method} needs {'a row' if rows.reward.ndim == 1 else 'one'} of numbers for each ranking")
    rewards = [rows.reward]
    if method in SUMMED_METHODS:
        if method == "cascade_ips":
            weight, propensity = (np.cumprod(part, axis=1, dtype=np.float64) for part in (weight, propensity))
        top, extremes = (weight * rows.reward).sum(axis=1), Extremes.of(weight, rewards, propensity)
        return Series(top, np.ones(len(top)), rows.reward.sum(axis=1), weight.mean(axis=1), extremes)
    if method not in REWARD_MODEL_METHODS:
        top = (np.minimum(weight, limit) if method == "clipped_ips" else weight) * rows.reward
    elif expected is None or (predicted is None and method != "direct_method"):
        raise InvalidInput(f"{method} needs a reward model: `expected`, and `predicted` for what was shown")
    else:
        top = expected
        rewards += [expected] if predicted is None else [expected, predicted]
        if predicted is not None and method != "direct_method":
            trusted = weight if method == "doubly_robust" else np.where(weight <= limit, weight, 0.0)
            top = expected + trusted * (rows.reward - predicted)
    bottom = weight if method == "snips" else np.ones(len(weight))
    return Series(top, bottom, rows.reward, weight, Extremes.of(weight, rewards, propensity))


def _ends(sums: Sums, method: str, options: Options, positions: int) -> tuple[Ends, Ends]:
    """Return one-sided bounds of the value and of its gain; a row adds up the rewards of so many positions."""
    if options.bound == "bootstrap":
        return _bootstrap(sums.filled_groups(), options.level, options.seed)
    propensity = sums.extremes.least_propensity
    heaviest = options.max_weight or (1.0 / propensity if propensity else math.inf)
    most = positions * options.max_reward
    span = most * (SPANS[method](heaviest, options.limit) if method in SPANS else heaviest)
    width = _half_width(sums.standard_error(), sums.n, options.bound, options.level, span)
    gain_width = _half_width(sums.standard_error(gain=True), sums.n, options.bound, options.level, span + most)
    value, gain = sums.value, sums.value - sums.current
    return (value - width, value + width), (gain - gain_width, gain + gain_width)


def _half_width(error: float, n: int, bound: str, level: float, span: float) -> float:
    """Return the distance of a one-sided bound from the mean, with δ = 1 − level; infinite with one row."""
    # t: t_(level, n−1) · σ / √n, equation 5.5 of the thesis.  hoeffding: span · √(ln(1/δ) / (2 n)), Hoeffding (1963).
    # bernstein: √(2 σ² ln(2/δ) / n) + 7 · span · ln(2/δ) / (3 (n − 1)), theorem 4 of Maurer and Pontil (2009).
    if bound == "hoeffding":
        return span * math.sqrt(math.log(1.0 / (1.0 - level)) / (2.0 * n))
    if n < 2:
        return math.inf
    if bound == "t":
        return error * student_quantile(level, n - 1)
    log, deviation = math.log(2.0 / (1.0 - level)), error * math.sqrt(n)
    return deviation * math.sqrt(2.0 * log / n) + 7.0 * span * log / (3.0 * (n - 1))


def _bootstrap(groups: Floats, level: float, seed: int) -> tuple[Ends, Ends]:
    """Quantiles over resamples of the groups, each drawn with replacement; infinite with one row."""
    rng, n = default_rng(seed), len(groups)
    if n < 2:
        return (-math.inf, math.inf), (-math.inf, math.inf)
    draws = (rng.integers(0, n, (AT_ONCE, n)) for _ in range(RESAMPLES // AT_ONCE))
    totals = np.concatenate([groups[some].sum(axis=1) for some in draws])
    has_weight = totals[:, BOTTOM] > 0.0  # a resample without any weight says nothing, which counts as the worst
    values = np.where(has_weight, totals[:, TOP] / np.where(has_weight, totals[:, BOTTOM], 1.0), -math.inf)
    return _quantiles(values, level), _quantiles(values - totals[:, REWARD] / totals[:, 3], level)


def _quantiles(values: Floats, level: float) -> Ends:
    low, high = np.quantile(values, [1.0 - level, level], method="lower")
    return float(low), float(high)

"""An estimate with its bounds, from the summands that an estimator makes of a log."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

from rankloop.core.checks import check_positive
from rankloop.core.errors import InvalidInput
from rankloop.core.types import whole_number
from rankloop.evaluation.off_policy.intervals import RANGED, Bound, check_bound, check_level, margins
from rankloop.evaluation.off_policy.overlap import Overlap, overlap_of, warnings_of
from rankloop.evaluation.off_policy.sums import Series, Sums

ROUNDING = 1e-9


class Estimate(NamedTuple):
    """An estimated mean reward. `lower` holds with probability `level`, and so does `upper`, each by itself.

    Report `lower`. With rare rewards the distribution leans to the right, so that bounds from below are safe, while
    the t and bootstrap bounds from above are too low far more often than they promise. With rare losses (nearly every
    row rewarded) it is the other way round, and `warnings` say so.
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
    method: str
    bound: str
    overlap: Overlap
    warnings: tuple[str, ...]


class Options(NamedTuple):
    """What all estimators share.

    `level`: probability of each one-sided bound; `bound`: t, bernstein, hoeffding or bootstrap; `limit`: the weight at
    which `clipped` cuts and beyond which `switch` trusts the reward model; `max_reward` and `max_weight`: the largest
    possible ones, for the bounds that need a range (weights: 1 / the smallest propensity unless given); `seed`: of the
    bootstrap.
    """

    level: float = 0.95
    bound: Bound = "t"
    limit: float = math.inf
    max_reward: float = 1.0
    max_weight: float | None = None
    seed: int = 0


def check_options(options: Options, method: str) -> None:
    """Refuse what no log could answer, before it is read."""
    check_level(options.level)
    check_bound(options.bound, method == "snips")
    whole_number(options.seed, "seed", 0)
    if not (0.0 < options.limit <= sys.float_info.max or options.limit == math.inf):
        raise InvalidInput(f"limit = {options.limit} must be a weight above 0")
    check_positive("max_reward", options.max_reward)
    if options.max_weight is not None:
        check_positive("max_weight", options.max_weight)


def summed(
    pieces: Iterable[Series],
    method: str,
    options: Options,
    span: Callable[[float, float], float] | None = None,
    positions: int = 1,
) -> Estimate:
    """The estimate from an estimator's series, piece by piece; see `concluded`."""
    sums = Sums()
    for piece in pieces:
        sums.add(piece)
    return concluded(sums, method, options, span, positions)


def concluded(
    sums: Sums,
    method: str,
    options: Options,
    span: Callable[[float, float], float] | None = None,
    positions: int = 1,
) -> Estimate:
    """The estimate when the log has ended; `span(largest weight, limit)` is the range of a summand per reward.

    A row adds up the rewards of so many `places`, each from 0 to `max_reward`.
    """
    check_options(options, method)
    sums.checked()
    if options.bound in RANGED:
        _check_range(sums, options)
    heaviest = options.max_weight or (1.0 / sums.least_propensity if sums.least_propensity else math.inf)
    most = positions * options.max_reward
    reach = most * (span(heaviest, options.limit) if span else heaviest)
    ends, gain_ends = margins(sums, options.bound, options.level, reach, options.seed, most)
    overlap = overlap_of(sums)
    return Estimate(
        value=sums.value,
        lower=ends.lower,
        n=sums.n,
        effective_n=sums.effective_n,
        upper=ends.upper,
        standard_error=sums.standard_error(),
        current=sums.current,
        gain=sums.value - sums.current,
        gain_lower=gain_ends.lower,
        level=options.level,
        method=method,
        bound=options.bound,
        overlap=overlap,
        warnings=warnings_of(overlap, sums.n, options.bound),
    )


def _check_range(sums: Sums, options: Options) -> None:
    """The range must hold for the rewards of every place and those of the reward model, and for every weight."""
    least, largest, heaviest = sums.extremes
    if least < -ROUNDING * options.max_reward or largest > (1.0 + ROUNDING) * options.max_reward:
        raise InvalidInput(
            f"the {options.bound} bound is for rewards from 0 to max_reward = {options.max_reward}, and the log or its "
            f"reward model has them from {least} to {largest}: give the largest possible one, or use 't'"
        )
    if options.max_weight is not None and heaviest > (1.0 + ROUNDING) * options.max_weight:
        raise InvalidInput(
            f"max_weight = {options.max_weight} must be the largest weight that could occur, and the log has {heaviest}"
        )

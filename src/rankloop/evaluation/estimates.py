"""An estimate with its bounds, from the summands that an estimator makes of a log."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from rankloop.core.errors import InvalidInput
from rankloop.evaluation.intervals import Bound, check_bound, check_level, margins
from rankloop.evaluation.overlap import Overlap, overlap_of, warnings_of
from rankloop.evaluation.sums import Series, Sums


class Estimate(NamedTuple):
    """An estimated mean reward. `lower` holds with probability `level`, and so does `upper`, each by itself.

    Report `lower`. With rare rewards the distribution leans to the right, so that bounds from below are safe, while
    the t and bootstrap bounds from above are too low far more often than they promise.
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


def summed(
    pieces: Iterable[Series], method: str, options: Options, span: Callable[[float, float], float] | None = None
) -> Estimate:
    """The estimate from an estimator's series, piece by piece; see `concluded`."""
    sums = Sums()
    for piece in pieces:
        sums.add(piece)
    return concluded(sums, method, options, span)


def concluded(
    sums: Sums, method: str, options: Options, span: Callable[[float, float], float] | None = None
) -> Estimate:
    """The estimate when the log has ended; `span(largest weight, limit)` is the range of a summand per reward."""
    check_level(options.level)
    check_bound(options.bound, method == "snips")
    sums.checked()
    if options.bound in ("bernstein", "hoeffding") and method not in ("position_wise", "cascade"):
        _check_range(sums, options)
    heaviest = options.max_weight or 1.0 / sums.least_propensity
    reach = options.max_reward * (span(heaviest, options.limit) if span else heaviest)
    ends, gain_ends = margins(sums, options.bound, options.level, reach, options.seed, options.max_reward)
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
        warnings=warnings_of(overlap, sums.n),
    )


def _check_range(sums: Sums, options: Options) -> None:
    if sums.least_reward < 0.0 or sums.largest_reward > options.max_reward:
        raise InvalidInput(
            f"the {options.bound} bound is for rewards from 0 to max_reward = {options.max_reward}, and the log has "
            f"them from {sums.least_reward} to {sums.largest_reward}: give the largest possible one, or use 't'"
        )

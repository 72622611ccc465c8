"""What a policy would earn, estimated from a log that another policy made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.specs import nearest
from rankloop.core.types import Floats
from rankloop.evaluation.off_policy.estimate import Estimate, Options, check_options, summed
from rankloop.evaluation.off_policy.sums import Series, extremes_of
from rankloop.logs.rows import Rows, rows_of

Method = Literal["ips", "clipped", "snips", "direct", "doubly_robust", "switch"]
MODELLED = ("direct", "doubly_robust", "switch")  # these need a reward model


def estimate(pieces: Iterable[Rows], method: Method = "ips", options: Options | None = None) -> Estimate:
    """The estimate over a log that comes in pieces, in constant memory."""
    options = options or Options()
    check_method(method)
    check_options(options, method)
    return summed((series_of(rows, method, float(options.limit)) for rows in pieces), method, options, SPANS[method])


def check_method(method: str) -> None:
    if method not in get_args(Method):
        raise InvalidInput(f"method = {method!r} is not known{nearest(method, get_args(Method))}")


@np.errstate(over="ignore", invalid="ignore")
def series_of(rows: Rows, method: Method, limit: float) -> Series:
    """The summands of each estimator; w = target / propensity, q the reward model.

    ips: w·r.  clipped: min(w, limit)·r.  snips: Σ w·r / Σ w.  direct: Σ_a target(a)·q(a).
    doubly_robust: Σ_a target(a)·q(a) + w·(r − q).  switch: the same, with the correction only where w ≤ limit.
    """
    weight = rows.target / rows.propensity
    bottom = weight if method == "snips" else np.ones(len(weight))
    top = _top(rows, weight, method, limit)
    modelled = (rows.expected, rows.predicted) if method in MODELLED else ()
    extremes = extremes_of(weight, rows.reward, *(values for values in modelled if values is not None))
    return Series(top, bottom, rows.reward, weight, float(rows.propensity.min(initial=1.0)), extremes)


def _top(rows: Rows, weight: Floats, method: Method, limit: float) -> Floats:
    if method in ("ips", "snips"):
        return weight * rows.reward
    if method == "clipped":
        return np.minimum(weight, limit) * rows.reward
    if rows.expected is None or (rows.predicted is None and method != "direct"):
        raise InvalidInput(f"{method} needs a reward model: `expected`, and `predicted` for what was shown")
    if method == "direct" or rows.predicted is None:
        return rows.expected
    trusted = weight if method == "doubly_robust" else np.where(weight <= limit, weight, 0.0)
    corrected: Floats = rows.expected + trusted * (rows.reward - rows.predicted)
    return corrected


SPANS: dict[Method, Callable[[float, float], float]] = {
    "ips": lambda heaviest, limit: heaviest,
    "snips": lambda heaviest, limit: heaviest,
    "clipped": lambda heaviest, limit: min(heaviest, limit),
    "direct": lambda heaviest, limit: 1.0,
    "doubly_robust": lambda heaviest, limit: 1.0 + 2.0 * heaviest,
    "switch": lambda heaviest, limit: 1.0 + 2.0 * min(heaviest, limit),
}


def ips(reward: ArrayLike, propensity: ArrayLike, target: ArrayLike, **options: Any) -> Estimate:
    """Inverse propensity scoring: (1/n) Σ reward · target / propensity.

    Unbiased when whatever the target policy shows had a chance in the log; noisy when that chance was small.
    Keywords are those of `Options`. References: Horvitz and Thompson (1952); Theocharous, Thomas and Ghavamzadeh
    (2015), Personalized Ad Recommendation Systems for Life-Time Value Optimization with Guarantees.
    """
    return estimate([rows_of(reward, propensity, target)], "ips", Options(**options))


def clipped(reward: ArrayLike, propensity: ArrayLike, target: ArrayLike, *, limit: float, **options: Any) -> Estimate:
    """IPS with weights cut at `limit`: never above IPS, so too low rather than too high, and far less noisy.

    Reference: Ionides (2008), Truncated Importance Sampling.
    """
    return estimate([rows_of(reward, propensity, target)], "clipped", Options(limit=limit, **options))


def snips(reward: ArrayLike, propensity: ArrayLike, target: ArrayLike, **options: Any) -> Estimate:
    """Self-normalised: Σ reward · weight / Σ weight. Slightly biased, always within the rewards, usually closer.

    Its bounds are t (linearised) and bootstrap. Reference: Swaminathan and Joachims (2015), The Self-Normalized
    Estimator for Counterfactual Learning.
    """
    return estimate([rows_of(reward, propensity, target)], "snips", Options(**options))


def direct(
    reward: ArrayLike, propensity: ArrayLike, target: ArrayLike, *, expected: ArrayLike, **options: Any
) -> Estimate:
    """The reward model's own opinion, (1/n) Σ expected: as good as the model, however large the log."""
    return estimate([rows_of(reward, propensity, target, None, expected)], "direct", Options(**options))


def doubly_robust(
    reward: ArrayLike,
    propensity: ArrayLike,
    target: ArrayLike,
    *,
    predicted: ArrayLike,
    expected: ArrayLike,
    **options: Any,
) -> Estimate:
    """A reward model, corrected by IPS of what it missed: unbiased if the propensities or the model are right.

    Reference: Dudík, Langford and Li (2011), Doubly Robust Policy Evaluation and Learning.
    """
    rows = rows_of(reward, propensity, target, predicted, expected)
    return estimate([rows], "doubly_robust", Options(**options))


def switch(
    reward: ArrayLike,
    propensity: ArrayLike,
    target: ArrayLike,
    *,
    predicted: ArrayLike,
    expected: ArrayLike,
    limit: float,
    **options: Any,
) -> Estimate:
    """Doubly robust where the weight is at most `limit`, the model alone beyond.

    Reference: Wang, Agarwal and Dudík (2017), Optimal and Adaptive Off-policy Evaluation in Contextual Bandits
    (SWITCH-DR).
    """
    rows = rows_of(reward, propensity, target, predicted, expected)
    return estimate([rows], "switch", Options(limit=limit, **options))

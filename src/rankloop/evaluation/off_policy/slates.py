"""Estimators for whole rankings: what they would earn, from logged rankings and the clicks on their positions."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, finite_floats, item_indices, rows_in, whole_number
from rankloop.evaluation.off_policy.estimators import Estimate, Options, series_of
from rankloop.evaluation.off_policy.sums import RANGE_BOUNDS, Extremes, Series, Sums
from rankloop.logs.choice_log import ChoiceRows, rows_of

MAX_ITEMS = 10_000


def position_wise(reward: ArrayLike, propensity: ArrayLike, target: ArrayLike, **options: Any) -> Estimate:
    """Estimate by (1/n) Σ_rows Σ_p reward[p] · target[p] / propensity[p].

    Unbiased when users judge every position for itself (the position-based model).
    Reference: Li, Abbasi-Yadkori, Kveton, Muthukrishnan, Vinay and Wen (2018), Offline Evaluation of Ranking Policies
    with Click Models.

    Args:
      reward: One row per ranking, one column per position.
      propensity: The probability of this item at this position in the log, whatever stands elsewhere.
      target: The same under the target policy.
      **options: Fields of `Options`.
    """
    return _by_position(rows_of(reward, propensity, target, ndim=2), "position_wise", options)


def cascade_ips(reward: ArrayLike, propensity: ArrayLike, target: ArrayLike, **options: Any) -> Estimate:
    """Estimate by (1/n) Σ_rows Σ_p reward[p] · Π_(q ≤ p) target[q] / propensity[q].

    Unbiased when users read from the top (the cascade model), with far smaller weights than those of whole rankings.
    Reference: McInerney, Brost, Chandar, Mehrotra and Carterette (2020), Counterfactual Evaluation of Slate
    Recommendations with Sequential Reward Interactions.

    Args:
      reward: One row per ranking, one column per position.
      propensity: The probability of each item in the log, given the items above it.
      target: The same under the target policy.
      **options: Fields of `Options`.
    """
    return _by_position(rows_of(reward, propensity, target, ndim=2), "cascade_ips", options)


def _by_position(rows: ChoiceRows, method: str, options: dict[str, Any]) -> Estimate:
    sums = Sums.of([slate_series(rows, cascade=method == "cascade_ips")])
    return Estimate.of(sums, method, Options(**options), rows.reward.shape[1])


def whole_ranking(reward: ArrayLike, propensity: ArrayLike, target: ArrayLike, **options: Any) -> Estimate:
    """Estimate by IPS of whole rankings: (1/n) Σ (Σ_p reward[p]) · target / propensity.

    Assumes nothing about users, and needs far longer logs than the others.

    Args:
      reward: One row per ranking, one column per position.
      propensity: The probability of the seen part in the log, one per ranking.
      target: The same under the target policy.
      **options: Fields of `Options`.
    """
    rows = rows_of(finite_floats(reward, 2, "reward").sum(axis=1), propensity, target)
    return Estimate.of(Sums.of([series_of(rows, "ips", math.inf)]), "whole_ranking", Options(**options))


def pseudo_inverse(reward: ArrayLike, weight: ArrayLike, **options: Any) -> Estimate:
    """Estimate by (1/n) Σ reward · weight with the weights of `slate_weight`.

    Unbiased when the reward is a sum of unknown parts, one per item and position, even though only the sum is seen.
    Weights may be negative. The Hoeffding and Bernstein bounds need `max_weight`.
    Reference: Swaminathan, Krishnamurthy, Agarwal, Dudík, Langford, Jose and Zitouni (2017), Off-policy Evaluation for
    Slate Recommendation.

    Args:
      reward: The reward of each ranking.
      weight: The weight of each ranking; may be negative.
      **options: Fields of `Options`.
    """
    earned, weights = finite_floats(reward, 1, "reward"), finite_floats(weight, 1, "weight")
    if earned.shape != weights.shape:
        raise InvalidInput(f"{len(weights)} weights for {len(earned)} rewards")
    if options.get("bound") in RANGE_BOUNDS and not options.get("max_weight"):
        raise InvalidInput("this bound needs max_weight, the largest weight that could occur")
    return Estimate.of(Sums.of([Series.of_weights(earned, weights)]), "pseudo_inverse", Options(**options))


def slate_weight(
    shown: Sequence[int], rankings: ArrayLike, logged: ArrayLike, target: ArrayLike, n_items: int
) -> float:
    """Return q_targetᵀ Γ⁺ 1_shown: the pseudo-inverse weight of one logged ranking.

    1_y marks which item stands at which position, Γ = Σ_y logged(y) · 1_y 1_yᵀ and q_target = Σ_y target(y) · 1_y.

    Args:
      shown: The items that were shown, by position.
      rankings: All seen parts that either policy can show.
      logged: Their probabilities in the log.
      target: Their probabilities under the target policy.
      n_items: The number of items.
    """
    if whole_number(n_items, "n_items", 1) > MAX_ITEMS:
        raise InvalidInput(f"n_items = {n_items} is more than the {MAX_ITEMS} that a matrix of all positions can hold")
    listed = [_indicator(ranking, n_items) for ranking in rows_in(rankings, "rankings")]
    mark = _indicator(shown, n_items)
    if any(len(marked) != len(mark) for marked in listed):
        raise InvalidInput("the shown part of every ranking must be as long as what was shown")
    marks = np.array(listed)
    logged_probs, target_probs = finite_floats(logged, 1, "logged"), finite_floats(target, 1, "target")
    for name, probabilities in (("logged", logged_probs), ("target", target_probs)):
        if len(probabilities) != len(marks) or abs(probabilities.sum() - 1.0) > 1e-6 or probabilities.min() < 0.0:
            raise InvalidInput(f"{name} must be probabilities that sum to 1, one for each of {len(marks)} rankings")
    second_moments = (marks * logged_probs[:, None]).T @ marks
    return float(target_probs @ marks @ np.linalg.pinv(second_moments, rcond=1e-10) @ mark)


def _indicator(ranking: ArrayLike, n_items: int) -> Floats:
    """Return 1_y as a vector: entry position · n_items + item is 1 where this item stands at this position."""
    items = item_indices(ranking, "ranking")
    if len(items) and (items.min() < 0 or items.max() >= n_items):
        raise InvalidInput(f"the ranking {items.tolist()} names an item outside 0 … {n_items - 1}")
    mark = np.zeros(len(items) * n_items)
    mark[np.arange(len(items)) * n_items + items] = 1.0
    return mark


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def slate_series(rows: ChoiceRows, cascade: bool) -> Series:
    """Return the summands of `position_wise` or `cascade_ips`, one per ranking; its weight is the mean over positions.

    Args:
      rows: Rewards and probabilities by ranking and position.
      cascade: The probabilities are those given the items above, and are multiplied.
    """
    weight, propensity = rows.target / rows.propensity, rows.propensity
    if cascade:
        weight, propensity = (np.cumprod(part, axis=1, dtype=np.float64) for part in (weight, propensity))
    top, extremes = (weight * rows.reward).sum(axis=1), Extremes.of(weight, [rows.reward], propensity)
    return Series(top, np.ones(len(top)), rows.reward.sum(axis=1), weight.mean(axis=1), extremes)

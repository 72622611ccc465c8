"""The pseudo-inverse estimator: what rankings would earn where only the sum over their positions is known."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, finite_floats, item_indices, rows_in, whole_number
from rankloop.evaluation.off_policy.estimators import Estimate, Options
from rankloop.evaluation.off_policy.running_sums import RANGE_BOUNDS, Series, Sums

MAX_ITEMS = 10_000


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


def slate_weight(shown: ArrayLike, rankings: ArrayLike, logged: ArrayLike, target: ArrayLike, n_items: int) -> float:
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

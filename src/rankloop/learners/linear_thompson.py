"""Linear Thompson sampling: rank by weights that are drawn from a belief about them."""

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_between
from rankloop.core.kernels import kernel, normals
from rankloop.core.learner import LinearLearner, best_ranking, clicks_by_item, require_finite, shown_or_all
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Decision, Feedback, Floats, Ints, Problem, Query
from rankloop.learners._shared.joint_features import examined_count

MIN_DEVIATION, MAX_DEVIATION = 1e-150, 1e150  # deviations: their squares are numbers too
MIN_PIVOT_SHARE = 1e-12  # a pivot below this share of its diagonal is rounding error


class State(NamedTuple):
    """A normal belief about the weights."""

    weights: Floats  # The mean.
    precision: Floats  # The inverse of the covariance.
    moment: Floats  # precision · mean.
    shown: int  # The number of positions that are seen, −1 for all.

    def reachable(self, initial: "State") -> bool:
        """Return true if no precision is below its start, so that the diagonal can be divided by."""
        return bool(np.all(np.diag(self.precision) >= np.diag(initial.precision)))


@kernel
def _cholesky(matrix: Floats) -> Floats:
    """Return the lower triangle L with L Lᵀ = matrix."""
    n = len(matrix)
    lower = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            if i == j:
                lower[i, i] = np.sqrt(max(total, MIN_PIVOT_SHARE * matrix[i, i]))
            else:
                lower[i, j] = total / lower[j, j]
    return lower


@kernel
def _drawn_weights(precision: Floats, moment: Floats, normals: Floats) -> Floats:
    """Return mean + L⁻ᵀ · normals with L Lᵀ = precision: a draw from the belief, or its mean for normals of 0."""
    n = len(moment)
    lower, values = _cholesky(precision), np.empty(n)
    for i in range(n):
        total = moment[i]
        for k in range(i):
            total -= lower[i, k] * values[k]
        values[i] = total / lower[i, i]
    values += normals
    for i in range(n - 1, -1, -1):
        total = values[i]
        for k in range(i + 1, n):
            total -= lower[k, i] * values[k]
        values[i] = total / lower[i, i]
    return values


@kernel
def _updated(
    features: Floats, precision: Floats, moment: Floats, certainty: float, ranking: Ints, shown: int, clicked: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return mean, precision and moment after a least-squares step of clicks on features over the examined items."""
    new_precision, new_moment = precision.copy(), moment.copy()
    for position in range(examined_count(ranking, shown, clicked)):
        row = features[ranking[position]]
        for i in range(len(row)):
            new_moment[i] += certainty * clicked[ranking[position]] * row[i]
            for j in range(len(row)):
                new_precision[i, j] += certainty * row[i] * row[j]
    return _drawn_weights(new_precision, new_moment, np.zeros(len(moment))), new_precision, new_moment


@register("linear_thompson")
class LinearThompson(LinearLearner):
    """Rank by features · θ, with θ drawn from the normal belief of a linear regression of clicks on features.

    The items down to the last click were examined, or all that were shown without a click. Each of them, with features
    x, adds

      x xᵀ / `noise`² to the precision, which begins at I / `prior`², and
      click · x / `noise`² to precision · mean.

    The mean click rate is part of the regression: give the items a constant feature. Use it for tens of features where
    every list may be explored; its step costs n_features³. The probability of a ranking has no closed form: `log_prob`
    is nan.

    Args:
      noise: The standard deviation of a click about its mean.
      prior: The standard deviation of each weight at first.
      start: The first mean; zeros if empty.

    References:
      Agrawal and Goyal (2013), Thompson Sampling for Contextual Bandits with Linear Payoffs. Zong et al. (2016),
      Cascading Bandits for Large-Scale Recommendation Problems (CascadeLinTS).

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("linear_thompson", "linear_gaussian(n_items=6, n_features=3)", "dcm", "nDCG@5"), 3)
      0.902
    """

    noise: float = 1.0
    prior: float = 1.0
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Clicks,)

    def __post_init__(self) -> None:
        check_between(MIN_DEVIATION, MAX_DEVIATION, noise=self.noise, prior=self.prior)
        super().__post_init__()

    def init(self, problem: Problem) -> State:
        start = self.first_weights(problem)
        precision = np.eye(problem.n_features) / self.prior**2
        return State(start, precision, start / self.prior**2, shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        weights = _drawn_weights(state.precision, state.moment, normals(rng, len(state.moment)))
        return Decision(best_ranking(query.features, weights), float("nan"), ())

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        clicked, certainty = clicks_by_item(feedback, query.n_items), self.noise**-2
        weights, precision, moment = _updated(
            query.features, state.precision, state.moment, certainty, decision.ranking, state.shown, clicked
        )
        return State(require_finite(weights), require_finite(precision), require_finite(moment), state.shown)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return float("nan")

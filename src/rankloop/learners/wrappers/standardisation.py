"""Features with mean 0 and deviation 1, by moments that are learned from the queries."""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.learner import require_finite
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Spec, register
from rankloop.core.types import Decision, Feedback, Floats, Problem, Query, R
from rankloop.learners.wrappers.base import FeatureMap

MIN_RELATIVE_DEVIATION = 1e-12  # a deviation this small beside the mean is rounding, not information


class State(NamedTuple):
    """The moments of the features."""

    n_rows: int  # The number of items.
    mean: Floats  # The mean of each feature.
    squares: Floats  # The summed squared deviations from the mean.
    inner: Any  # The state of the inner learner.


@kernel
def _add_rows(n_rows: int, mean: Floats, squares: Floats, features: Floats) -> tuple[Floats, Floats]:
    """Return mean and squares after Welford's update, which is exact for constant and accurate for large features."""
    mean, squares = mean.copy(), squares.copy()
    for i in range(len(features)):
        part = 1.0 / (n_rows + i + 1)
        for j in range(len(mean)):
            gap = features[i, j] - mean[j]
            mean[j] += gap * part
            squares[j] += gap * (features[i, j] - mean[j])
    return mean, squares


@kernel
def _scale_rows(n_rows: int, mean: Floats, squares: Floats, features: Floats) -> Floats:
    """Return (features − mean) / deviation; 0 for features that never varied, unchanged before the first item."""
    if n_rows == 0:
        return features
    factors = np.empty(len(mean))
    for j in range(len(mean)):
        deviation = np.sqrt(squares[j] / n_rows)
        factors[j] = 1.0 / deviation if deviation > MIN_RELATIVE_DEVIATION * abs(mean[j]) else 0.0
    scaled = np.empty(features.shape)
    for i in range(len(features)):
        for j in range(len(mean)):
            scaled[i, j] = (features[i, j] - mean[j]) * factors[j]
    return scaled


@register("standardised")
class Standardised(FeatureMap):
    """Scale features to mean 0 and deviation 1 before `inner` sees them.

      x ↦ (x − mean) / deviation, over all items learned from so far.

    `learn` first adds the query's items to the moments, then scales with them; `rank` and `log_prob` scale with the
    moments of the state. A feature that never varied counts as 0. Use it whenever features differ in scale: a step size
    then means the same for each of them. An item that lacks a named feature gets the mean of the other candidates.

    Args:
      inner: The learner of the scaled features.

    References:
      Welford (1962), Note on a Method for Calculating Corrected Sums of Squares and Products.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("standardised(inner='newton_pairs')", "web_search", "dcm", "nDCG@10"), 3)
      0.522
    """

    inner: AnyLearner

    examples: ClassVar[tuple[Spec, ...]] = ({"inner": "online_gradient"}, {"inner": "3pr"})
    fills_gaps: ClassVar[bool] = True

    def init(self, problem: Problem) -> State:
        return State(0, np.zeros(problem.n_features), np.zeros(problem.n_features), self.inner.init(problem))

    def learn(self, state: State, query: Query, decision: Decision[R], feedback: Feedback) -> State:
        mean, squares = _add_rows(state.n_rows, state.mean, state.squares, query.features)
        moments = State(state.n_rows + query.n_items, require_finite(mean), require_finite(squares), None)
        return moments._replace(inner=self.inner.learn(state.inner, self.mapped(moments, query), decision, feedback))

    def mapped(self, state: State, query: Query) -> Query:
        """Return the query with the scaled features."""
        features = _scale_rows(state.n_rows, state.mean, state.squares, query.features)
        return query._replace(features=features)

"""Features brought to mean 0 and deviation 1 on the way in, with moments learned as the queries come."""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.learner import require_finite
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Spec, register
from rankloop.core.types import Decision, Feedback, Floats, Problem, Query, R
from rankloop.learners.wrappers.base import FeatureMap

NOISE = 1e-12  # a deviation this small beside the mean is rounding, not information


class State(NamedTuple):
    """How many items were seen, their mean, their squared deviations from it, and what the wrapped learner knows."""

    n_rows: int
    mean: Floats
    squares: Floats
    inner: Any


@kernel
def add_rows(n_rows: int, mean: Floats, squares: Floats, features: Floats) -> tuple[Floats, Floats]:
    """Welford's update, row by row: exact for constant features, accurate for huge ones."""
    mean, squares = mean.copy(), squares.copy()
    for i in range(len(features)):
        part = 1.0 / (n_rows + i + 1)
        for j in range(len(mean)):
            gap = features[i, j] - mean[j]
            mean[j] += gap * part
            squares[j] += gap * (features[i, j] - mean[j])
    return mean, squares


@kernel
def scale_rows(n_rows: int, mean: Floats, squares: Floats, features: Floats) -> Floats:
    """(features − mean) / deviation; 0 for features that never varied, unchanged before the first item."""
    if n_rows == 0:
        return features
    factors = np.empty(len(mean))
    for j in range(len(mean)):
        deviation = np.sqrt(squares[j] / n_rows)
        factors[j] = 1.0 / deviation if deviation > NOISE * abs(mean[j]) else 0.0
    scaled = np.empty(features.shape)
    for i in range(len(features)):
        for j in range(len(mean)):
            scaled[i, j] = (features[i, j] - mean[j]) * factors[j]
    return scaled


@register("standardised")
class Standardised(FeatureMap):
    """The `inner` learner on features brought to mean 0 and deviation 1.

    (x − mean) / deviation, over all items learned from so far. `learn` first adds the query's items to the moments,
    then scales with them; `rank` and `log_prob` scale with the moments of the state. A feature that never varied counts
    as 0. Use it whenever features differ in size: step sizes then mean the same for each of them, and raw counts of 1e8
    do no harm. An item that lacks a feature by name gets the mean of what the other candidates have: a product without
    a price is not the cheapest one.
    Reference: Welford (1962), Note on a Method for Calculating Corrected Sums of Squares and Products.
    """

    inner: AnyLearner

    examples: ClassVar[tuple[Spec, ...]] = ({"inner": "online_gradient"}, {"inner": "3pr"})
    fills_gaps: ClassVar[bool] = True

    def init(self, problem: Problem) -> State:
        return State(0, np.zeros(problem.n_features), np.zeros(problem.n_features), self.inner.init(problem))

    def learn(self, state: State, query: Query, decision: Decision[R], feedback: Feedback) -> State:
        mean, squares = add_rows(state.n_rows, state.mean, state.squares, query.features)
        moments = State(state.n_rows + query.n_items, require_finite(mean), require_finite(squares), None)
        return moments._replace(inner=self.inner.learn(state.inner, self.mapped(moments, query), decision, feedback))

    def mapped(self, state: State, query: Query) -> Query:
        features = scale_rows(state.n_rows, state.mean, state.squares, query.features)
        return Query(query.id, features, query.context)

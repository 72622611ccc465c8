"""Wrappers that show the learner other features: of mean 0 and deviation 1, or random cosines."""

from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from rankloop.core.checks import Count, PositiveCount, check_between
from rankloop.core.kernels import MAX_FLOAT, kernel, reassociated
from rankloop.core.learner import StateWrapper, require_finite
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Examples, register
from rankloop.core.types import Decision, Feedback, Floats, Problem, Query, R

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
class Standardised(StateWrapper):
    """Scale features to mean 0 and deviation 1 before `inner` sees them.

      x ↦ (x − mean) / deviation, over all items learned from so far.

    `learn` first adds the query's items to the moments, then scales with them; `rank` and `log_prob` scale with the
    moments of the state. A feature that never varied counts as 0. Use it whenever features differ in scale. An item
    that lacks a named feature gets the mean of the other candidates.

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

    examples: ClassVar[Examples] = ({"inner": "online_gradient"}, {"inner": "3pr"})
    fills_gaps: ClassVar[bool] = True

    def init(self, problem: Problem) -> State:
        return State(0, np.zeros(problem.n_features), np.zeros(problem.n_features), self.inner.init(problem))

    def learn(self, state: State, query: Query, decision: Decision[R], feedback: Feedback) -> State:
        mean, squares = _add_rows(state.n_rows, state.mean, state.squares, query.features)
        moments = State(state.n_rows + query.n_items, require_finite(mean), require_finite(squares), state.inner)
        inner_state, scaled_query = self._for_inner(moments, query)
        return moments._replace(inner=self.inner.learn(inner_state, scaled_query, decision, feedback))

    def _for_inner(self, state: State, query: Query) -> tuple[Any, Query]:
        features = _scale_rows(state.n_rows, state.mean, state.squares, query.features)
        return state.inner, query._replace(features=features)


class CosineState(NamedTuple):
    """The drawn directions and phases, which never change, and the state of the inner learner."""

    directions: Floats  # (n_features of the wrapper, features of the problem)
    phases: Floats
    inner: Any


@reassociated
def _cosines(features: Floats, directions: Floats, phases: Floats) -> Floats:
    """Return √(2 / D) · cos(directions · features[i] + phases) row by row; equal rows stay equal."""
    n_out = len(phases)
    scale = np.sqrt(2.0 / n_out)
    mapped = np.empty((len(features), n_out))
    for i in range(len(features)):
        for k in range(n_out):
            angle = 0.0
            for j in range(features.shape[1]):
                angle += directions[k, j] * features[i, j]
            mapped[i, k] = scale * np.cos(angle + phases[k])
    return mapped


@register("random_features")
class RandomFeatures(StateWrapper):
    """Map features to random cosines, so that a linear learner becomes a kernel method of fixed cost.

      x ↦ √(2/D) · cos(W · x + b),  W normal with deviation 1 / `bandwidth`, b uniform on [0, 2π), D = `n_features`.

    Dot products of the new features approach the Gaussian kernel exp(−‖x − y‖² / (2 · bandwidth²)). Use it when no
    linear function ranks well, with features of similar scale (`standardised` outside).

    Args:
      inner: The linear learner.
      n_features: D, the number of new features.
      bandwidth: The width of the Gaussian kernel.
      seed: Decides the random directions and phases.

    References:
      Rahimi and Recht (2007), Random Features for Large-Scale Kernel Machines.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> stream = "linear_gaussian(n_items=6, n_features=3)"
      >>> round(play_mean("random_features(inner='online_gradient')", stream, "full", "nDCG@5"), 3)
      0.895
    """

    inner: AnyLearner
    n_features: PositiveCount = 100
    bandwidth: Annotated[float, partial(check_between, 1e-300, MAX_FLOAT)] = 1.0  # it is divided by
    seed: Count = 0

    examples: ClassVar[Examples] = ({"inner": "online_gradient", "n_features": 8},)

    def init(self, problem: Problem) -> CosineState:
        rng = np.random.default_rng(self.seed)
        directions = rng.standard_normal((self.n_features, problem.n_features)) / self.bandwidth
        phases = 2.0 * np.pi * rng.random(self.n_features)
        mapped = problem._replace(n_features=self.n_features, feature_names=())
        return CosineState(directions, phases, self.inner.init(mapped))

    def learn(self, state: CosineState, query: Query, decision: Decision[R], feedback: Feedback) -> CosineState:
        inner_state, mapped_query = self._for_inner(state, query)
        return state._replace(inner=self.inner.learn(inner_state, mapped_query, decision, feedback))

    def _for_inner(self, state: CosineState, query: Query) -> tuple[Any, Query]:
        return state.inner, query._replace(features=_cosines(query.features, state.directions, state.phases))

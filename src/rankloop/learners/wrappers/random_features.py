"""Random cosine features, with which a linear learner learns functions that are not linear."""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from rankloop.core.checks import Count, PositiveCount, check_positive
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import reassociated
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Spec, register
from rankloop.core.types import Floats, Problem, Query
from rankloop.learners.wrappers.base import FeatureMap

MIN_BANDWIDTH = 1e-300  # bandwidth


class State(NamedTuple):
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
class RandomFeatures(FeatureMap):
    """Map features to random cosines, so that a linear learner becomes a kernel method of fixed cost.

      x ↦ √(2/D) · cos(W · x + b),  W normal with deviation 1 / `bandwidth`, b uniform on [0, 2π), D = `n_features`.

    Dot products of the new features approach the Gaussian kernel exp(−‖x − y‖² / (2 · bandwidth²)). Use it around a
    linear learner when no linear function of the features ranks well, with features of similar scale (`standardised`
    outside).

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
    bandwidth: float = 1.0
    seed: Count = 0

    examples: ClassVar[tuple[Spec, ...]] = ({"inner": "online_gradient", "n_features": 8},)

    def __post_init__(self) -> None:
        check_positive(bandwidth=self.bandwidth)
        if self.bandwidth < MIN_BANDWIDTH:
            raise InvalidInput(f"bandwidth = {self.bandwidth} must be at least {MIN_BANDWIDTH}: it is divided by")

    def init(self, problem: Problem) -> State:
        rng = np.random.default_rng(self.seed)
        directions = rng.standard_normal((self.n_features, problem.n_features)) / self.bandwidth
        phases = 2.0 * np.pi * rng.random(self.n_features)
        mapped = problem._replace(n_features=self.n_features, feature_names=())
        return State(directions, phases, self.inner.init(mapped))

    def mapped(self, state: State, query: Query) -> Query:
        """Return the query with the cosine features."""
        return query._replace(features=_cosines(query.features, state.directions, state.phases))

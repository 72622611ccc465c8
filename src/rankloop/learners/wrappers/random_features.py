"""Random cosine features: a linear learner that learns curved things."""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from rankloop.core.checks import check_at_least, check_positive
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import reassociated
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Spec, register
from rankloop.core.types import Floats, Problem, Query
from rankloop.learners.wrappers.base import FeatureMap

SMALLEST = 1e-300  # bandwidth


class State(NamedTuple):
    """The drawn directions and phases, which never change, and what the wrapped learner knows."""

    directions: Floats  # (n_features of the wrapper, features of the problem)
    phases: Floats
    inner: Any


@reassociated
def cosines(features: Floats, directions: Floats, phases: Floats) -> Floats:
    """√(2 / D) · cos(directions · features[i] + phases), row by row: equal rows stay equal."""
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
    """The `inner` learner on random cosine features: a linear learner learns curved things.

    √(2/D) · cos(W · x + b), W normal with deviation 1 / `bandwidth`, b uniform on [0, 2π), D = `n_features`. Dot
    products of the new features approach the Gaussian kernel exp(−‖x − y‖² / (2 · bandwidth²)), so a linear learner
    becomes a kernel method of fixed cost. The draw depends on `seed` alone. Put it around a linear learner whose
    features are of like size (`standardised` outside) when straight lines are not enough.
    Reference: Rahimi and Recht (2007), Random Features for Large-Scale Kernel Machines.
    """

    inner: AnyLearner
    n_features: int = 100
    bandwidth: float = 1.0
    seed: int = 0

    examples: ClassVar[tuple[Spec, ...]] = ({"inner": "online_gradient", "n_features": 8},)

    def __post_init__(self) -> None:
        check_positive("bandwidth", self.bandwidth)
        if self.bandwidth < SMALLEST:
            raise InvalidInput(f"bandwidth = {self.bandwidth} must be at least {SMALLEST}: it is divided by")
        check_at_least(1, n_features=self.n_features)
        check_at_least(0, seed=self.seed)

    def init(self, problem: Problem) -> State:
        rng = np.random.default_rng(self.seed)
        directions = rng.standard_normal((self.n_features, problem.n_features)) / self.bandwidth
        phases = 2.0 * np.pi * rng.random(self.n_features)
        mapped = problem._replace(n_features=self.n_features, feature_names=())
        return State(directions, phases, self.inner.init(mapped))

    def mapped(self, state: State, query: Query) -> Query:
        return Query(query.id, cosines(query.features, state.directions, state.phases), query.context)

"""Linear Thompson sampling: ranks by weights drawn from what clicks have left uncertain."""

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
FLAT = 1e-12  # a pivot below this share of its diagonal is rounding error


def check_deviations(noise: float, prior: float) -> None:
    """Refuse deviations whose squares, or the inverses of them, are no numbers."""
    check_between(MIN_DEVIATION, MAX_DEVIATION, noise=noise, prior=prior)


class State(NamedTuple):
    """A normal belief over the weights: its mean, its precision, and precision · mean."""

    weights: Floats
    precision: Floats
    moment: Floats
    shown: int

    def reachable(self, initial: "State") -> bool:
        """Precision is only ever added to, so that its diagonal can be divided by."""
        return bool(np.all(np.diag(self.precision) >= np.diag(initial.precision)))


@kernel
def cholesky(matrix: Floats) -> Floats:
    """The lower triangle L with L Lᵀ = matrix."""
    n = len(matrix)
    lower = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            if i == j:
                lower[i, i] = np.sqrt(max(total, FLAT * matrix[i, i]))
            else:
                lower[i, j] = total / lower[j, j]
    return lower


@kernel
def drawn_weights(precision: Floats, moment: Floats, normals: Floats) -> Floats:
    """Mean + L⁻ᵀ · normals with L Lᵀ = precision: a draw from the belief, or its mean when the normals are 0."""
    n = len(moment)
    lower, values = cholesky(precision), np.empty(n)
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
    """Least squares of click or no click on the features, over the items that were examined."""
    new_precision, new_moment = precision.copy(), moment.copy()
    for position in range(examined_count(ranking, shown, clicked)):
        row = features[ranking[position]]
        for i in range(len(row)):
            new_moment[i] += certainty * clicked[ranking[position]] * row[i]
            for j in range(len(row)):
                new_precision[i, j] += certainty * row[i] * row[j]
    return drawn_weights(new_precision, new_moment, np.zeros(len(moment))), new_precision, new_moment


@register("linear_thompson")
class LinearThompson(LinearLearner):
    """Ranks by features · θ with θ drawn from the normal belief of a linear regression of clicks on features.

    Examined are the items down to the last click, or all that were shown when there is none. Each of them adds x xᵀ /
    `noise`² to the precision, which starts at 1 / `prior`², and click · x / `noise`² to precision · mean, the mean
    being `start` at first (zeros unless given). The mean click rate is part of it: give the items a constant feature.

    Use it for tens of features, where every list may be explored; its step costs n_features³.
    References: Agrawal and Goyal (2013), Thompson Sampling for Contextual Bandits with Linear Payoffs; Zong et al.
    (2016), Cascading Bandits for Large-Scale Recommendation Problems (CascadeLinTS).
    """

    noise: float = 1.0
    prior: float = 1.0
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Clicks,)

    def __post_init__(self) -> None:
        check_deviations(self.noise, self.prior)
        super().__post_init__()

    def init(self, problem: Problem) -> State:
        start = self.first_weights(problem)
        precision = np.eye(problem.n_features) / self.prior**2
        return State(start, precision, start / self.prior**2, shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        weights = drawn_weights(state.precision, state.moment, normals(rng, len(state.moment)))
        return Decision(best_ranking(query.features, weights), float("nan"), ())

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        clicked, certainty = clicks_by_item(feedback, query.n_items), self.noise**-2
        weights, precision, moment = _updated(
            query.features, state.precision, state.moment, certainty, decision.ranking, state.shown, clicked
        )
        return State(require_finite(weights), require_finite(precision), require_finite(moment), state.shown)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return float("nan")

"""The ranking perceptron with a kernel, in a memory that never grows."""

from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_at_least, check_positive
from rankloop.core.kernels import kernel, ranking_of, reassociated
from rankloop.core.learner import expect, point_log_prob, require_finite, shown_or_all
from rankloop.core.protocols import Measure
from rankloop.core.registry import Spec, register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.learners.ranking_perceptron import cutoff_and_kind, is_mistake, slam_slope
from rankloop.measures.dcg import NDCG


class State(NamedTuple):
    """Stored items and their coefficients in arrays of fixed size; slot b is free while born[b] is −1."""

    rows: Floats  # (budget, n_features)
    coefficients: Floats  # (budget,)
    born: Ints  # (budget,), running numbers of the stored items
    stored: int  # how many items were ever stored
    mistakes: int
    shown: int


@reassociated
def kernel_scores(features: Floats, rows: Floats, coefficients: Floats, rbf: bool, gamma: float, degree: int) -> Floats:
    """Σ_b coefficients[b] · K(rows[b], x) for each item x."""
    scores = np.zeros(len(features))
    for b in range(len(rows)):
        if coefficients[b] == 0.0:
            continue
        for i in range(len(features)):
            total = 0.0
            if rbf:
                for j in range(features.shape[1]):
                    gap = features[i, j] - rows[b, j]
                    total += gap * gap
                scores[i] += coefficients[b] * np.exp(-gamma * total)
            else:
                for j in range(features.shape[1]):
                    total += features[i, j] * rows[b, j]
                scores[i] += coefficients[b] * (1.0 + gamma * total) ** degree
    return scores


@kernel
def _slot(coefficients: Floats, born: Ints, newcomer: float, oldest: bool) -> int:
    """Where to store: a free slot, else the oldest; or the smallest coefficient unless the newcomer is smaller (−1)."""
    chosen = 0
    for b in range(len(born)):
        if born[b] < 0:
            return b
        older, smaller = born[b] < born[chosen], abs(coefficients[b]) < abs(coefficients[chosen])
        if (oldest and older) or (not oldest and smaller):
            chosen = b
    if not oldest and abs(newcomer) < abs(coefficients[chosen]):
        return -1
    return chosen


@kernel
def _stored(
    rows: Floats, coefficients: Floats, born: Ints, stored: int, features: Floats, new: Floats, oldest: bool
) -> tuple[Floats, Floats, Ints, int]:
    """Copies of the arrays with the items of non-zero `new` put in, largest last so that they stay longest."""
    rows, coefficients, born = rows.copy(), coefficients.copy(), born.copy()
    order = ranking_of(-np.abs(new))
    for item in order[max(len(order) - len(rows), 0) :]:
        if new[item] == 0.0:
            continue
        slot = _slot(coefficients, born, new[item], oldest)
        if slot >= 0:
            rows[slot], coefficients[slot], born[slot] = features[item], new[item], stored
            stored += 1
    return rows, coefficients, born, stored


@register("kernel_perceptron")
class KernelPerceptron:
    """`ranking_perceptron` on scores Σ_b c_b · K(x_b, x), with at most `budget` stored items x_b.

    On a mistake every item with a non-zero slope of the SLAM surrogate is stored with coefficient
    −`learning_rate` · slope; when all slots are taken the `oldest` item or the one with the `smallest` coefficient
    makes room. K(x, z) = exp(−γ·‖x − z‖²) (`rbf`) or (1 + γ·x·z)^`degree` (`polynomial`), with γ = `scale` divided by
    the number of features. The state has the same size from the first round to the last.

    Use it when no linear function of the features ranks well; scores take `budget` times the time of a linear learner,
    and `random_features` is the cheaper way. Scale features first, as with every kernel.
    References: Dekel, Shalev-Shwartz and Singer (2008), The Forgetron; Cavallanti, Cesa-Bianchi and Gentile (2007),
    Tracking the Best Hyperplane with a Simple Budget Perceptron.
    """

    kernel: Literal["rbf", "polynomial"] = "rbf"
    budget: int = 200
    remove: Literal["oldest", "smallest"] = "oldest"
    scale: float = 1.0
    degree: int = 2
    measure: Measure = NDCG(cutoff=10)
    learning_rate: float = 1.0
    margin: float = 1.0

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ("mistakes", "stored")
    examples: ClassVar[tuple[Spec, ...]] = (
        {},
        {"kernel": "polynomial", "budget": 3},
        {"remove": "smallest", "budget": 2},
    )

    def __post_init__(self) -> None:
        for name in ("scale", "learning_rate", "margin"):
            check_positive(name, getattr(self, name))
        check_at_least(1, budget=self.budget, degree=self.degree)
        cutoff_and_kind(self.measure)

    def init(self, problem: Problem) -> State:
        empty = np.zeros((self.budget, problem.n_features))
        return State(empty, np.zeros(self.budget), np.full(self.budget, -1), 0, 0, shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        return Decision(self.predict(state, query), 0.0, ())

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        items, grades = expect(feedback, Relevances)
        scores = require_finite(self.scores(state, query.features))[items]
        cutoff, binary = cutoff_and_kind(self.measure)
        if not is_mistake(scores, grades, cutoff, binary):
            return state
        new = np.zeros(query.n_items)
        new[items] = -self.learning_rate * slam_slope(scores, grades, cutoff, binary, self.margin)
        rows, coefficients, born, stored = _stored(
            state.rows,
            state.coefficients,
            state.born,
            state.stored,
            query.features,
            require_finite(new),
            self.remove == "oldest",
        )
        return State(rows, coefficients, born, stored, state.mistakes + 1, state.shown)

    def predict(self, state: State, query: Query) -> Ints:
        return ranking_of(self.scores(state, query.features))

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return point_log_prob(self.predict(state, query), ranking, state.shown)

    def scores(self, state: State, features: Floats) -> Floats:
        """Σ_b c_b · K(x_b, x) of each row."""
        gamma = self.scale / max(features.shape[1], 1)
        return kernel_scores(features, state.rows, state.coefficients, self.kernel == "rbf", gamma, self.degree)

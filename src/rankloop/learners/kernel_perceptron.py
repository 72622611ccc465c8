"""The ranking perceptron with a kernel, in memory of fixed size."""

from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import Positive, PositiveCount
from rankloop.core.kernels import kernel, ranking_of, reassociated
from rankloop.core.learner import expect, point_log_prob, require_finite, shown_or_all
from rankloop.core.protocols import Measure
from rankloop.core.registry import Spec, register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.learners.ranking_perceptron import cutoff_and_kind, is_mistake
from rankloop.measures.kinds import NDCG
from rankloop.surrogates.pairwise import slam_of


class State(NamedTuple):
    """Stored items and their coefficients, in arrays of fixed size."""

    rows: Floats  # The features of the stored items, (budget, n_features).
    coefficients: Floats  # c_b of each stored item, (budget,).
    born: Ints  # The running number of each stored item; −1 marks a free slot.
    stored: int  # The number of items that were ever stored.
    mistakes: int  # The number of mistakes.
    shown: int  # The number of positions that are seen, −1 for all.


@reassociated
def _kernel_scores(
    features: Floats, rows: Floats, coefficients: Floats, rbf: bool, gamma: float, degree: int
) -> Floats:
    """Return Σ_b coefficients[b] · K(rows[b], x) for each item x."""
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
    """Return a free slot, else the oldest, or that of the smallest coefficient (−1 if the newcomer's is smaller)."""
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
def _stored(state: State, features: Floats, new: Floats, oldest: bool) -> State:
    """Return the state with the items of non-zero `new`, the largest stored last so that they stay."""
    rows, coefficients, born, stored = state.rows.copy(), state.coefficients.copy(), state.born.copy(), state.stored
    order = ranking_of(-np.abs(new))
    for item in order[max(len(order) - len(rows), 0) :]:
        if new[item] == 0.0:
            continue
        slot = _slot(coefficients, born, new[item], oldest)
        if slot >= 0:
            rows[slot], coefficients[slot], born[slot] = features[item], new[item], stored
            stored += 1
    return State(rows, coefficients, born, stored, state.mistakes, state.shown)


@register("kernel_perceptron")
class KernelPerceptron:
    """The `ranking_perceptron` on scores Σ_b c_b · K(x_b, x), with at most `budget` stored items x_b.

    On a mistake every item with a non-zero slope of the SLAM surrogate is stored with the coefficient

      c = −`learning_rate` · slope.

    K(x, z) = exp(−γ·‖x − z‖²) ("rbf") or (1 + γ·x·z)^`degree` ("polynomial"), with γ = `scale` / n_features. The state
    has the same size from the first round to the last.

    Use it when no linear function of the features ranks well. Scores take `budget` times the time of a linear learner;
    `random_features` is cheaper. Scale the features first (`standardised`).

    Args:
      kernel: The kernel K.
      budget: The largest number of stored items.
      remove: The item that is removed when all slots are taken: the oldest, or that with the smallest coefficient.
      scale: γ times the number of features.
      degree: The degree of the polynomial kernel.
      measure: A mistake is a round in which this measure is below its best: nDCG, nDCG@k or AP.
      learning_rate: The step size.
      margin: The margin of the surrogate.

    References:
      Dekel, Shalev-Shwartz and Singer (2008), The Forgetron. Cavallanti, Cesa-Bianchi and Gentile (2007), Tracking the
      Best Hyperplane with a Simple Budget Perceptron.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> stream = "linear_gaussian(n_items=6, n_features=3)"
      >>> round(play_mean("kernel_perceptron(budget=50)", stream, "full", "nDCG@5"), 3)
      0.853
    """

    kernel: Literal["rbf", "polynomial"] = "rbf"
    budget: PositiveCount = 200
    remove: Literal["oldest", "smallest"] = "oldest"
    scale: Positive = 1.0
    degree: PositiveCount = 2
    measure: Measure = NDCG(cutoff=10)
    learning_rate: Positive = 1.0
    margin: Positive = 1.0

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ("mistakes", "stored")
    examples: ClassVar[tuple[Spec, ...]] = (
        {},
        {"kernel": "polynomial", "budget": 3},
        {"remove": "smallest", "budget": 2},
    )

    def __post_init__(self) -> None:
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
        new[items] = -self.learning_rate * slam_of(scores, grades, cutoff, binary, True, self.margin)[1]
        stored = _stored(state, query.features, require_finite(new), self.remove == "oldest")
        return stored._replace(mistakes=state.mistakes + 1)

    def predict(self, state: State, query: Query) -> Ints:
        return ranking_of(self.scores(state, query.features))

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return point_log_prob(self.predict(state, query), ranking, state.shown)

    def scores(self, state: State, features: Floats) -> Floats:
        """Return Σ_b c_b · K(x_b, x) of each row x."""
        gamma = self.scale / max(features.shape[1], 1)
        return _kernel_scores(features, state.rows, state.coefficients, self.kernel == "rbf", gamma, self.degree)

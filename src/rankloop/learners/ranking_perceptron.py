"""Perceptrons: Rosenblatt's, and three that step along a surrogate at every mistake, one of them with a kernel."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from rankloop.core.checks import FiniteNumbers, Positive, PositiveCount
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import add_row, kernel, ranking_of, reassociated, scores_of
from rankloop.core.learner import GreedyLearner, LinearLearner, SparseLearner, expect, require_finite, shown_or_all
from rankloop.core.protocols import Measure
from rankloop.core.registry import Examples, register
from rankloop.core.types import Decision, Features, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.measures.formulas import NO_CUTOFF
from rankloop.measures.kinds import NDCG, AveragePrecision
from rankloop.surrogates.pairwise import slam_of, worst_pair


class State(NamedTuple):
    """The weights."""

    weights: Floats  # One weight for each feature.
    mistakes: int  # The number of mistakes so far.
    shown: int  # The number of positions that are seen, −1 for all.


@kernel
def _is_mistake(scores: Floats, grades: Floats, cutoff: int, binary: bool) -> bool:
    """Return true if an item before the cutoff is followed by a better one; ties are broken against the learner."""
    order = ranking_of(scores)
    best_from_here, group_worst, group_best = 0.0, np.inf, 0.0
    for position in range(len(scores) - 1, -1, -1):
        grade = max(grades[order[position]], 0.0)
        if binary:
            grade = 1.0 if grade >= 1.0 else 0.0
        group_worst, group_best = min(group_worst, grade), max(group_best, grade)
        if position > 0 and scores[order[position - 1]] == scores[order[position]]:
            continue  # the group of equal scores begins further up
        best_from_here = max(best_from_here, group_best)
        if position < cutoff and group_worst < best_from_here:
            return True
        group_worst, group_best = np.inf, 0.0
    return False


@kernel
def moved(weights: Floats, features: Features, items: Ints, slope: Floats, rate: float) -> Floats:
    """Return weights − rate · Σ_p slope[p] · features[items[p]], as a new array.

    Args:
      weights: The weights before.
      features: The features of the query's items.
      items: The items that have a slope.
      slope: Their slopes.
      rate: The step size.
    """
    after = weights.copy()
    for position in range(len(items)):
        if slope[position] != 0.0:
            add_row(after, features, items[position], -rate * slope[position])
    return after


# The parameters of the steps are passed alone, because a tuple of them makes a round slower by a tenth.
@kernel
def _slam_step(
    weights: Floats, rows: Features, items: Ints, grades: Floats, cutoff: int, binary: bool, margin: float, rate: float
) -> tuple[Floats, bool]:
    """Return the weights after a step along (2.16) in Algorithm 2 of Chaudhuri (2016), and true after a mistake."""
    scores = scores_of(rows, weights)[items]
    if not _is_mistake(scores, grades, cutoff, binary):
        return weights, False
    return moved(weights, rows, items, slam_of(scores, grades, cutoff, binary, True, margin)[1], rate), True


@kernel
def _pair_step(
    weights: Floats, rows: Features, items: Ints, grades: Floats, cutoff: int, binary: bool, margin: float, rate: float
) -> tuple[Floats, bool]:
    """Return the result of `_slam_step` for a step along the worst pair, (2.28): Algorithm 3 of Chaudhuri (2016)."""
    scores = scores_of(rows, weights)[items]
    if not _is_mistake(scores, grades, cutoff, binary):
        return weights, False
    return moved(weights, rows, items, worst_pair(scores, grades, margin)[1], rate), True


def cutoff_and_kind(measure: Measure) -> tuple[int, bool]:
    """Return the cutoff of a measure that the perceptrons can bound, and true if it is AP."""
    if isinstance(measure, NDCG) and measure.gain == "exponential":
        return measure.cutoff or NO_CUTOFF, False
    if isinstance(measure, AveragePrecision) and measure.cutoff is None and measure.relevant_from == 1.0:
        return NO_CUTOFF, True
    raise InvalidInput(f"{measure} has no weights with a guarantee: choose nDCG, nDCG@k or AP with default gains")


class _CountsMistakes(GreedyLearner, LinearLearner):
    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ("mistakes",)

    def init(self, problem: Problem) -> State:
        return State(self.first_weights(problem), 0, shown_or_all(problem))


@dataclass(frozen=True, kw_only=True)
class MistakeDriven(_CountsMistakes, SparseLearner):
    """A learner that takes a step whenever the measure is below its best."""

    measure: Measure = NDCG(cutoff=10)  # noqa: RUF009  frozen
    learning_rate: Positive = 1.0
    margin: Positive = 1.0
    start: FiniteNumbers = ()

    one_pair: ClassVar[bool]

    def __post_init__(self) -> None:
        cutoff_and_kind(self.measure)

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        items, grades = expect(feedback, Relevances)
        step, (cutoff, binary) = _pair_step if self.one_pair else _slam_step, cutoff_and_kind(self.measure)
        margin, rate, features = self.margin, self.learning_rate, query.features
        weights, mistaken = step(state.weights, features, items, grades, cutoff, binary, margin, rate)
        return State(require_finite(weights), state.mistakes + 1, state.shown) if mistaken else state


@register("ranking_perceptron")
class RankingPerceptron(MistakeDriven):
    """Step down the gradient of the SLAM surrogate whenever the measure is below its best.

      On a mistake w ← w − `learning_rate` · ∇_w slam(features · w, relevance), else w stays.

    A mistake is a round whose `measure` is below its best, ties broken against the learner; `slam` has the weights of
    that measure and this `margin`. On data that some w ranks perfectly with a margin, the summed loss of the measure
    stays bounded. If only the first items are graded, these are its list. Use it when the data are nearly separable.

    Args:
      measure: nDCG, nDCG@k or AP.
      learning_rate: The step size.
      margin: The margin of the surrogate.
      start: The first weights; zeros if empty.

    References:
      Chaudhuri and Tewari (2015), Perceptron-like Algorithms for Online Learning to Rank. Chaudhuri (2016), Learning to
      Rank: Online Learning, Statistical Theory and Applications, Algorithm 2.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("ranking_perceptron", "separable(n_queries=50)", "full", "nDCG@5"), 3)
      0.991
    """

    one_pair: ClassVar[bool] = False
    examples: ClassVar[Examples] = ({}, {"measure": "AP"}, {"measure": "nDCG@2", "margin": 0.5})


@register("max_pair_perceptron")
class MaxPairPerceptron(MistakeDriven):
    """Step along the worst-ordered pair whenever the measure is below its best.

      On a mistake w ← w + `learning_rate` · (features[i] − features[j]), else w stays.

    (i, j) is the pair with relevance[i] > relevance[j] whose hinge `margin` + scores[j] − scores[i] is largest; a
    mistake is as in `ranking_perceptron`. Its loss on separable data, at most 4·R²/margin², is the best that a
    deterministic learner can guarantee; on other data it is usually worse: it ignores the position of a mistake.

    Args:
      measure: nDCG, nDCG@k or AP.
      learning_rate: The step size.
      margin: The margin of the hinge.
      start: The first weights; zeros if empty.

    References:
      Chaudhuri and Tewari (2015), Perceptron-like Algorithms for Online Learning to Rank. Chaudhuri (2016), Learning to
      Rank: Online Learning, Statistical Theory and Applications, Algorithm 3.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("max_pair_perceptron", "separable(n_queries=50)", "full", "nDCG@5"), 3)
      0.987
    """

    one_pair: ClassVar[bool] = True
    examples: ClassVar[Examples] = ({}, {"measure": "AP"})


@kernel
def _correct(
    weights: Floats, features: Floats, items: Ints, grades: Floats, relevant_from: float, rate: float
) -> tuple[Floats, int]:
    """Run Algorithm 1 of Chaudhuri (2016) over the graded items; a score of 0 is a mistake."""
    after, mistakes = weights.copy(), 0
    for position in range(len(items)):
        row = items[position]
        label = 1.0 if grades[position] >= relevant_from else -1.0
        if label * scores_of(features[row : row + 1], after)[0] <= 0.0:
            mistakes += 1
            add_row(after, features, row, rate * label)
    return after, mistakes


@register("perceptron")
class Perceptron(_CountsMistakes):
    """The perceptron for classification, whose scores rank the items.

      For each graded item x with sign(w·x) ≠ y: w ← w + `learning_rate` · y · x.

    y is +1 for grades from `relevant_from` on, else −1. The items of a round are taken one after another in shown
    order. There is no threshold: add a constant feature to have one. It is the reference for the ranking perceptrons.

    Args:
      learning_rate: The step size.
      relevant_from: The smallest grade that is relevant.
      start: The first weights; zeros if empty.

    References:
      Novikoff (1962), On Convergence Proofs on Perceptrons. Chaudhuri (2016), Learning to Rank: Online Learning,
      Statistical Theory and Applications, Algorithm 1.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("perceptron", "linear_gaussian(n_items=6, n_features=3)", "full", "nDCG@5"), 3)
      0.871
    """

    learning_rate: Positive = 1.0
    relevant_from: Positive = 1.0
    start: FiniteNumbers = ()

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        items, grades = expect(feedback, Relevances)
        rate, threshold = self.learning_rate, self.relevant_from
        weights, mistakes = _correct(state.weights, query.features, items, grades, threshold, rate)
        return State(require_finite(weights), state.mistakes + mistakes, state.shown) if mistakes else state


class KernelState(NamedTuple):
    """Stored items and their coefficients, in arrays of fixed size."""

    rows: Floats  # The features of the stored items, (budget, n_features).
    coefficients: Floats  # c_b of each stored item, (budget,).
    born: Ints  # The running number of each stored item; −1 marks a free slot.
    stored: int  # The number of items that were ever stored.
    mistakes: int  # The number of mistakes.
    shown: int  # The number of positions that are seen, −1 for all.


@reassociated
def _kernel_scores(features: Floats, rows: Floats, factors: Floats, rbf: bool, gamma: float, degree: int) -> Floats:
    """Return Σ_b factors[b] · K(rows[b], x) for each item x."""
    scores = np.zeros(len(features))
    for b in range(len(rows)):
        if factors[b] == 0.0:
            continue
        for i in range(len(features)):
            total = 0.0
            if rbf:
                for j in range(features.shape[1]):
                    gap = features[i, j] - rows[b, j]
                    total += gap * gap
                scores[i] += factors[b] * np.exp(-gamma * total)
            else:
                for j in range(features.shape[1]):
                    total += features[i, j] * rows[b, j]
                scores[i] += factors[b] * (1.0 + gamma * total) ** degree
    return scores


@kernel
def _stored(state: KernelState, features: Floats, new: Floats, oldest: bool) -> KernelState:
    """Return the state with the items of non-zero `new`, the largest stored last so that they stay."""
    rows, coefficients, born, stored = state.rows.copy(), state.coefficients.copy(), state.born.copy(), state.stored
    order = ranking_of(-np.abs(new))
    for item in order[max(len(order) - len(rows), 0) :]:
        if new[item] == 0.0:
            continue
        slot = 0  # a free one, else the oldest or that of the smallest coefficient
        for b in range(len(born)):
            if born[b] < 0:
                slot = b
                break
            if born[b] < born[slot] if oldest else abs(coefficients[b]) < abs(coefficients[slot]):
                slot = b
        if oldest or born[slot] < 0 or abs(new[item]) >= abs(coefficients[slot]):
            rows[slot], coefficients[slot], born[slot] = features[item], new[item], stored
            stored += 1
    return KernelState(rows, coefficients, born, stored, state.mistakes, state.shown)


@register("kernel_perceptron")
class KernelPerceptron(GreedyLearner):
    """The `ranking_perceptron` on scores Σ_b c_b · K(x_b, x), with at most `budget` stored items x_b.

    On a mistake every item with a non-zero slope of the SLAM surrogate is stored with the coefficient

      c = −`learning_rate` · slope.

    K(x, z) = exp(−γ·‖x − z‖²) ("rbf") or (1 + γ·x·z)^`degree` ("polynomial"), with γ = `scale` / n_features. The state
    has the same size from the first round to the last.

    Use it when no linear function ranks well, with features of similar scale (`standardised`). Scores take `budget`
    times the time of a linear learner; `random_features` is cheaper.

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
    examples: ClassVar[Examples] = ({}, {"kernel": "polynomial", "budget": 3}, {"remove": "smallest", "budget": 2})

    def __post_init__(self) -> None:
        cutoff_and_kind(self.measure)

    def init(self, problem: Problem) -> KernelState:
        empty = np.zeros((self.budget, problem.n_features))
        return KernelState(empty, np.zeros(self.budget), np.full(self.budget, -1), 0, 0, shown_or_all(problem))

    def learn(self, state: KernelState, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> KernelState:
        items, grades = expect(feedback, Relevances)
        scores = require_finite(self.scores(state, query.features))[items]
        cutoff, binary = cutoff_and_kind(self.measure)
        if not _is_mistake(scores, grades, cutoff, binary):
            return state
        new = np.zeros(query.n_items)
        new[items] = -self.learning_rate * slam_of(scores, grades, cutoff, binary, True, self.margin)[1]
        stored = _stored(state, query.features, require_finite(new), self.remove == "oldest")
        return stored._replace(mistakes=state.mistakes + 1)

    def predict(self, state: KernelState, query: Query) -> Ints:
        return ranking_of(self.scores(state, query.features))

    def scores(self, state: KernelState, features: Floats) -> Floats:
        """Return Σ_b c_b · K(x_b, x) of each row x."""
        gamma = self.scale / max(features.shape[1], 1)
        return _kernel_scores(features, state.rows, state.coefficients, self.kernel == "rbf", gamma, self.degree)

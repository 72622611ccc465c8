"""Perceptrons: Rosenblatt's, and for ranking a step on the SLAM surrogate or on the worst pair at every mistake."""

import functools
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import add_row, kernel, ranking_of, scores_of
from rankloop.core.learner import GreedyLearner, SparseLearner, expect, require_finite, shown_or_all
from rankloop.core.protocols import Measure
from rankloop.core.registry import Spec, register
from rankloop.core.types import Decision, Features, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.measures.dcg import NDCG
from rankloop.measures.formulas import NO_CUTOFF
from rankloop.measures.precision import AveragePrecision
from rankloop.surrogates.max_pair import worst_pair
from rankloop.surrogates.slam import slam_of_ap, slam_of_ndcg


class State(NamedTuple):
    """The weights, and how many mistakes they were corrected for."""

    weights: Floats
    mistakes: int
    shown: int


@kernel
def is_mistake(scores: Floats, grades: Floats, cutoff: int, binary: bool) -> bool:
    """Whether nDCG@cutoff (`binary`: AP) of the order by `scores` is below its best, ties broken for the worst."""
    order = ranking_of(scores)
    return is_mistaken_order(scores[order], grades[order], cutoff, binary)


@kernel
def is_mistaken_order(scores: Floats, grades: Floats, cutoff: int, binary: bool) -> bool:
    """`is_mistake` for items that stand by descending score.

    It is one when an item in, or tied with, the positions before the cutoff is followed by, or tied with, a better one.
    """
    best_from_here, group_worst, group_best = 0.0, np.inf, 0.0
    for position in range(len(scores) - 1, -1, -1):
        grade = max(grades[position], 0.0)
        if binary:
            grade = 1.0 if grade >= 1.0 else 0.0
        group_worst, group_best = min(group_worst, grade), max(group_best, grade)
        if position > 0 and scores[position - 1] == scores[position]:
            continue  # the group of equal scores begins further up
        best_from_here = max(best_from_here, group_best)
        if position < cutoff and group_worst < best_from_here:
            return True
        group_worst, group_best = np.inf, 0.0
    return False


@kernel
def slam_slope(scores: Floats, grades: Floats, cutoff: int, binary: bool, margin: float) -> Floats:
    """The gradient in the scores of the SLAM surrogate of nDCG@cutoff, or of AP when `binary`."""
    if binary:
        return slam_of_ap(scores, grades, margin)[1]
    return slam_of_ndcg(scores, grades, cutoff, True, margin)[1]


@kernel
def moved(weights: Floats, features: Features, items: Ints, slope: Floats, rate: float) -> Floats:
    """weights − rate · Σ_p slope[p] · features[items[p]], as a new array."""
    after = weights.copy()
    for position in range(len(items)):
        if slope[position] != 0.0:
            add_row(after, features, items[position], -rate * slope[position])
    return after


@kernel
def _slam_step(
    weights: Floats,
    features: Features,
    items: Ints,
    grades: Floats,
    cutoff: int,
    binary: bool,
    margin: float,
    rate: float,
) -> tuple[Floats, bool]:
    """The weights after a round, and whether there was a mistake; the graded items are the list at hand.

    Handing over a tuple of parameters would make a round slower by a tenth.
    """
    scores = scores_of(features, weights)[items]
    if not is_mistake(scores, grades, cutoff, binary):
        return weights, False
    return moved(weights, features, items, slam_slope(scores, grades, cutoff, binary, margin), rate), True


@kernel
def _pair_step(
    weights: Floats,
    features: Features,
    items: Ints,
    grades: Floats,
    cutoff: int,
    binary: bool,
    margin: float,
    rate: float,
) -> tuple[Floats, bool]:
    """As `_slam_step`, along the worst pair alone."""
    scores = scores_of(features, weights)[items]
    if not is_mistake(scores, grades, cutoff, binary):
        return weights, False
    return moved(weights, features, items, worst_pair(scores, grades, margin)[1], rate), True


def cutoff_and_kind(measure: Measure) -> tuple[int, bool]:
    """(cutoff, whether it is AP) of a measure that the perceptrons know how to bound."""
    if isinstance(measure, NDCG) and measure.gain == "exponential":
        return measure.cutoff or NO_CUTOFF, False
    if isinstance(measure, AveragePrecision) and measure.cutoff is None and measure.relevant_from == 1.0:
        return NO_CUTOFF, True
    raise InvalidInput(
        f"{measure} has no weights with a guarantee: choose nDCG, nDCG@k or AP, with their default gains"
    )


@dataclass(frozen=True, kw_only=True)
class MistakeDriven(GreedyLearner, SparseLearner):
    """Takes a step whenever the measure sees a mistake: along the SLAM surrogate, or along the worst pair alone."""

    measure: Measure = NDCG(cutoff=10)  # noqa: RUF009  frozen
    learning_rate: float = 1.0
    margin: float = 1.0
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ("mistakes",)
    one_pair: ClassVar[bool]

    def __post_init__(self) -> None:
        super().__post_init__()
        cutoff_and_kind(self.measure)

    @functools.cached_property
    def _mistakes_of(self) -> tuple[int, bool]:
        return cutoff_and_kind(self.measure)

    def init(self, problem: Problem) -> State:
        return State(self.first_weights(problem), 0, shown_or_all(problem))

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        items, grades = expect(feedback, Relevances)
        step, (cutoff, binary) = _pair_step if self.one_pair else _slam_step, self._mistakes_of
        weights, mistaken = step(
            state.weights, query.features, items, grades, cutoff, binary, self.margin, self.learning_rate
        )
        return State(require_finite(weights), state.mistakes + 1, state.shown) if mistaken else state


@register("ranking_perceptron")
class RankingPerceptron(MistakeDriven):
    """Algorithm 2 of Chaudhuri (2016): on a mistake w ← w − η · ∇_w slam(features · w, relevance), else w stays.

    A mistake is a round whose `measure` (nDCG, nDCG@k or AP) is below its best, ties broken against the learner; `slam`
    has the weights of that measure and this `margin`; η is `learning_rate`. On data that some w ranks perfectly with a
    margin, the summed loss of the measure stays bounded however long it runs. With grades of the first items only,
    these alone are its list.

    Use it with full relevance when the data are nearly separable, or when most rounds should cost no update.
    Reference: Chaudhuri and Tewari (2015), Perceptron-like Algorithms for Online Learning to Rank.
    """

    one_pair: ClassVar[bool] = False
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"measure": "AP"}, {"measure": "nDCG@2", "margin": 0.5})


@register("max_pair_perceptron")
class MaxPairPerceptron(MistakeDriven):
    """Algorithm 3 of Chaudhuri (2016): on a mistake w ← w + η · (features[i] − features[j]) for the worst-ordered pair.

    (i, j) is the pair with relevance[i] > relevance[j] whose hinge `margin` + scores[j] − scores[i] is largest
    (`max_pair`); a mistake is a round whose `measure` is below its best, ties broken against the learner. From zero
    weights every η = `learning_rate` gives the same rankings.

    Its loss on separable data, at most 4·R²/margin², is the best that any deterministic learner can promise; on data
    that are not separable it is usually worse than `ranking_perceptron`, as it ignores where in the list a mistake is.
    Reference: Chaudhuri and Tewari (2015), Perceptron-like Algorithms for Online Learning to Rank.
    """

    one_pair: ClassVar[bool] = True
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"measure": "AP"})


@kernel
def _correct(
    weights: Floats, features: Floats, items: Ints, grades: Floats, relevant_from: float, rate: float
) -> tuple[Floats, int]:
    """Go through the graded items in shown order; a score of 0 is a mistake whatever the label."""
    after, mistakes = weights.copy(), 0
    for position in range(len(items)):
        row = items[position]
        label = 1.0 if grades[position] >= relevant_from else -1.0
        score = scores_of(features[row : row + 1], after)[0]
        if label * score <= 0.0:
            mistakes += 1
            for j in range(len(after)):
                after[j] += rate * label * features[row, j]
    return after, mistakes


@register("perceptron")
class Perceptron(GreedyLearner):
    """The perceptron for classification: for each graded item x that sign(w·x) gets wrong, w ← w + η · y · x.

    y = +1 for grades from `relevant_from` on, else −1; η = `learning_rate`. The items of a round are taken one after
    another in shown order, and ranked by w·x. There is no threshold: add a constant feature to have one.

    The reference point of the ranking perceptrons, which need no threshold and see the list as a whole.
    Reference: Novikoff (1962), On Convergence Proofs on Perceptrons; Algorithm 1 of Chaudhuri (2016).
    """

    learning_rate: float = 1.0
    relevant_from: float = 1.0
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ("mistakes",)

    def init(self, problem: Problem) -> State:
        return State(self.first_weights(problem), 0, shown_or_all(problem))

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        items, grades = expect(feedback, Relevances)
        rate, threshold = self.learning_rate, self.relevant_from
        weights, mistakes = _correct(state.weights, query.features, items, grades, threshold, rate)
        return State(require_finite(weights), state.mistakes + mistakes, state.shown) if mistakes else state

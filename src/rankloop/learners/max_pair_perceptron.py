"""The perceptron for ranking whose guarantee does not grow with the list: one pair is corrected per mistake."""

from __future__ import annotations

import functools
from typing import ClassVar, NamedTuple

from numpy.random import Generator

from rankloop.core.kernels import kernel, scores_of, stable
from rankloop.core.learning import (
    best_ranking,
    check_finite,
    check_positive,
    expect,
    point_log_prob,
    shown_or_all,
    start_weights,
)
from rankloop.core.protocols import Measure
from rankloop.core.registry import Spec, register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.learners.steps import cutoff_and_kind, is_mistake, moved
from rankloop.measures.dcg import NDCG
from rankloop.surrogates.max_pair import MaxPair


class State(NamedTuple):
    """The weights, and how often they were changed."""

    weights: Floats
    mistakes: int
    shown: int


@kernel
def _judged(
    weights: Floats, features: Floats, items: Ints, grades: Floats, cutoff: int, binary: bool
) -> tuple[Floats, bool]:
    """The scores of the graded items, and whether their order is a mistake."""
    scores = scores_of(features, weights)[items]
    return scores, is_mistake(scores, grades, cutoff, binary)


@functools.cache
def _surrogate(margin: float) -> MaxPair:
    return MaxPair(margin=margin)


@register("max_pair_perceptron")
class MaxPairPerceptron:
    """Algorithm 3 of Chaudhuri (2016): on a mistake w ← w + η · (features[i] − features[j]) for the worst-ordered pair.

    (i, j) is the pair with relevance[i] > relevance[j] whose hinge `margin` + scores[j] − scores[i] is largest
    (`max_pair`); a mistake is a round whose `measure` is below its best, ties broken against the learner. From zero
    weights every η = `learning_rate` gives the same rankings.

    Its loss on separable data, at most 4·R²/margin², is the best that any deterministic learner can promise; on data
    that are not separable it is usually worse than `ranking_perceptron`, as it ignores where in the list a mistake is.
    Reference: Chaudhuri and Tewari (2015), Perceptron-like Algorithms for Online Learning to Rank.
    """

    measure: Measure = NDCG(cutoff=10)
    learning_rate: float = 1.0
    margin: float = 1.0
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ("mistakes",)
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"measure": "AP"})

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        check_positive("margin", self.margin)
        check_finite("start", self.start)
        cutoff_and_kind(self.measure)

    def init(self, problem: Problem) -> State:
        return State(start_weights(self.start, problem.n_features), 0, shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        return Decision(best_ranking(query.features, state.weights), 0.0, ())

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        items, grades = expect(feedback, Relevances)
        scores, mistaken = _judged(state.weights, query.features, items, grades, *cutoff_and_kind(self.measure))
        if not mistaken:
            return state
        _, slope = _surrogate(self.margin).value_and_grad(scores, grades)
        weights = moved(state.weights, query.features, items, slope, self.learning_rate)
        return State(stable(weights), state.mistakes + 1, state.shown)

    def predict(self, state: State, query: Query) -> Ints:
        return best_ranking(query.features, state.weights)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return point_log_prob(best_ranking(query.features, state.weights), ranking, state.shown)

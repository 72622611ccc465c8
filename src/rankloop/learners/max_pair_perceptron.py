"""The perceptron for ranking whose guarantee does not grow with the list: one pair is corrected per mistake."""

from __future__ import annotations

from typing import ClassVar

from numpy.random import Generator

from rankloop.core.learner_parts import (
    best_ranking,
    check_finite,
    check_positive,
    point_log_prob,
    shown_or_all,
    start_weights,
)
from rankloop.core.protocols import Measure
from rankloop.core.registry import Spec, register
from rankloop.core.types import Decision, Feedback, Ints, Problem, Query, Relevances
from rankloop.learners._shared.perceptron_step import State, cutoff_and_kind, learned
from rankloop.measures.dcg import NDCG


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
        return learned(state, query.features, feedback, self.measure, self.margin, self.learning_rate, one_pair=True)

    def predict(self, state: State, query: Query) -> Ints:
        return best_ranking(query.features, state.weights)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return point_log_prob(best_ranking(query.features, state.weights), ranking, state.shown)

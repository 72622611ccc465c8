"""The perceptron for ranking: a step on the SLAM surrogate whenever the measure sees a mistake."""

from __future__ import annotations

from typing import ClassVar

from numpy.random import Generator

from rankloop.core.kernels import all_finite, kernel, scores_of
from rankloop.core.learner_parts import (
    best_ranking,
    check_finite,
    check_positive,
    point_log_prob,
    seen_count,
    shown_or_all,
    start_weights,
)
from rankloop.core.protocols import Measure
from rankloop.core.rankings import ranking_of
from rankloop.core.registry import Spec, register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.data.streams.compiled_pool import Pool, keep, more_rounds, next_query, write_round
from rankloop.learners._shared.perceptron_step import (
    State,
    cutoff_and_kind,
    is_mistaken_order,
    learned,
    moved,
    slam_slope,
)
from rankloop.measures.dcg import NDCG


@kernel
def _many_queries(
    weights: Floats, mistakes: int, pool: Pool, cutoff: int, binary: bool, margin: float, rate: float
) -> tuple[Floats, int]:
    """Rounds over a pool of queries until its draws are used up, exactly as `play` would go through them."""
    refused, keeps = 0, len(pool.history) > 0
    while more_rounds(pool, False):
        start, end, first = next_query(pool)
        size, features = end - start, pool.features[start:end]
        order = pool.order[first : first + size]
        scores = scores_of(features, weights)[order]
        ranking = ranking_of(scores)
        if keeps:
            keep(pool, (start, mistakes, refused, 0.0, 0.0), weights)
        write_round(pool, ranking)
        items = ranking[: seen_count(pool.depth, size)]
        shown, grades = scores[items], pool.grades[first : first + size][items]
        if is_mistaken_order(shown, grades, cutoff, binary):
            slope = slam_slope(shown, grades, cutoff, binary, margin)
            after = moved(weights, features, order[items], slope, rate)
            if all_finite(after):
                weights, mistakes = after, mistakes + 1
            else:
                refused += 1
    if keeps:
        keep(pool, (0, mistakes, refused, 0.0, 0.0), weights)
    return weights, mistakes


@register("ranking_perceptron")
class RankingPerceptron:
    """Algorithm 2 of Chaudhuri (2016): on a mistake w ← w − η · ∇_w slam(features · w, relevance), else w stays.

    A mistake is a round whose `measure` (nDCG, nDCG@k or AP) is below its best, ties broken against the learner; `slam`
    has the weights of that measure and this `margin`; η is `learning_rate`. On data that some w ranks perfectly with a
    margin, the summed loss of the measure stays bounded however long it runs. With grades of the first items only,
    these alone are its list.

    Use it with full relevance when the data are nearly separable, or when most rounds should cost no update.
    Reference: Chaudhuri and Tewari (2015), Perceptron-like Algorithms for Online Learning to Rank.
    """

    measure: Measure = NDCG(cutoff=10)
    learning_rate: float = 1.0
    margin: float = 1.0
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ("mistakes",)
    compiled: ClassVar[bool] = True  # many_queries knows every measure that is allowed here
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"measure": "AP"}, {"measure": "nDCG@2", "margin": 0.5})

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
        return learned(state, query.features, feedback, self.measure, self.margin, self.learning_rate, one_pair=False)

    def kept_decision(self, ranking: Ints, numbers: list[float], familiar: Ints) -> Decision[tuple[()]]:
        """The decision of a round of `many_queries`, from what its pool kept."""
        return Decision(ranking, 0.0, ())

    def many_queries(self, state: State, pool: Pool) -> State:
        """All rounds that the pool has draws for, see `whole_queries`."""
        cutoff, binary = cutoff_and_kind(self.measure)
        weights, mistakes = _many_queries(
            state.weights, state.mistakes, pool, cutoff, binary, self.margin, self.learning_rate
        )
        return State(weights, mistakes, state.shown)

    def predict(self, state: State, query: Query) -> Ints:
        return best_ranking(query.features, state.weights)

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return point_log_prob(best_ranking(query.features, state.weights), ranking, state.shown)

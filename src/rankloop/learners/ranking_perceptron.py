"""The perceptron for ranking: a step on the SLAM surrogate whenever the measure sees a mistake."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from numpy.random import Generator

from rankloop.core.kernels import all_finite, kernel, scores_of, stable
from rankloop.core.learning import (
    best_ranking,
    check_finite,
    check_positive,
    expect,
    point_log_prob,
    seen_count,
    shown_or_all,
    start_weights,
)
from rankloop.core.protocols import Measure
from rankloop.core.rankings import ranking_of
from rankloop.core.registry import Spec, register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Relevances
from rankloop.data.whole_pool import Pool, more_rounds, next_query, write_round
from rankloop.learners.steps import cutoff_and_kind, is_mistake, moved, slam_slope
from rankloop.measures.dcg import NDCG


class State(NamedTuple):
    """The weights, and how often they were changed."""

    weights: Floats
    mistakes: int
    shown: int


@kernel
def _corrected(
    weights: Floats,
    features: Floats,
    rows: Ints,
    scores: Floats,
    grades: Floats,
    cutoff: int,
    binary: bool,
    margin: float,
    rate: float,
) -> tuple[Floats, bool]:
    """The weights after the round, and whether there was a mistake; `rows` are the graded items, the list at hand."""
    if not is_mistake(scores, grades, cutoff, binary):
        return weights, False
    slope = slam_slope(scores, grades, cutoff, binary, margin)
    return moved(weights, features, rows, slope, rate), True


@kernel
def _learned(weights: Floats, features: Floats, items: Ints, *rest: Any) -> tuple[Floats, bool]:
    return _corrected(weights, features, items, scores_of(features, weights)[items], *rest)


@kernel
def _many_queries(
    weights: Floats, mistakes: int, pool: Pool, cutoff: int, binary: bool, margin: float, rate: float
) -> tuple[Floats, int]:
    """Rounds over a pool of queries until its draws are used up, exactly as `play` would go through them."""
    while more_rounds(pool, False):
        features, order, relevance = next_query(pool)
        scores = scores_of(features, weights)[order]
        ranking = ranking_of(scores)
        items = ranking[: seen_count(pool.depth, len(ranking))].copy()
        after, mistaken = _corrected(
            weights, features, order[items], scores[items], relevance[items], cutoff, binary, margin, rate
        )
        if mistaken and all_finite(after):
            weights, mistakes = after, mistakes + 1
        write_round(pool, ranking, relevance)
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
        items, grades = expect(feedback, Relevances)
        cutoff, binary = cutoff_and_kind(self.measure)
        weights, mistaken = _learned(
            state.weights, query.features, items, grades, cutoff, binary, self.margin, self.learning_rate
        )
        return State(stable(weights), state.mistakes + 1, state.shown) if mistaken else state

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

"""Thompson sampling and upper confidence bounds with independent weights, for hashed columns."""

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import NotNegative, check_between
from rankloop.core.kernels import add_row, kernel, normals, ranking_of, scores_of
from rankloop.core.learner import (
    SparseLearner,
    best_ranking,
    clicks_by_item,
    point_log_prob,
    require_finite,
    shown_or_all,
)
from rankloop.core.registry import Spec, register
from rankloop.core.types import Clicks, Decision, Features, Feedback, Floats, Ints, Problem, Query
from rankloop.learners._shared.joint_features import examined_count
from rankloop.learners.linear_thompson import MAX_DEVIATION, MIN_DEVIATION


class State(NamedTuple):
    """An independent normal belief about each weight."""

    weights: Floats  # The means.
    evidence: Floats  # The precisions, less that of the prior.
    shown: int  # The number of positions that are seen, −1 for all.

    def reachable(self, initial: "State") -> bool:
        """Return true if no evidence is below its start, so that precisions can be divided by."""
        return bool(np.all(self.evidence >= initial.evidence))


@kernel
def _updated(
    features: Features, state: State, prior: float, certainty: float, ranking: Ints, clicked: Floats
) -> tuple[Floats, Floats]:
    """Return means and evidence after a Kalman step for each examined item, of which x xᵀ keeps its diagonal."""
    weights, evidence, row = state.weights.copy(), state.evidence.copy(), np.empty(len(state.weights))
    for position in range(examined_count(ranking, state.shown, clicked)):
        row[:] = 0.0
        add_row(row, features, ranking[position], 1.0)
        score, variance = 0.0, 0.0
        for j in range(len(row)):
            if row[j] != 0.0:
                score += row[j] * weights[j]
                variance += row[j] * row[j] / (prior + evidence[j])
        gain = certainty * (clicked[ranking[position]] - score) / (1.0 + certainty * variance)
        for j in range(len(row)):
            if row[j] != 0.0:
                weights[j] += gain * row[j] / (prior + evidence[j])
                evidence[j] += certainty * row[j] * row[j]
    return weights, evidence


class DiagonalBelief(SparseLearner):
    """A linear regression of clicks on features with independent normal beliefs about the weights."""

    noise: float
    prior: float

    def __post_init__(self) -> None:
        check_between(MIN_DEVIATION, MAX_DEVIATION, noise=self.noise, prior=self.prior)
        super().__post_init__()

    def init(self, problem: Problem) -> State:
        weights = self.first_weights(problem)
        return State(weights, np.zeros(len(weights)), shown_or_all(problem))

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        clicked = clicks_by_item(feedback, query.n_items)
        weights, evidence = _updated(query.features, state, self.prior**-2, self.noise**-2, decision.ranking, clicked)
        return State(require_finite(weights), require_finite(evidence), state.shown)


@register("diagonal_thompson")
class DiagonalThompson(DiagonalBelief):
    """Rank by features · θ, with each weight θ_j drawn from an independent normal belief.

    The items down to the last click were examined, or all that were shown without a click. For each of them, with
    features x and precisions q = 1 / `prior`² + evidence,

      w_j ← w_j + x_j / q_j · (click − w · x) / (`noise`² + Σ_k x_k² / q_k),

    and x_j² / `noise`² is added to the evidence. If every item has one feature that is not 0, this is
    `linear_thompson`; otherwise it ignores how weights depend on each other, and costs n_features instead of its cube.
    The mean click rate is part of the regression: give the items a constant feature.

    Use it with `hashed` columns or hundreds of features where every list may be explored.

    Args:
      noise: The standard deviation of a click about its mean.
      prior: The standard deviation of each weight at first.
      start: The first means; zeros if empty.

    References:
      Agrawal and Goyal (2013), Thompson Sampling for Contextual Bandits with Linear Payoffs. Chapelle and Li (2011), An
      Empirical Evaluation of Thompson Sampling (diagonal precisions).

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("diagonal_thompson", "web_search", "dcm", "nDCG@10"), 3)
      0.492
    """

    noise: float = 1.0
    prior: float = 1.0
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Clicks,)
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"noise": 0.5, "prior": 2.0, "start": (0.0, 0.5, -1.0)})

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        weights = state.weights + normals(rng, len(state.weights)) / np.sqrt(self.prior**-2 + state.evidence)
        return Decision(best_ranking(query.features, weights), float("nan"), ())

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return float("nan")


@kernel
def _optimistic_ranking(features: Features, weights: Floats, evidence: Floats, prior: float, width: float) -> Ints:
    """Return the items by descending w · x + width · √(Σ_j x_j² / precision_j)."""
    scores, row = scores_of(features, weights), np.empty(len(weights))
    for item in range(len(scores)):
        row[:] = 0.0
        add_row(row, features, item, 1.0)
        variance = 0.0
        for j in range(len(row)):
            if row[j] != 0.0:
                variance += row[j] * row[j] / (prior + evidence[j])
        scores[item] += width * np.sqrt(variance)
    return ranking_of(scores)


@register("diagonal_ucb")
class DiagonalUCB(DiagonalBelief):
    """Rank by w · x + `width` · √(Σ_j x_j² / q_j), which favours items that were rarely shown.

    Weights w and precisions q are learned as by `diagonal_thompson`, from the items down to the last click. Nothing is
    random: equal states give equal rankings, so its log says nothing about other rankings. Use it with `hashed` columns
    where a ranking must not be random.

    Args:
      width: The number of standard deviations that are added to a score.
      noise: The standard deviation of a click about its mean.
      prior: The standard deviation of each weight at first.
      start: The first means; zeros if empty.

    References:
      Li, Chu, Langford and Schapire (2010), A Contextual-Bandit Approach to Personalized News Article Recommendation.
      Li et al. (2016), Contextual Combinatorial Cascading Bandits.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("diagonal_ucb", "web_search", "dcm", "nDCG@10"), 3)
      0.552
    """

    width: NotNegative = 0.5
    noise: float = 1.0
    prior: float = 1.0
    start: tuple[float, ...] = ()

    accepts: ClassVar[tuple[type, ...]] = (Clicks,)
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"width": 0.0, "noise": 0.5}, {"prior": 2.0, "start": (0.0, 0.5, -1.0)})

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        return Decision(self._ranking(state, query), 0.0, ())

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return point_log_prob(self._ranking(state, query), ranking, state.shown)

    def _ranking(self, state: State, query: Query) -> Ints:
        return _optimistic_ranking(query.features, state.weights, state.evidence, self.prior**-2, self.width)

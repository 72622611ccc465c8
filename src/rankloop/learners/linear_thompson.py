"""Linear regressions of clicks on features: Thompson sampling, and upper confidence bounds."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core import learner as base
from rankloop.core.checks import FiniteNumbers, NotNegative, check_between
from rankloop.core.kernels import add_row, kernel, normals, ranking_of, scores_of, seen_count
from rankloop.core.learner import LinearLearner, SparseLearner, clicks_by_item, require_finite, shown_or_all
from rankloop.core.registry import Examples, register
from rankloop.core.types import Decision, Features, Feedback, Floats, Ints, Problem, Query
from rankloop.learners._shared.precision import shifted_solution

Deviation = Annotated[float, partial(check_between, 1e-150, 1e150)]  # its square is a number too


@dataclass(frozen=True, kw_only=True)
class NormalBelief(LinearLearner):
    """A linear learner that begins with a normal belief of deviation `prior` about each weight."""

    noise: Deviation = 1.0
    prior: Deviation = 1.0
    start: FiniteNumbers = ()


class State(NamedTuple):
    """A normal belief about the weights."""

    weights: Floats  # The mean.
    precision: Floats  # The inverse of the covariance.
    moment: Floats  # precision · mean.
    shown: int  # The number of positions that are seen, −1 for all.

    def reachable(self, initial: "State") -> bool:
        """Return true if no precision is below its start, so that the diagonal can be divided by."""
        return bool(np.all(np.diag(self.precision) >= np.diag(initial.precision)))


@kernel
def _examined_count(ranking: Ints, shown: int, clicked: Floats) -> int:
    """Return the number of examined positions: down to the last click, or all that were shown without a click."""
    n_seen = seen_count(shown, len(ranking))
    for position in range(n_seen - 1, -1, -1):
        if clicked[ranking[position]] > 0.0:
            return position + 1
    return n_seen


@kernel
def _updated(
    features: Floats, precision: Floats, moment: Floats, certainty: float, ranking: Ints, shown: int, clicked: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return mean, precision and moment after a least-squares step of clicks on features over the examined items."""
    new_precision, new_moment = precision.copy(), moment.copy()
    for position in range(_examined_count(ranking, shown, clicked)):
        row = features[ranking[position]]
        for i in range(len(row)):
            new_moment[i] += certainty * clicked[ranking[position]] * row[i]
            for j in range(len(row)):
                new_precision[i, j] += certainty * row[i] * row[j]
    return shifted_solution(new_precision, new_moment, np.zeros(len(moment))), new_precision, new_moment


@register("linear_thompson")
class LinearThompson(NormalBelief):
    """Rank by features · θ, with θ drawn from the normal belief of a linear regression of clicks on features.

    The items down to the last click were examined, or all that were shown without a click. Each of them, with features
    x, adds

      x xᵀ / `noise`² to the precision, which begins at I / `prior`², and
      click · x / `noise`² to precision · mean.

    The mean click rate is part of the regression: give the items a constant feature. Use it for tens of features where
    every list may be explored; its step costs n_features³. `log_prob` is nan.

    Args:
      noise: The standard deviation of a click about its mean.
      prior: The standard deviation of each weight at first.
      start: The first mean; zeros if empty.

    References:
      Agrawal and Goyal (2013), Thompson Sampling for Contextual Bandits with Linear Payoffs. Zong et al. (2016),
      Cascading Bandits for Large-Scale Recommendation Problems (CascadeLinTS).

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("linear_thompson", "linear_gaussian(n_items=6, n_features=3)", "dcm", "nDCG@5"), 3)
      0.902
    """

    def init(self, problem: Problem) -> State:
        start = self.first_weights(problem)
        precision = np.eye(problem.n_features) / self.prior**2
        return State(start, precision, start / self.prior**2, shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        weights = shifted_solution(state.precision, state.moment, normals(rng, len(state.moment)))
        return Decision(base.best_ranking(query.features, weights), float("nan"), ())

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        clicked, certainty = clicks_by_item(feedback, query.n_items), self.noise**-2
        weights, precision, moment = _updated(
            query.features, state.precision, state.moment, certainty, decision.ranking, state.shown, clicked
        )
        return State(require_finite(weights), require_finite(precision), require_finite(moment), state.shown)


class DiagonalState(NamedTuple):
    """An independent normal belief about each weight."""

    weights: Floats  # The means.
    evidence: Floats  # The precisions, less that of the prior.
    shown: int  # The number of positions that are seen, −1 for all.

    def reachable(self, initial: "DiagonalState") -> bool:
        """Return true if no evidence is below its start, so that precisions can be divided by."""
        return bool(np.all(self.evidence >= initial.evidence))


@kernel
def _updated_diagonal(
    features: Features, state: DiagonalState, prior: float, certainty: float, ranking: Ints, clicked: Floats
) -> tuple[Floats, Floats]:
    """Return means and evidence after a Kalman step for each examined item, of which x xᵀ keeps its diagonal."""
    weights, evidence, row = state.weights.copy(), state.evidence.copy(), np.empty(len(state.weights))
    for position in range(_examined_count(ranking, state.shown, clicked)):
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


class DiagonalBelief(NormalBelief, SparseLearner):
    """A linear regression of clicks on features with independent normal beliefs about the weights."""

    def init(self, problem: Problem) -> DiagonalState:
        weights = self.first_weights(problem)
        return DiagonalState(weights, np.zeros(len(weights)), shown_or_all(problem))

    def learn(self, state: Any, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> DiagonalState:
        clicked, prior, certainty = clicks_by_item(feedback, query.n_items), self.prior**-2, self.noise**-2
        weights, evidence = _updated_diagonal(query.features, state, prior, certainty, decision.ranking, clicked)
        return DiagonalState(require_finite(weights), require_finite(evidence), state.shown)


@register("diagonal_thompson")
class DiagonalThompson(DiagonalBelief):
    """Rank by features · θ, with each weight θ_j drawn from an independent normal belief.

    The items down to the last click were examined, or all that were shown without a click. For each of them, with
    features x and precisions q = 1 / `prior`² + evidence,

      w_j ← w_j + x_j / q_j · (click − w · x) / (`noise`² + Σ_k x_k² / q_k),

    and x_j² / `noise`² is added to the evidence. This is `linear_thompson` without the dependence of weights on each
    other, and costs n_features instead of its cube. The mean click rate is part of the regression: give the items a
    constant feature. Use it with `hashed` columns or hundreds of features where every list may be explored.

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

    examples: ClassVar[Examples] = ({}, {"noise": 0.5, "prior": 2.0, "start": (0.0, 0.5, -1.0)})

    def rank(self, state: DiagonalState, query: Query, rng: Generator) -> Decision[tuple[()]]:
        weights = state.weights + normals(rng, len(state.weights)) / np.sqrt(self.prior**-2 + state.evidence)
        return Decision(base.best_ranking(query.features, weights), float("nan"), ())


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
class DiagonalUCB(base.GreedyLearner, DiagonalBelief):
    """Rank by w · x + `width` · √(Σ_j x_j² / q_j), which favours items that were rarely shown.

    Weights w and precisions q are learned as by `diagonal_thompson`. Use it with `hashed` columns where a ranking must
    not be random; its log says nothing about other rankings.

    Args:
      noise: The standard deviation of a click about its mean.
      prior: The standard deviation of each weight at first.
      start: The first means; zeros if empty.
      width: The number of standard deviations that are added to a score.

    References:
      Li, Chu, Langford and Schapire (2010), A Contextual-Bandit Approach to Personalized News Article Recommendation.
      Li et al. (2016), Contextual Combinatorial Cascading Bandits.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("diagonal_ucb", "web_search", "dcm", "nDCG@10"), 3)
      0.552
    """

    width: NotNegative = 0.5

    examples: ClassVar[Examples] = ({}, {"width": 0.0, "noise": 0.5}, {"prior": 2.0, "start": (0.0, 0.5, -1.0)})

    def _ranking(self, state: DiagonalState, query: Query) -> Ints:
        return _optimistic_ranking(query.features, state.weights, state.evidence, self.prior**-2, self.width)

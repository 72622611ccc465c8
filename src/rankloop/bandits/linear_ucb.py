"""`linear_ucb`: a linear bandit over a fixed set of items, with upper confidence bounds."""

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.bandits.policies import drawn_ranking, first_log_prob
from rankloop.core.checks import NotNegative, Positive, Probability
from rankloop.core.kernels import kernel, ranking_of, scores_of
from rankloop.core.learner import expect, require_finite, shown_or_all
from rankloop.core.registry import Examples, register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, Reward
from rankloop.learners._shared.fixed_set import size_of_fixed_set


class State(NamedTuple):
    """A ridge regression of the reward on (context, 1) for each item."""

    weights: Floats  # (n_items, n_context + 1)
    moment: Floats
    inverse: Floats  # (n_items, n_context + 1, n_context + 1), of the precision
    shown: int


@kernel
def _optimistic_scores(weights: Floats, inverse: Floats, visitor: Floats, width: float) -> Floats:
    """Return w_a · x + width · √(xᵀ A_a⁻¹ x) of each item a, as in Li et al. (2010)."""
    scores = scores_of(weights, visitor)
    for item in range(len(scores)):
        spread = (visitor * scores_of(inverse[item], visitor)).sum()
        scores[item] += width * np.sqrt(max(spread, 0.0))
    return scores


@kernel
def _updated(state: State, item: int, visitor: Floats, reward: float) -> State:
    """Add a row to an item's regression, by the rank-one formula of Sherman and Morrison."""
    weights, moment, inverse = state.weights.copy(), state.moment.copy(), state.inverse.copy()
    along = scores_of(inverse[item], visitor)
    size = 1.0 + max((visitor * along).sum(), 0.0)
    for i in range(len(visitor)):
        moment[item, i] += reward * visitor[i]
        for j in range(len(visitor)):
            inverse[item, i, j] -= along[i] * along[j] / size
    weights[item] = scores_of(inverse[item], moment[item])
    return State(weights, moment, inverse, state.shown)


@register("linear_ucb")
class LinearUCB:
    """Show the item with the largest w_a · x + width · √(xᵀ A_a⁻¹ x), where x is (context, 1).

    A_a = ridge · I + Σ x xᵀ and w_a = A_a⁻¹ Σ reward · x, over the visitors who were shown item a first. The second
    term is large for items that were rarely shown, or rarely to such visitors. The other items follow by score.

    Use it to choose one of a fixed set of offers by the visitor's context, where rewards are amounts or not too rare. A
    step costs n_items · n_context² operations. It takes the context of the query; the items need no features.

    Args:
      width: The width of the confidence bound.
      ridge: The weight of the penalty of the regressions.
      epsilon: The probability to show another item first, each alike; it gives every item a propensity above 0.

    Examples:
      >>> from rankloop import Problem, Query, Reward, Session
      >>> session = Session(LinearUCB(epsilon=0.0), Problem(n_features=0, n_items=2, n_context=1))
      >>> query = Query.of([[], []], context=[1.0])
      >>> state = session.learn(query, session.rank(query), Reward(1.0))
      >>> state.weights[0].round(3).tolist()
      [0.333, 0.333]

    References:
      Li, Chu, Langford and Schapire (2010), A Contextual-Bandit Approach to Personalized News Article Recommendation.
    """

    width: NotNegative = 0.5
    ridge: Positive = 1.0
    epsilon: Probability = 0.02

    accepts: ClassVar[tuple[type, ...]] = (Reward,)
    uses_context: ClassVar[bool] = True
    reports: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[Examples] = ({}, {"width": 0.0, "epsilon": 0.3}, {"ridge": 5.0, "epsilon": 0.0})
    example_problem: ClassVar[Problem] = Problem(n_features=0, n_items=4, n_context=3)

    def init(self, problem: Problem) -> State:
        shape = size_of_fixed_set(problem), problem.n_context + 1
        inverse = np.tile(np.eye(shape[1]) / self.ridge, (shape[0], 1, 1))
        return State(np.zeros(shape), np.zeros(shape), inverse, shown_or_all(problem))

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        ranking, log_propensity = drawn_ranking(self._scores(state, query), self.epsilon, 0.0, rng.random(1)[0])
        return Decision(ranking, log_propensity, ())

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        reward, item = expect(feedback, Reward).value, int(decision.ranking[0])
        updated = _updated(state, item, _visitor(query), float(reward))
        for array in (updated.weights, updated.moment, updated.inverse):
            require_finite(array)
        return updated

    def predict(self, state: State, query: Query) -> Ints:
        return ranking_of(scores_of(state.weights, _visitor(query)))

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        return first_log_prob(self._scores(state, query), self.epsilon, 0.0, ranking, state.shown)

    def _scores(self, state: State, query: Query) -> Floats:
        return _optimistic_scores(state.weights, state.inverse, _visitor(query), self.width)


def _visitor(query: Query) -> Floats:
    return np.append(query.context, 1.0)

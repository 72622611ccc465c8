"""Learners that learn nothing: a linear ranker that never changes, the order of the request, and uniform rankings."""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import FiniteNumbers
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import ranking_of, seen_count
from rankloop.core.learner import GreedyLearner, LinearLearner, LinearState, shown_or_all
from rankloop.core.registry import Examples, register
from rankloop.core.types import Clicks, Decision, Feedback, Ints, Preferred, Problem, Query, Relevances, Reward


class _IgnoresFeedback:
    accepts: ClassVar[tuple[type, ...]] = (Relevances, Clicks, Preferred, Reward)
    reports: ClassVar[tuple[str, ...]] = ()
    learns: ClassVar[bool] = False

    def learn(self, state: Any, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> Any:
        return state


@register("fixed_weights")
class FixedWeights(_IgnoresFeedback, GreedyLearner, LinearLearner):
    """Rank by features · `weights` and learn nothing: a model that was trained elsewhere, to serve or to compare with.

    It accepts every kind of feedback and ignores it.

    Args:
      weights: One weight for each feature.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> stream = "linear_gaussian(n_items=6, n_features=3)"
      >>> round(play_mean("fixed_weights(weights=[1.0, 0.0, -1.0])", stream, "full", "nDCG@5"), 3)
      0.708
    """

    weights: FiniteNumbers

    examples: ClassVar[Examples] = ({"weights": (1.0, -2.0, 0.5)},)

    def init(self, problem: Problem) -> LinearState:
        if len(self.weights) != problem.n_features:
            raise InvalidInput(f"{len(self.weights)} weights for {problem.n_features} features: give one each")
        return LinearState(np.array(self.weights, dtype=np.float64), shown_or_all(problem))


class State(NamedTuple):
    """The number of positions that are seen; nothing is learned."""

    shown: int


class _KeepsGivenOrder(_IgnoresFeedback):
    def init(self, problem: Problem) -> State:
        return State(shown_or_all(problem))

    def predict(self, state: State, query: Query) -> Ints:
        return np.arange(query.n_items)


@register("random_order")
class RandomOrder(_KeepsGivenOrder):
    """Show a uniformly random ranking each time: the lower limit that every learner must beat.

    All orders of the seen items are equally likely: log_prob = −log(m! / (m − shown)!) for m items. Every kind of
    feedback is accepted and ignored.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("random_order", "web_search", "dcm", "nDCG@10"), 3)
      0.4
    """

    def rank(self, state: State, query: Query, rng: Generator) -> Decision[tuple[()]]:
        ranking = ranking_of(rng.random(query.n_items))
        return Decision(ranking, self.log_prob(state, query, ranking), ())

    def log_prob(self, state: State, query: Query, ranking: Ints) -> float:
        n_items = query.n_items
        return math.lgamma(n_items - seen_count(state.shown, n_items) + 1) - math.lgamma(n_items + 1)


@register("given_order")
class GivenOrder(_KeepsGivenOrder, GreedyLearner):
    """Show the items in the order in which they are given: today's order, to compare with or to fall back to.

    It uses no features, so that it ranks items of any kind. Every kind of feedback is accepted and ignored.

    Examples:
      >>> from rankloop import Ranker
      >>> today = Ranker("given_order", features={"brand": "category"})
      >>> shown = today.rank({"b": {"brand": "Acme"}, "a": {}, "c": {"brand": "Zeta"}})
      >>> shown.ids
      ['b', 'a', 'c']
      >>> shown.decision.log_propensity
      0.0
    """

    ignores_features: ClassVar[bool] = True

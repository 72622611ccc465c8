"""A linear ranker that never changes: yesterday's model as a learner."""

from typing import ClassVar

import numpy as np

from rankloop.core.checks import check_finite
from rankloop.core.errors import InvalidInput
from rankloop.core.learner import GreedyLearner, shown_or_all
from rankloop.core.learner import LinearState as State
from rankloop.core.registry import Spec, register
from rankloop.core.types import Clicks, Decision, Feedback, Preferred, Problem, Query, Relevances, Reward


@register("fixed_weights")
class FixedWeights(GreedyLearner):
    """Ranks by features · `weights` and learns nothing: a model trained elsewhere, to compare with or to serve.

    It takes every kind of feedback and ignores it.
    """

    weights: tuple[float, ...]

    accepts: ClassVar[tuple[type, ...]] = (Relevances, Clicks, Preferred, Reward)
    examples: ClassVar[tuple[Spec, ...]] = ({"weights": (1.0, -2.0, 0.5)},)

    def __post_init__(self) -> None:
        check_finite("weights", self.weights)

    def init(self, problem: Problem) -> State:
        if len(self.weights) != problem.n_features:
            raise InvalidInput(
                f"there are {len(self.weights)} weights for {problem.n_features} features: give one for each"
            )
        return State(np.array(self.weights, dtype=np.float64), shown_or_all(problem))

    def learn(self, state: State, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> State:
        return state

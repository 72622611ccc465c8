"""Start from today's ranker, whose score is one of the features."""

import dataclasses
from typing import Any, ClassVar, cast

from rankloop.core.checks import check_positive
from rankloop.core.errors import InvalidInput
from rankloop.core.learner import from_layers, layers_of, with_in_layers
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Spec, register
from rankloop.core.types import Problem
from rankloop.learners.wrappers.base import Wrapper


@register("base_score")
@dataclasses.dataclass(frozen=True, kw_only=True)
class BaseScore(Wrapper):
    """The linear `inner` learner, begun as today's ranker, whose score is one of the features.

    That feature starts with `weight`, the others with 0. Before the first update the rankings are today's; afterwards
    the learner corrects them, and may come to trust the base score more or less, as any other feature. `feature` is the
    column of the base score, counted from the end when negative (the last by default). A larger `weight` makes the
    learner slower to leave today's order. Where there are hashed columns, columns are counted in the dense block: those
    of declared numbers. `inner` is a learner with `start` weights, or a wrapper such as
    `standardised` around one.
    """

    inner: AnyLearner
    feature: int = -1
    weight: float = 1.0

    examples: ClassVar[tuple[Spec, ...]] = (
        {"inner": "online_gradient"},
        {"inner": "standardised(inner='online_gradient')"},
    )

    def __post_init__(self) -> None:
        check_positive("weight", self.weight)
        started_at(self.inner, ())

    def init(self, problem: Problem) -> Any:
        n_features = problem.n_dense  # of hashed columns none can be the score
        if not -n_features <= self.feature < n_features:
            raise InvalidInput(f"feature = {self.feature} is to be the base score, but there are {n_features} features")
        start = [0.0] * n_features
        start[self.feature] = self.weight
        return started_at(self.inner, tuple(start)).init(problem)


def started_at(learner: AnyLearner, start: tuple[float, ...]) -> AnyLearner:
    """The same learner with other start weights; wrappers pass them on to the learner inside."""
    if from_layers(learner, "start") is None:
        *_, innermost = layers_of(learner)
        raise InvalidInput(f"{type(innermost).__name__} has no start weights: base_score needs a linear learner inside")
    return cast(AnyLearner, with_in_layers(learner, "start", start))

"""Start from today's ranker, whose score is one of the features."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, cast

from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.learner_parts import check_positive
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Spec, register
from rankloop.core.types import Decision, Feedback, Ints, Problem, Query, R


@register("base_score")
@dataclasses.dataclass(frozen=True, kw_only=True)
class BaseScore:
    """The linear `inner` learner, begun as today's ranker, whose score is one of the features.

    That feature starts with `weight`, the others with 0. Before the first update the rankings are today's; afterwards
    the learner corrects them, and may come to trust the base score more or less, as any other feature. `feature` is the
    column of the base score, counted from the end when negative (the last by default). A larger `weight` makes the
    learner slower to leave today's order. `inner` is a learner with `start` weights, or a wrapper such as
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

    @property
    def accepts(self) -> tuple[type, ...]:
        return self.inner.accepts

    @property
    def reports(self) -> tuple[str, ...]:
        return self.inner.reports

    def init(self, problem: Problem) -> Any:
        n_features = problem.n_features
        if not -n_features <= self.feature < n_features:
            raise InvalidInput(f"feature = {self.feature} is to be the base score, but there are {n_features} features")
        start = [0.0] * n_features
        start[self.feature] = self.weight
        return started_at(self.inner, tuple(start)).init(problem)

    def rank(self, state: Any, query: Query, rng: Generator) -> Decision[R]:
        return self.inner.rank(state, query, rng)

    def learn(self, state: Any, query: Query, decision: Decision[R], feedback: Feedback) -> Any:
        return self.inner.learn(state, query, decision, feedback)

    def predict(self, state: Any, query: Query) -> Ints:
        return self.inner.predict(state, query)

    def log_prob(self, state: Any, query: Query, ranking: Ints) -> float:
        return self.inner.log_prob(state, query, ranking)


def started_at(learner: AnyLearner, start: tuple[float, ...]) -> AnyLearner:
    """The same learner with other start weights; wrappers pass them on to the learner inside."""
    if hasattr(learner, "start"):
        return cast(AnyLearner, dataclasses.replace(cast(Any, learner), start=start))
    if hasattr(learner, "inner"):
        return cast(AnyLearner, dataclasses.replace(cast(Any, learner), inner=started_at(learner.inner, start)))
    raise InvalidInput(f"{type(learner).__name__} has no start weights: base_score needs a linear learner inside")

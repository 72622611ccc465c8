"""The base class of wrappers, which change one thing about the learner in `inner`."""

from typing import Any

from numpy.random import Generator

from rankloop.core.protocols import AnyLearner
from rankloop.core.types import Decision, Feedback, Ints, Problem, Query, R


class Wrapper:
    """A learner that passes every call on to `inner`, whose state is also its own."""

    inner: AnyLearner

    @property
    def accepts(self) -> tuple[type, ...]:
        return self.inner.accepts

    @property
    def reports(self) -> tuple[str, ...]:
        """The numbers of the state that experiments record."""
        return self.inner.reports

    def init(self, problem: Problem) -> Any:
        return self.inner.init(problem)

    def rank(self, state: Any, query: Query, rng: Generator) -> Decision[R]:
        return self.inner.rank(state, query, rng)

    def learn(self, state: Any, query: Query, decision: Decision[R], feedback: Feedback) -> Any:
        return self.inner.learn(state, query, decision, feedback)

    def predict(self, state: Any, query: Query) -> Ints:
        return self.inner.predict(state, query)

    def log_prob(self, state: Any, query: Query, ranking: Ints) -> float:
        return self.inner.log_prob(state, query, ranking)

"""The protocols of learners, feedback models (simulated users), measures, surrogates and streams."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

from numpy.random import Generator

from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, R

S = TypeVar("S")


@runtime_checkable
class Learner(Protocol[S, R]):
    """An immutable recipe for ranking and learning. All randomness is in `rank`; `learn` is deterministic and pure."""

    @property
    def accepts(self) -> tuple[type, ...]:
        """The types of feedback that it learns from."""

    @property
    def reports(self) -> tuple[str, ...]:
        """Dotted paths into the state of numbers worth plotting."""

    def init(self, problem: Problem) -> S:
        """Return the first state, with the numbers of the problem that it needs.

        Its integers may only grow. Its arrays keep their shapes, except those with two dimensions and no rows at first.
        A method `reachable(initial)` of the state, on whose numbers kernels rely, checks it when it is loaded.
        """

    def rank(self, state: S, query: Query, rng: Generator) -> Decision[R]:
        """Return the ranking to show, exploration included; draws as many doubles as the query's shape says."""

    def learn(self, state: S, query: Query, decision: Decision[R], feedback: Feedback) -> S:
        """Return the next state; raise `UnstableUpdate` if it would not be finite.

        The current state may be many updates later than that of the decision.
        """

    def predict(self, state: S, query: Query) -> Ints:
        """Return the best ranking without exploration."""

    def log_prob(self, state: S, query: Query, ranking: Ints) -> float:
        """Return the log-probability that `rank` shows the visible part of a ranking; nan: no closed form."""


@runtime_checkable
class FeedbackModel(Protocol):
    """Simulated users who give feedback to rankings."""

    @property
    def shown(self) -> int | None:
        """The number of positions that they see; None: all."""

    @property
    def depth(self) -> int | None:
        """The number of positions that they grade; None: all."""

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Feedback:
        """Return the feedback to a ranking; draws as many doubles as the number of items says."""


@runtime_checkable
class Surrogate(Protocol):
    """A function of scores and relevance that a learner minimises.

    The gradient is a sum over subsets of `span` items, so that it can be estimated from the grades of a few items.
    """

    @property
    def span(self) -> int | None:
        """The number of grades that are needed together for an unbiased gradient; None: all."""

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        """Return the value and its gradient in the scores."""

    def terms(self, scores: Floats, items: Ints, grades: Floats) -> Floats:
        """Return the terms of the gradient of all span-subsets of the items with grades; of all items: the gradient."""


@runtime_checkable
class Measure(Protocol):
    """A function of a ranking and the relevance of its items."""

    @property
    def higher_is_better(self) -> bool:
        """False for losses."""

    def __call__(self, ranking: Ints, relevance: Floats) -> float:
        """Return the value of a ranking."""

    def of_scores(self, scores: Floats, relevance: Floats, offsets: Ints) -> Floats:
        """Return one value per query; query q has the entries from offsets[q] to offsets[q + 1]."""

    def best(self, relevance: Floats) -> float:
        """Return the value of the best ranking of some items."""


Relevance = Floats | Callable[[Ints], Floats]  # a function of the shown ranking is an adaptive adversary


@runtime_checkable
class Stream(Protocol):
    """An endless source of queries with their relevance."""

    @property
    def problem(self) -> Problem:
        """The sizes of the queries."""

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Relevance]]:
        """Yield queries and their relevance."""


AnyLearner = Learner[Any, Any]

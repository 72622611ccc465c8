"""The protocols that learners, people, measures, surrogates and streams keep."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

from numpy.random import Generator

from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query

S = TypeVar("S")
R = TypeVar("R")


@runtime_checkable
class Learner(Protocol[S, R]):
    """An immutable recipe. All randomness is in `rank`; `learn` is deterministic and pure.

    `rank` takes a number of `rng.random` doubles that is fixed given the query's shape. `accepts` names the kinds of
    feedback it learns from, `reports` dotted paths into the state worth plotting.
    """

    @property
    def accepts(self) -> tuple[type, ...]: ...
    @property
    def reports(self) -> tuple[str, ...]: ...
    def init(self, problem: Problem) -> S:
        """The state before the first round; copies what it needs of the problem into it, as numbers.

        Its whole numbers only ever grow, and of its arrays none but tables that begin without rows: no other is loaded.
        """

    def rank(self, state: S, query: Query, rng: Generator) -> Decision[R]:
        """The ranking to show, exploration included."""

    def learn(self, state: S, query: Query, decision: Decision[R], feedback: Feedback) -> S:
        """The next state; raises `UnstableUpdate` rather than return a non-finite one."""

    def predict(self, state: S, query: Query) -> Ints:
        """The best ranking it knows, without exploration."""

    def log_prob(self, state: S, query: Query, ranking: Ints) -> float:
        """Log-probability that `rank` shows these items at these positions of the seen part; nan: no closed form."""


@runtime_checkable
class CheckedState(Protocol):
    """A state that knows more about itself than types and shapes; asked when it is loaded, as kernels will trust it."""

    def reachable(self, initial: Any) -> bool:
        """Whether learning can have led here from the initial state, as far as indices and divisors go by it."""


@runtime_checkable
class FeedbackModel(Protocol):
    """Simulated people: `observe` takes a number of `rng.random` doubles fixed given the number of items."""

    @property
    def shown(self) -> int | None: ...
    @property
    def depth(self) -> int | None: ...
    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Feedback: ...


@runtime_checkable
class Surrogate(Protocol):
    """A function of scores and relevance that a learner minimises.

    `span` is how many relevances are needed together for an unbiased gradient (None: all). `terms` sums, over all
    span-subsets of `items`, their share of the gradient: over all items it equals the gradient of `value_and_grad`.
    """

    @property
    def span(self) -> int | None: ...
    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]: ...
    def terms(self, scores: Floats, items: Ints, grades: Floats) -> Floats: ...


@runtime_checkable
class Measure(Protocol):
    """Judges a ranking against the relevance."""

    @property
    def higher_is_better(self) -> bool: ...
    def __call__(self, ranking: Ints, relevance: Floats) -> float: ...
    def of_scores(self, scores: Floats, relevance: Floats, offsets: Ints) -> Floats:
        """One value per query; query q owns the entries from offsets[q] to offsets[q + 1]."""

    def best(self, relevance: Floats) -> float:
        """The value of the best ranking of these items."""


Relevance = Floats | Callable[[Ints], Floats]  # the function is an adaptive adversary's: it sees the shown ranking


@runtime_checkable
class Stream(Protocol):
    """A source of queries and their relevance, endless."""

    @property
    def problem(self) -> Problem: ...
    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Relevance]]: ...


AnyLearner = Learner[Any, Any]

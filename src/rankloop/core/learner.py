"""What learners are written with: the common part of linear ones, layers of wrappers, checks of what comes back."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_finite, check_positive
from rankloop.core.errors import IncompatibleFeedback, InvalidInput, UnstableUpdate
from rankloop.core.kernels import ALL, add_row, all_finite, clicked_weights, kernel, ranking_of, scores_of, seen_count
from rankloop.core.types import Clicks, Decision, Features, Feedback, Floats, Ints, Problem, Query, Rows

K = TypeVar("K", bound=Feedback)


@kernel
def best_ranking(features: Features, weights: Floats) -> Ints:
    """Items by descending features · weights: scores and sort in one call."""
    return ranking_of(scores_of(features, weights))


@kernel
def point_log_prob(best: Ints, ranking: Ints, shown: int) -> float:
    """0 when the seen part of `ranking` is that of `best`, the only one ever shown; else −infinity."""
    for position in range(seen_count(shown, len(best))):
        if best[position] != ranking[position]:
            return -np.inf
    return 0.0


class LinearState(NamedTuple):
    """The weights, and how many positions are seen."""

    weights: Floats
    shown: int


class LinearLearner:
    """Sorts by features · weights. A learner that explores has a `rank` and a `log_prob` of its own.

    `start` is the last parameter of each: the first weights, zeros when it is empty. Parameters with a name in
    `positive` are above 0, or None.
    """

    start: tuple[float, ...]
    positive: ClassVar[tuple[str, ...]] = ("learning_rate", "margin", "radius", "relevant_from", "spread")
    reports: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        check_finite("start", self.start)
        for name in self.positive:
            if getattr(self, name, None) is not None:
                check_positive(name, getattr(self, name))

    def init(self, problem: Problem) -> Any:
        return LinearState(self.first_weights(problem), shown_or_all(problem))

    def first_weights(self, problem: Problem) -> Floats:
        """Return the weights to begin with."""
        return start_weights(self.start, problem.n_features)

    def predict(self, state: Any, query: Query) -> Ints:
        return best_ranking(query.features, state.weights)

    def log_prob(self, state: Any, query: Query, ranking: Ints) -> float:
        return point_log_prob(best_ranking(query.features, state.weights), ranking, state.shown)


class GreedyLearner(LinearLearner):
    """A linear learner that always shows the best ranking it knows."""

    def rank(self, state: Any, query: Query, rng: Generator) -> Decision[tuple[()]]:
        return Decision(best_ranking(query.features, state.weights), 0.0, ())


class SparseLearner(LinearLearner):
    """A linear learner that takes `Rows` too: a column that is 0 in every item is neither read nor changed.

    So it may be handed the weights of the columns in sight alone, which is what `hashed` does. What it changed is in
    `newest` where its state has one, else in `weights`. A state with `evidence`, one number per column that starts at
    0, brings its own step sizes.
    """

    def with_weights(self, state: Any, weights: Floats) -> Any:
        """The same state with these weights."""
        names = [name for name in ("weights", "newest") if name in state._fields]
        return state._replace(**dict.fromkeys(names, weights))

    def with_table_entries(self, state: Any, entries: Floats) -> Any:
        """The same state with the weights and the evidence of these columns, one row each."""
        state = self.with_weights(state, np.ascontiguousarray(entries[:, 0]))
        return state._replace(evidence=np.ascontiguousarray(entries[:, 1])) if hasattr(state, "evidence") else state

    def table_entries_of(self, state: Any) -> Floats | None:
        """Weights and evidence, where this learner sets its step sizes itself."""
        return np.column_stack([state.weights, state.evidence]) if hasattr(state, "evidence") else None


@kernel
def project(weights: Floats, radius: float) -> None:
    """Scale `weights` in place so that their Euclidean norm is at most `radius` (infinite: leave them)."""
    if radius == np.inf or len(weights) == 0:
        return
    largest = np.abs(weights).max()
    if largest == 0.0:
        return
    total = 0.0
    for value in weights:
        total += (value / largest) ** 2
    norm = largest * np.sqrt(total)
    if norm > radius:
        weights *= radius / norm


def shown_or_all(problem: Problem) -> int:
    """`problem.shown` as a number for a state: −1 when every position is seen."""
    return ALL if problem.shown is None else problem.shown


def seen_part(ranking: Ints, shown: int) -> Ints:
    """Return the positions of a ranking that are seen; a negative `shown` means all."""
    return ranking if shown < 0 else ranking[:shown]


def clicks_by_item(feedback: Feedback, n_items: int) -> Floats:
    """Return the weight of the click on each item, 0 where there was none.

    Args:
      feedback: The clicks.
      n_items: The number of items of the query.

    Returns:
      One number per item.

    Raises:
      IncompatibleFeedback: If the feedback is of another kind.
    """
    items, weights = expect(feedback, Clicks)
    return clicked_weights(n_items, items, weights)


def start_weights(start: tuple[float, ...], n_features: int) -> Floats:
    """The first weights of a linear learner: zeros when `start` is empty."""
    if start and len(start) != n_features:
        raise InvalidInput(f"start has {len(start)} weights, the problem has {n_features} features: give one for each")
    return np.array(start, dtype=np.float64) if start else np.zeros(n_features)


def expect(feedback: Feedback, kind: type[K]) -> K:
    """`feedback`, known to be of this kind; the session has already refused others."""
    if not isinstance(feedback, kind):
        raise IncompatibleFeedback(f"this learner learns from {kind.__name__}, got {type(feedback).__name__}")
    return feedback


def check_receipt(fits: bool) -> None:
    """Refuse a receipt that cannot be of this decision: it may have travelled far, and kernels do not check bounds."""
    if not fits:
        raise IncompatibleFeedback("the decision's receipt is not one that this learner gave for this query")


def require_finite(values: Floats) -> Floats:
    """`values`, or `UnstableUpdate` when one of them is not finite: the last thing before a new state."""
    if not all_finite(values):
        raise UnstableUpdate(
            "the step would leave a non-finite number in the state; it is refused, the old state stands"
        )
    return values


def finite(value: float) -> float:
    """`value`, or `UnstableUpdate`: what `require_finite` is for arrays."""
    if not math.isfinite(value):
        raise UnstableUpdate(f"the step would leave {value} in the state; it is refused, the old state stands")
    return value


def check_uses_context(learner: Any, n_context: int) -> None:
    """Refuse a context that would be ignored without a word."""
    if n_context and not from_layers(learner, "uses_context", False):
        raise InvalidInput(
            f"{type(learner).__name__} cannot use a context: it would be ignored. Give features by kind and crosses "
            'with the context, as in features={"brand": "category"}, context={"segment": "category"}, '
            'crosses=["segment*brand"]; linear_ucb and the ad policies take a context as it is'
        )


def layers_of(thing: Any) -> Iterator[Any]:
    """A learner or a state, then what it wraps in `inner`, and so on."""
    yield thing
    while hasattr(thing, "inner"):
        thing = thing.inner
        yield thing


def from_layers(thing: Any, name: str, default: Any = None) -> Any:
    """The attribute `name` of the outermost layer that has one."""
    return next((getattr(layer, name) for layer in layers_of(thing) if hasattr(layer, name)), default)


def with_in_layers(thing: Any, name: str, value: Any) -> Any:
    """The same learner or state with another `name` in every layer that has one."""
    changes = {name: value} if hasattr(thing, name) else {}
    if hasattr(thing, "inner"):
        changes["inner"] = with_in_layers(thing.inner, name, value)
    if not changes:
        return thing
    if isinstance(thing, tuple):
        return thing._replace(**changes)  # type: ignore[attr-defined]  # states are named tuples
    return dataclasses.replace(thing, **changes)


def n_items_of(features: Features) -> int:
    """Return the number of rows of an array or of sparse rows."""
    return features.n_items if isinstance(features, Rows) else len(features)


@kernel
def corrected(
    features: Features,
    weights: Floats,
    newest: Floats,
    rounds: int,
    averaged: bool,
    row_weights: Floats,
    rate: float = 1.0,
) -> tuple[Floats, Floats]:
    """The weights to rank by and the newest ones: the same, or when `averaged` the mean of all newest ones so far.

    `rounds` corrections came before this one, so that `weights` is the mean of rounds + 1 vectors, the start included.
    """
    new = newest.copy()
    for i in range(len(row_weights)):
        if rate * row_weights[i] != 0.0:
            add_row(new, features, i, rate * row_weights[i])
    if not averaged:
        return new, new
    mean = np.empty_like(new)
    for j in range(len(new)):
        mean[j] = weights[j] + (new[j] - weights[j]) / (rounds + 2)
    return mean, new

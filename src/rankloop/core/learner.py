"""Base classes of linear learners, and helpers for learners: wrappers in layers, checks of feedback and updates."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_finite, check_positive
from rankloop.core.errors import IncompatibleFeedback, InvalidInput, UnstableUpdate
from rankloop.core.kernels import (
    ALL_POSITIONS,
    add_row,
    all_finite,
    clicked_weights,
    kernel,
    ranking_of,
    scores_of,
    seen_count,
)
from rankloop.core.types import Clicks, Decision, Features, Feedback, Floats, Ints, Problem, Query, Rows

K = TypeVar("K", bound=Feedback)


@kernel
def best_ranking(features: Features, weights: Floats) -> Ints:
    """Sort items by descending features · weights.

    Args:
      features: One row per item.
      weights: One weight per feature.
    """
    return ranking_of(scores_of(features, weights))


@kernel
def point_log_prob(best: Ints, ranking: Ints, shown: int) -> float:
    """Return the log-probability of a ranking for a learner that always shows `best`: 0, or −infinity.

    Args:
      best: The ranking that is shown.
      ranking: The ranking to judge.
      shown: The number of visible positions; negative: all.
    """
    for position in range(seen_count(shown, len(best))):
        if best[position] != ranking[position]:
            return -np.inf
    return 0.0


class LinearState(NamedTuple):
    """The weights, and the number of visible positions."""

    weights: Floats
    shown: int


class LinearLearner:
    """The base class of learners that sort by features · weights; those that explore override `rank` and `log_prob`.

    Subclasses have a last parameter `start`, the first weights (zeros if empty). Parameters named in `positive` must
    be above 0 or None.
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
        """See `Learner.init`."""
        return LinearState(self.first_weights(problem), shown_or_all(problem))

    def first_weights(self, problem: Problem) -> Floats:
        """Return the first weights."""
        return start_weights(self.start, problem.n_features)

    def predict(self, state: Any, query: Query) -> Ints:
        """See `Learner.predict`."""
        return best_ranking(query.features, state.weights)

    def log_prob(self, state: Any, query: Query, ranking: Ints) -> float:
        """See `Learner.log_prob`."""
        return point_log_prob(best_ranking(query.features, state.weights), ranking, state.shown)


class GreedyLearner(LinearLearner):
    """The base class of linear learners that always show their best ranking."""

    def rank(self, state: Any, query: Query, rng: Generator) -> Decision[tuple[()]]:
        """See `Learner.rank`."""
        return Decision(best_ranking(query.features, state.weights), 0.0, ())


class SparseLearner(LinearLearner):
    """The base class of linear learners that accept `Rows`: columns that are 0 in every item are not used.

    So the wrapper `hashed` can give them the weights of a query's columns only. Changed weights are in the state's
    `newest` if it has one, else in `weights`. A state with `evidence` (one number per column, from 0) sets its own step
    sizes.
    """

    def with_weights(self, state: Any, weights: Floats) -> Any:
        """Return the state with other weights."""
        names = [name for name in ("weights", "newest") if name in state._fields]
        return state._replace(**dict.fromkeys(names, weights))

    def with_table_entries(self, state: Any, entries: Floats) -> Any:
        """Return the state with the weights and the evidence of some columns, one row each."""
        state = self.with_weights(state, np.ascontiguousarray(entries[:, 0]))
        return state._replace(evidence=np.ascontiguousarray(entries[:, 1])) if hasattr(state, "evidence") else state

    def table_entries_of(self, state: Any) -> Floats | None:
        """Return weights and evidence, or None where the learner does not set its own step sizes."""
        return np.column_stack([state.weights, state.evidence]) if hasattr(state, "evidence") else None


@kernel
def project(weights: Floats, radius: float) -> None:
    """Scale weights in place so that their Euclidean norm is at most a radius.

    Args:
      weights: The weights.
      radius: The largest norm; may be infinite.
    """
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
    """Return `problem.shown` as a number for a state: −1 where every position is visible."""
    return ALL_POSITIONS if problem.shown is None else problem.shown


def seen_part(ranking: Ints, shown: int) -> Ints:
    """Return the visible part of a ranking.

    Args:
      ranking: The ranking.
      shown: The number of visible positions; negative: all.
    """
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
    """Return the first weights of a linear learner.

    Args:
      start: The weights; empty: zeros.
      n_features: The number of features.

    Raises:
      InvalidInput: If there is not one weight per feature.
    """
    if start and len(start) != n_features:
        raise InvalidInput(f"start has {len(start)} weights, the problem has {n_features} features: give one for each")
    return np.array(start, dtype=np.float64) if start else np.zeros(n_features)


def expect(feedback: Feedback, kind: type[K]) -> K:
    """Return the feedback if it is of a kind.

    Args:
      feedback: The feedback.
      kind: The type that the learner accepts.

    Raises:
      IncompatibleFeedback: If it is of another kind.
    """
    if not isinstance(feedback, kind):
        raise IncompatibleFeedback(f"this learner learns from {kind.__name__}, got {type(feedback).__name__}")
    return feedback


def check_receipt(fits: bool) -> None:
    """Raise `IncompatibleFeedback` unless a receipt fits its decision; kernels do not check bounds."""
    if not fits:
        raise IncompatibleFeedback("the decision's receipt is not one that this learner gave for this query")


def require_finite(values: Floats) -> Floats:
    """Return the values of a new state; raise `UnstableUpdate` if one is not finite."""
    if not all_finite(values):
        raise UnstableUpdate("the update would make the state non-finite; it was refused and the state is unchanged")
    return values


def finite(value: float) -> float:
    """Return a number of a new state; raise `UnstableUpdate` if it is not finite."""
    if not math.isfinite(value):
        raise UnstableUpdate(f"the update would put {value} into the state; it was refused and the state is unchanged")
    return value


def check_uses_context(learner: Any, n_context: int) -> None:
    """Raise if a learner would ignore the context.

    Args:
      learner: The learner.
      n_context: The number of context features.

    Raises:
      InvalidInput: If there is a context and the learner does not use it.
    """
    if n_context and not from_layers(learner, "uses_context", False):
        raise InvalidInput(
            f"{type(learner).__name__} cannot use a context of numbers. Use features by kind with crosses, as in "
            'features={"brand": "category"}, context={"segment": "category"}, crosses=["segment*brand"], or the '
            "learner linear_ucb"
        )


def layers_of(thing: Any) -> Iterator[Any]:
    """Yield a learner or a state, then its `inner`, and so on."""
    yield thing
    while hasattr(thing, "inner"):
        thing = thing.inner
        yield thing


def from_layers(thing: Any, name: str, default: Any = None) -> Any:
    """Return an attribute of the outermost layer that has it.

    Args:
      thing: A learner or a state, perhaps with layers in `inner`.
      name: The attribute.
      default: The result where no layer has it.
    """
    return next((getattr(layer, name) for layer in layers_of(thing) if hasattr(layer, name)), default)


def with_in_layers(thing: Any, name: str, value: Any) -> Any:
    """Return a learner or a state with an attribute changed in every layer that has it.

    Args:
      thing: A learner or a state, perhaps with layers in `inner`.
      name: The attribute.
      value: Its new value.
    """
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
    """Return the weights to rank by and the newest weights after a correction.

    Args:
      features: One row per item.
      weights: The weights to rank by: the mean of rounds + 1 vectors, if averaged.
      newest: The newest weights.
      rounds: The number of earlier corrections.
      averaged: Rank by the mean of all newest weights, not by the last.
      row_weights: The correction Σ_i row_weights[i] · features[i].
      rate: A factor of the correction.
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

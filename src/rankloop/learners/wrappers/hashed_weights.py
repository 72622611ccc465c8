"""A linear learner on millions of hashed columns with AdaGrad's step sizes, and the start from today's score."""

import dataclasses
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from rankloop.core import learner as base
from rankloop.core.checks import FiniteNumbers, Positive
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.learner import StateWrapper, Wrapper, from_layers, layers_of, with_in_layers
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Examples, entry_of, register
from rankloop.core.types import Decision, Feedback, Floats, Ints, Problem, Query, R, Rows
from rankloop.core.weight_table import WeightTable
from rankloop.features.hashed_columns import NAME_SEPARATOR, hash_of

UPDATE_COUNTER = NAME_SEPARATOR + "updates"  # No field has such a name.
ONE_UPDATE = np.array([0.0, 1.0])
NO_COLUMNS = np.empty(0, np.int64)


class State(NamedTuple):
    """The weight table, and the state of the inner learner."""

    table: WeightTable  # Weight and Σ gradient² of every column.
    inner: Any  # The state of the inner learner without its weights.
    n_hashed: int  # The number of hashed columns.


class StepSizes(NamedTuple):
    """Rate and prior of AdaGrad's steps, and those of the memory columns."""

    rate: float
    prior: float
    memory_rate: float
    memory_prior: float


@kernel
def _stepped(
    columns: Ints, entries: Floats, after: Floats, n_hashed: int, steps: StepSizes, share: float
) -> tuple[Ints, Floats]:
    """Return the columns that changed and their new entries: w + rate · g / √(prior + Σ g²), g being the inner step."""
    differs = after != entries[:, 0]
    changed, values, inner_steps = columns[differs], entries[differs], (after - entries[:, 0])[differs]
    for i in range(len(changed)):
        step, rate, prior = inner_steps[i], steps.memory_rate, steps.memory_prior
        if not n_hashed // 2 <= changed[i] < n_hashed:
            step, rate, prior = step * share, steps.rate, steps.prior
        # AdaGrad: the step of a column is divided by the root of its summed squares (Duchi, Hazan and Singer, 2011).
        values[i, 1] += step * step
        values[i, 0] += rate / np.sqrt(prior + values[i, 1]) * step
    return changed, values


@register("hashed")
class Hashed(StateWrapper):
    """Train a linear learner on a table of hashed columns, of which only those of the query are read and changed.

    For each query the weights of its columns are read and passed to `inner`. When `inner` takes a step g, the table
    gets

      w ← w + `rate` · g / √(`prior` + Σ g²),

    where the sum is over all steps of this column (AdaGrad). A `learning_rate` of `inner` is replaced by 1. Columns of
    ids and of crosses with ids are memory, the upper half of the table. An `inner` that keeps evidence per column, such
    as `diagonal_thompson`, sets its step sizes itself. `Ranker` and the service add it when features have a schema.

    Args:
      inner: A linear learner that accepts sparse rows.
      rate: The step size of AdaGrad.
      prior: The first value of the summed squares.
      memory_rate: The `rate` of the memory columns; `rate` if None.
      memory_prior: The `prior` of the memory columns; `prior` if None.
      by_query: If true, the n-th update from a query of the same name moves the weights outside of memory by 1 / n
        only, so that these learn from many different queries; updates that change nothing do not count.
      start: The first weights of the dense block; zeros if empty.

    References:
      Duchi, Hazan and Singer (2011), Adaptive Subgradient Methods for Online Learning and Stochastic Optimization.
      Weinberger et al. (2009), Feature Hashing for Large Scale Multitask Learning.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("hashed(inner='click_regression')", "web_search", "position_based", "nDCG@10"), 3)
      0.55
    """

    inner: AnyLearner
    rate: Positive = 0.3
    prior: Positive = 1.0
    memory_rate: Positive | None = None
    memory_prior: Positive | None = None
    by_query: bool = False
    start: FiniteNumbers = ()

    examples: ClassVar[Examples] = (
        {"inner": "fair_pairs"},
        {"inner": "pdgd", "rate": 0.1, "prior": 2.0, "by_query": True},
        {"inner": "online_gradient", "start": (0.0, 0.5, -1.0)},
    )

    def __post_init__(self) -> None:
        kind = entry_of(self.inner).kind
        if from_layers(self.inner, "diagonal") is False:
            raise InvalidInput(f"{kind} keeps a matrix, for which hashed columns are too many: give it diagonal = true")
        if not hasattr(self.inner, "with_table_entries"):
            able = "click_regression, fair_pairs, pdgd, 3pr and preference_perceptron can"
            raise InvalidInput(f"{kind} needs a number for every feature of every item, not hashed columns; {able}")
        if from_layers(self.inner, "radius") is not None:
            raise InvalidInput("a radius bounds all weights together, which hashed columns cannot: leave it out")

    def init(self, problem: Problem) -> State:
        small = problem._replace(n_features=0, n_hashed=0, feature_names=())
        table = WeightTable(problem.n_features)
        if self.start:
            later = (0.0,) * (problem.n_dense - len(self.start))  # of fields that a live schema has got since
            weights = base.start_weights(self.start + later, problem.n_dense)
            columns = problem.n_hashed + np.arange(problem.n_dense)
            table = table.patched(columns, np.column_stack([weights, np.zeros(len(weights))]))
        return State(table, self._inner.init(small), problem.n_hashed)

    def _for_inner(self, state: State, query: Query) -> tuple[Any, Query]:
        return self._in_sight(state, query)[0], query

    def learn(self, state: State, query: Query, decision: Decision[R], feedback: Feedback) -> State:
        small, columns, entries = self._in_sight(state, query)
        after = self._inner.learn(small, query, decision, feedback)
        inner_entries = self._inner.table_entries_of(after)
        if inner_entries is not None:
            differs = (inner_entries != entries).any(axis=1)
            changed, values = columns[differs], inner_entries[differs]
        else:
            changed, values = self._written(state, query, columns, entries, getattr(after, "newest", after.weights))
        empty_inner = self._inner.with_table_entries(after, np.empty((0, 2)))
        return State(state.table.patched(changed, base.require_finite(values)), empty_inner, state.n_hashed)

    @cached_property
    def _step_sizes(self) -> StepSizes:
        return StepSizes(self.rate, self.prior, self.memory_rate or self.rate, self.memory_prior or self.prior)

    @cached_property
    def _inner(self) -> Any:
        """The inner learner with step size 1 and without start weights: both are decided here."""
        inner = with_in_layers(self.inner, "start", ())
        return with_in_layers(inner, "learning_rate", 1.0) if from_layers(inner, "learning_rate") is not None else inner

    def _in_sight(self, state: State, query: Query) -> tuple[Any, Ints, Floats]:
        """Return the inner state for this query's columns, the columns, and their table entries."""
        features = query.features
        if type(features) is Rows:
            columns = np.concatenate([features.columns, state.n_hashed + np.arange(features.dense.shape[1])])
        else:
            columns = np.arange(features.shape[1])
        entries = state.table.at(columns)
        return self._inner.with_table_entries(state.inner, entries), columns, entries

    def _written(self, state: State, query: Query, columns: Ints, entries: Floats, step: Floats) -> tuple[Ints, Floats]:
        """Return the columns that change and their new entries, the counter of updates by query included."""
        if not self.by_query or not query.id or state.n_hashed < 2:
            return _stepped(columns, entries, step, state.n_hashed, self._step_sizes, 1.0)
        half = state.n_hashed // 2
        counter = np.array([half + hash_of(UPDATE_COUNTER, query.id) % half])  # a column of memory
        counted = state.table.at(counter)
        share = 1.0 / (1.0 + counted[0, 1])
        changed, values = _stepped(columns, entries, step, state.n_hashed, self._step_sizes, share)
        if not len(changed) or counter[0] in changed:
            return changed, values
        return np.concatenate([changed, counter]), np.concatenate([values, counted + ONE_UPDATE])


@register("base_score")
class BaseScore(Wrapper):
    """A linear learner that starts as today's ranker, whose score is one of the features.

      w_feature = `weight` at first, and every other weight 0.

    Before the first update the rankings are today's; then the learner changes the weight of the base score as that of
    any other feature. A larger `weight` makes the learner slower to leave today's order.

    Args:
      inner: A learner with `start` weights, or a wrapper such as `standardised` around one.
      feature: The column of the base score, counted from the end when negative; with a schema, among the numbers of
        declared scale.
      weight: The first weight of the base score.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("base_score(inner='newton_pairs', feature=0)", "web_search", "dcm", "nDCG@10"), 3)
      0.486
    """

    inner: AnyLearner
    feature: int = -1
    weight: Positive = 1.0

    examples: ClassVar[Examples] = ({"inner": "online_gradient"}, {"inner": "standardised(inner='online_gradient')"})

    def __post_init__(self) -> None:
        _started_at(self.inner, ())

    def init(self, problem: Problem) -> Any:
        n_features = problem.n_dense  # hashed columns cannot hold it
        if not -n_features <= self.feature < n_features:
            raise InvalidInput(f"feature = {self.feature}, of the base score, must be below n_features = {n_features}")
        start = [0.0] * n_features
        start[self.feature] = self.weight
        return _started_at(self.inner, tuple(start)).init(problem)


def _started_at(learner: AnyLearner, start: tuple[float, ...]) -> AnyLearner:
    """Return the learner with other start weights; wrappers pass them on to the learner inside."""
    if from_layers(learner, "start") is None:
        *_, innermost = layers_of(learner)
        raise InvalidInput(f"{type(innermost).__name__} has no start weights: base_score needs a linear learner inside")
    return cast(AnyLearner, with_in_layers(learner, "start", start))


def with_hashed(learner: AnyLearner) -> AnyLearner:
    """Return the learner wrapped in `hashed`; itself if it has hashed columns already, or uses no features."""
    if any(isinstance(layer, Hashed) for layer in layers_of(learner)) or getattr(learner, "ignores_features", False):
        return learner
    if isinstance(learner, BaseScore):
        return dataclasses.replace(learner, inner=with_hashed(learner.inner))
    return Hashed(inner=learner)

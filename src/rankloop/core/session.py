"""Sessions: a learner in use, with the checks of queries and feedback that kernels rely on."""

from threading import Lock
from typing import Any, get_origin, get_type_hints

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence

from rankloop.core import types
from rankloop.core.errors import IncompatibleFeedback, InvalidInput, UnstableUpdate
from rankloop.core.kernels import is_permutation, kernel
from rankloop.core.learner import HIGH, LOW, Robust, RobustState, from_layers, layers_of
from rankloop.core.plain_values import receipt_type
from rankloop.core.protocols import AnyLearner
from rankloop.core.types import Clicks, Decision, Feedback, Floats, Ints, Preferred, Problem, Query, Relevances, Rows

FEEDBACK_FAULTS = (
    "",
    "the decision's ranking is not a permutation of the query's items",
    "an item was not among the first positions that users see",
    "an item is named twice",
    "every number must be finite",
    "there must be one number for each item",
    "it must name exactly the visible items",
    "a weight is negative",
)


def generators(seed: int) -> tuple[Generator, Generator, Generator, Generator]:
    """Return independent generators for stream, users, learner and delivery."""
    stream, users, learner, delivery = (Generator(PCG64(child)) for child in SeedSequence(seed).spawn(4))
    return stream, users, learner, delivery


class Session:
    """A learner in use. Many threads may rank and learn at once; no update is lost.

    Args:
      learner: The learner.
      problem: The sizes of the problem.
      seed: Of the exploration.

    Examples:
      >>> from rankloop import Query, build
      >>> session = Session(build("fair_pairs"), Problem(n_features=1))
      >>> query = Query.of([[0.1], [0.9]])
      >>> decision = session.rank(query)
      >>> state = session.learn(query, decision, Clicks([1], [1.0]))
      >>> session.learned
      1
    """

    def __init__(self, learner: AnyLearner, problem: Problem, seed: int = 0) -> None:
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise InvalidInput(f"a seed is a whole number from 0, got {seed!r}")
        _check_problem(problem)
        self.learner = learner
        self.problem = problem
        self.seed = int(seed)
        self.learned = 0
        self.refused = 0
        self._accepts = frozenset(learner.accepts)
        self._receipt, self._arrays = _receipt_form(learner)
        try:
            self._state: Any = learner.init(problem)
        except ArithmeticError as error:
            raise InvalidInput(f"this learner cannot start with this problem: {error}") from error
        if not _all_finite(self._state):
            raise InvalidInput("this learner's first state is not finite; use smaller parameters or max_grade")
        self._generator = Generator(PCG64(SeedSequence(seed, spawn_key=(2,))))  # the third of `generators`
        self._draw_lock = Lock()
        self._state_lock = Lock()

    @property
    def state(self) -> Any:
        """The current state, an immutable value."""
        return self._state

    def rank(self, query: Query, generator: Generator | None = None) -> Decision[Any]:
        """Return the ranking to show, with everything that `learn` needs; a generator replaces the session's own."""
        _check_query(query, self.problem)
        if generator is not None:
            return self.learner.rank(self._state, query, generator)
        with self._draw_lock:
            return self.learner.rank(self._state, query, self._generator)

    def predict(self, query: Query) -> Ints:
        """Return the best ranking without exploration; raise `InvalidInput` if the query does not fit the problem."""
        _check_query(query, self.problem)
        return self.learner.predict(self._state, query)

    def log_prob(self, query: Query, ranking: Ints) -> float:
        """Return the log-probability that `rank` shows the visible part of a ranking now; nan: no closed form."""
        _check_query(query, self.problem)
        ranking = np.asarray(ranking, dtype=np.int64)
        if not is_permutation(ranking, _n_items_of(query)):
            raise InvalidInput("the ranking is not a permutation of the query's items")
        return self.learner.log_prob(self._state, query, ranking)

    def learn(self, query: Query, decision: Decision[Any], feedback: Feedback) -> Any:
        """Learn from the feedback to a decision, now or much later, and return the new state.

        Raises:
          IncompatibleFeedback: If the learner does not accept it, or it does not fit the decision.
          UnstableUpdate: If the new state would not be finite. This is counted in `refused`; the state is unchanged.
        """
        _check_query(query, self.problem)
        if type(feedback) not in self._accepts:
            accepted = " or ".join(sorted(kind.__name__ for kind in self._accepts)) or "nothing"
            raise IncompatibleFeedback(f"this learner learns from {accepted}, not from {type(feedback).__name__}")
        receipt, ranking = decision.receipt, _flat_array(decision.ranking, np.int64)
        if not isinstance(receipt, self._receipt) or any(type(receipt[i]) is not np.ndarray for i in self._arrays):
            raise IncompatibleFeedback(f"the decision carries {receipt!r:.60}, which is not a receipt of this learner")
        if ranking is not decision.ranking:
            decision = decision._replace(ranking=ranking)
        limit = self.problem.depth if type(feedback) is Relevances else self.problem.shown
        feedback = checked_feedback(feedback, ranking, _n_items_of(query), limit)
        with self._state_lock:
            try:
                self._state = self.learner.learn(self._state, query, decision, feedback)
            except ArithmeticError as error:
                self.refused += 1
                raise UnstableUpdate(str(error)) from error
            self.learned += 1
            return self._state

    def snapshot(self) -> tuple[Any, dict[str, Any], int, int]:
        """Return state, generator state, `learned` and `refused`, all of the same moment."""
        with self._draw_lock, self._state_lock:
            return self._state, dict(self._generator.bit_generator.state), self.learned, self.refused

    @property
    def generator(self) -> dict[str, Any]:
        """The state of the generator; unlike `snapshot` it does not wait for an update in progress."""
        with self._draw_lock:
            return dict(self._generator.bit_generator.state)

    def restore(self, state: Any, generator: dict[str, Any] | None, learned: int, refused: int) -> None:
        """Continue from the parts of a snapshot; without a generator state the generator goes on."""
        with self._draw_lock, self._state_lock:
            if generator is not None:
                self._generator.bit_generator.state = generator
            self._state, self.learned, self.refused = state, learned, refused

    def continued(self, learner: AnyLearner, problem: Problem, state: Any) -> "Session":
        """Return a session of another learner, problem and state with the generator and the counts of this one."""
        _, generator, learned, refused = self.snapshot()
        session = Session(learner, problem, self.seed)
        session.restore(state, generator, learned, refused)
        return session


def check_uses_context(learner: Any, n_context: int) -> None:
    """Raise if a learner would ignore the context.

    Args:
      learner: The learner.
      n_context: The number of context features.
    """
    if n_context and not from_layers(learner, "uses_context", False):
        schema = 'features={"brand": "category"}, context={"segment": "category"}, crosses=["segment*brand"]'
        name = type(learner).__name__
        raise InvalidInput(f"{name} cannot use a context of numbers. Use crosses, as in {schema}, or linear_ucb")


def with_robust(learner: AnyLearner, problem: Problem, has_users: bool = False, max_weight: float = 1.0) -> AnyLearner:
    """Return the learner wrapped in `robust`; itself if it is so already, or has nothing to be protected.

    Args:
      learner: A learner, perhaps in wrappers.
      problem: Its problem.
      has_users: Queries name their users, each of whom should count once, also where there are no numbers.
      max_weight: The largest weight of a click that the ranker declares by its outcomes.
    """
    has_numbers = problem.n_features + problem.n_context > 0 and not problem.n_hashed
    has_votes = has_users and not from_layers(learner, "by_user", False)  # else it limits users itself
    is_robust = any(isinstance(layer, Robust) for layer in layers_of(learner))
    if is_robust or not from_layers(learner, "learns", True) or not (has_numbers or has_votes):
        return learner
    return Robust(inner=learner, max_weight=max_weight)


def row_in_range(state: Any, row: Floats) -> Floats:
    """Return the features of an item as its score uses them, inside their ranges.

    Args:
      state: The state of a learner.
      row: One number per feature.
    """
    has_ranges = isinstance(state, RobustState) and state.ranges.shape[1]
    return np.clip(row, state.ranges[LOW, : len(row)], state.ranges[HIGH, : len(row)]) if has_ranges else row


def as_robust(initial: Any, state: Any) -> Any:
    """Return the state of a learner as that of its `robust` wrapper, if it has one.

    Args:
      initial: The first state of the learner as it is used.
      state: A saved state, perhaps of the learner without the wrapper.
    """
    is_bare = isinstance(initial, RobustState) and not isinstance(state, RobustState)
    return initial._replace(inner=state) if is_bare else state


def _receipt_form(learner: AnyLearner) -> tuple[Any, tuple[int, ...]]:
    """Return the class of a learner's receipts and the positions of their arrays; `object` where it is unknown."""
    try:
        annotation = receipt_type(learner)
        cls: type = get_origin(annotation) or annotation
        hints, fields = get_type_hints(cls), getattr(cls, "_fields", ())
        return cls, tuple(i for i, name in enumerate(fields) if get_origin(hints[name]) is np.ndarray)
    except (InvalidInput, AttributeError, NameError, TypeError):
        return object, ()


def _all_finite(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_all_finite, value))
    return not isinstance(value, float | np.ndarray) or bool(np.isfinite(value).all())


def _check_problem(problem: Problem) -> None:
    """Raise `InvalidInput` if a number of a problem is out of range."""
    smallest = {"n_features": 0, "n_items": 1, "n_context": 0, "shown": 1, "depth": 1, "max_grade": 0, "n_hashed": 0}
    for name, least in smallest.items():
        value = getattr(problem, name)
        may_be_none = name in ("n_items", "shown", "depth")
        if not (value is None and may_be_none) and (not isinstance(value, int | np.integer) or value < least):
            raise InvalidInput(f"the problem's {name} must be a whole number from {least}, got {value!r}")
    if not all(isinstance(name, str) for name in problem.feature_names):
        raise InvalidInput(f"feature names must be strings, got {problem.feature_names!r:.80}")
    if problem.n_hashed > problem.n_features:
        raise InvalidInput(f"n_hashed = {problem.n_hashed} must be at most n_features = {problem.n_features}")
    if problem.feature_names and len(problem.feature_names) != problem.n_features:
        raise InvalidInput(f"{len(problem.feature_names)} feature names for {problem.n_features} features")


def _check_query(query: Query, problem: Problem) -> None:
    """Raise if a query does not have the shape of the problem."""
    n_items = _n_items_of(query)
    if type(query.features) is Rows:  # whose dense block may be narrower than the problem's, never wider
        rows, n_dense = query.features, query.features.dense.shape[1]
        if not problem.n_hashed:
            raise InvalidInput("this problem has no hashed columns, so its queries must have an array")
        if n_dense > problem.n_dense:
            raise InvalidInput(f"the query has {n_dense} numbers per item, the problem {problem.n_dense}")
        fits = len(rows.starts) == len(rows.dense) + 1 and len(rows.values) == len(rows.positions)
        if not fits or not _rows_fit(rows, problem.n_hashed):
            raise InvalidInput("the query's rows do not fit: an entry or a column is out of range, or not finite")
    elif problem.n_hashed:
        raise InvalidInput("this problem has hashed columns, so its queries must have Rows, as an Encoder makes them")
    elif query.features.shape[1] != problem.n_features:
        n_features = query.features.shape[1]
        raise InvalidInput(f"the query has {n_features} features per item, the problem {problem.n_features}")
    if n_items == 0:
        raise InvalidInput("the query has no items; there must be at least one")
    if problem.n_items is not None and n_items != problem.n_items:
        raise InvalidInput(f"the query has {n_items} items, the fixed set {problem.n_items}")
    if len(query.context) != problem.n_context:
        raise InvalidInput(f"the query has {len(query.context)} context features, the problem {problem.n_context}")


@kernel
def _rows_fit(rows: Rows, n_hashed: int) -> bool:
    """Return true if all indices of rows are in range and all values finite."""
    if rows.starts[0] != 0 or rows.starts[-1] != len(rows.positions):
        return False
    for i in range(len(rows.starts) - 1):
        if rows.starts[i] > rows.starts[i + 1]:
            return False
    n_columns, total = len(rows.columns), 0.0
    for e in range(len(rows.positions)):
        if rows.positions[e] < 0 or rows.positions[e] >= n_columns:
            return False
        total += 0.0 * rows.values[e]
    for column in rows.columns:
        if column < 0 or column >= n_hashed:
            return False
    for value in rows.dense.flat:
        total += 0.0 * value
    return total == 0.0


def _n_items_of(query: Query) -> int:
    # As `query.n_items`, without entering another file for every request.
    features = query.features
    return features.n_items if type(features) is Rows else len(features)


@kernel
def _fault_in(ranking: Ints, n_items: int, n_visible: int, items: Ints, values: Floats, exact: bool) -> int:
    """Return the number of the fault in `FEEDBACK_FAULTS` that feedback has; 0: none."""
    if not is_permutation(ranking, n_items):
        return 1
    if len(items) != len(values):
        return 5
    open_items = np.zeros(n_items, np.int8)
    for position in range(n_visible):
        open_items[ranking[position]] = 1
    for i in range(len(items)):
        if items[i] < 0 or items[i] >= n_items or open_items[items[i]] == 0:
            return 2
        if open_items[items[i]] == 2:
            return 3
        open_items[items[i]] = 2
        if not np.isfinite(values[i]):
            return 4
        if values[i] < 0 and not exact:
            return 7
    return 6 if exact and len(items) != n_visible else 0


def checked_feedback(feedback: Feedback, ranking: Ints, n_items: int, limit: int | None) -> Feedback:
    """Return feedback with arrays of the right types.

    Args:
      feedback: The feedback.
      ranking: The shown ranking.
      n_items: The number of items.
      limit: The number of visible positions; None: all.
    """
    n_visible = n_items if limit is None or limit > n_items else limit
    kind, is_exact = type(feedback), not isinstance(feedback, Clicks)
    if isinstance(feedback, Clicks | Relevances):
        items, values = _flat_array(feedback[0], np.int64), _flat_array(feedback[1], np.float64)
        if items is not feedback[0] or values is not feedback[1]:
            feedback = Relevances(items, values) if is_exact else Clicks(items, values)
    elif isinstance(feedback, Preferred):
        items, n_visible = _flat_array(feedback.ranking, np.int64), n_items
        values, feedback = np.zeros(len(items)), Preferred(items)
    else:
        items, n_visible, values = ranking[:1], 1, _flat_array([feedback.value], np.float64)
        feedback = types.Reward(float(values[0]))
    fault = _fault_in(ranking, n_items, n_visible, items, values, is_exact)
    if fault:
        raise IncompatibleFeedback(f"{kind.__name__}: {FEEDBACK_FAULTS[fault]}")
    return feedback


def _flat_array(values: Any, dtype: type) -> Any:
    """Return a flat array of int64 or float64, not copied where possible; raise `IncompatibleFeedback` for others."""
    if type(values) is np.ndarray and values.dtype == dtype and values.ndim == 1:
        return values
    try:
        if dtype is np.int64:
            return types.item_indices(values, "items and rankings")
        array = types.real_numbers(values, "grades, weights and rewards")
    except InvalidInput as error:
        raise IncompatibleFeedback(str(error)) from None
    if array.ndim != 1:
        raise IncompatibleFeedback("grades and weights must be flat lists of numbers")
    return array

"""Checks of problems, queries and feedback at the border of a session: kernels trust what has passed them."""

from typing import Any

import numpy as np

from rankloop.core.errors import IncompatibleFeedback, InvalidInput
from rankloop.core.kernels import is_permutation, kernel
from rankloop.core.types import (
    Clicks,
    Feedback,
    Floats,
    Ints,
    Preferred,
    Problem,
    Query,
    Relevances,
    Reward,
    Rows,
    item_indices,
    real_numbers,
)

MAY_BE_NONE = ("n_items", "shown", "depth")
FAULTS = (
    "",
    "the decision's ranking is not a permutation of the query's items",
    "an item is named that was not in the part that is seen",
    "an item is named twice",
    "a number is not finite",
    "items and numbers differ in length",
    "it must name exactly the items that were seen",
    "a weight is negative",
)


def check_problem(problem: Problem) -> None:
    """Raise `InvalidInput` if a problem does not make sense."""
    least = {"n_features": 0, "n_items": 1, "n_context": 0, "shown": 1, "depth": 1, "max_grade": 0, "n_hashed": 0}
    for name, smallest in least.items():
        value = getattr(problem, name)
        if value is None and name in MAY_BE_NONE:
            continue
        if not isinstance(value, int | np.integer) or value < smallest:
            raise InvalidInput(f"the problem's {name} must be a whole number from {smallest}, got {value!r}")
    if not all(isinstance(name, str) for name in problem.feature_names):
        raise InvalidInput(f"feature names are texts, got {problem.feature_names!r:.80}")
    if problem.n_hashed > problem.n_features:
        raise InvalidInput(f"{problem.n_hashed} hashed columns among {problem.n_features} features")
    if problem.feature_names and len(problem.feature_names) != problem.n_features:
        raise InvalidInput(f"{len(problem.feature_names)} feature names for {problem.n_features} features")


def check_query(query: Query, problem: Problem) -> None:
    """Raise if a query does not have the shape of the problem.

    Args:
      query: The query.
      problem: What is known of every query.

    Raises:
      InvalidInput: If features, items or context are other than the problem says.
    """
    n_items = query.n_items
    if type(query.features) is Rows:
        _check_rows(query.features, problem)
    elif problem.n_hashed:
        raise InvalidInput("this problem has hashed columns: its queries hold Rows, as a Schema makes them")
    elif query.features.shape[1] != problem.n_features:
        n_features = query.features.shape[1]
        raise InvalidInput(f"the query has {n_features} features per item, the problem {problem.n_features}")
    if n_items == 0:
        raise InvalidInput("the query has no items; there must be at least one")
    if problem.n_items is not None and n_items != problem.n_items:
        raise InvalidInput(f"the query has {n_items} items, the fixed set {problem.n_items}")
    if len(query.context) != problem.n_context:
        raise InvalidInput(f"the query has {len(query.context)} context features, the problem {problem.n_context}")


def _check_rows(rows: Rows, problem: Problem) -> None:
    """Kernels go by these numbers: none may lead outside. The block may be narrower than the problem's, never wider."""
    n_items, n_dense = rows.dense.shape
    if not problem.n_hashed:
        raise InvalidInput("this problem has no hashed columns: its queries hold an array")
    if n_dense > problem.n_dense:
        raise InvalidInput(f"the query has {n_dense} numbers per item, the problem {problem.n_dense}")
    fits = len(rows.starts) == n_items + 1 and len(rows.values) == len(rows.positions)
    if not fits or not rows_fit(rows, problem.n_hashed):
        raise InvalidInput("the query's rows do not fit together: an entry or a column is out of range, or not finite")


@kernel
def rows_fit(rows: Rows, n_hashed: int) -> bool:
    """Whether starts, positions and columns lead nowhere else, and every value is finite."""
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


@kernel
def fault_in(ranking: Ints, n_items: int, seen: int, items: Ints, values: Floats, exact: bool) -> int:
    """Which of FAULTS the feedback has, 0 for none; `exact`: every seen item must be named, with any number."""
    if not is_permutation(ranking, n_items):
        return 1
    if len(items) != len(values):
        return 5
    open_items = np.zeros(n_items, np.int8)
    for position in range(seen):
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
    return 6 if exact and len(items) != seen else 0


def checked_feedback(feedback: Feedback, ranking: Ints, n_items: int, limit: int | None) -> Feedback:
    """The feedback with arrays as kernels want them; `limit` is how many positions could be seen (None: all)."""
    seen = n_items if limit is None or limit > n_items else limit
    kind = type(feedback)
    if isinstance(feedback, Clicks | Relevances):
        items, values = whole_numbers(feedback[0]), flat_numbers(feedback[1])
        fault = fault_in(ranking, n_items, seen, items, values, kind is Relevances)
        if items is not feedback[0] or values is not feedback[1]:
            feedback = Relevances(items, values) if kind is Relevances else Clicks(items, values)
    elif isinstance(feedback, Preferred):
        better = whole_numbers(feedback.ranking)
        fault = fault_in(ranking, n_items, n_items, better, np.zeros(len(better)), True)
        feedback = Preferred(better)
    else:
        value = flat_numbers([feedback.value])
        fault = fault_in(ranking, n_items, 1, ranking[:1], value, True)
        feedback = Reward(float(value[0]))
    if fault:
        raise IncompatibleFeedback(f"{kind.__name__}: {FAULTS[fault]}")
    return feedback


def whole_numbers(values: Any) -> Ints:
    """A flat int64 array; itself where it is one."""
    if type(values) is np.ndarray and values.dtype == np.int64 and values.ndim == 1:
        return values
    try:
        return item_indices(values, "items and rankings")
    except InvalidInput as error:
        raise IncompatibleFeedback(str(error)) from None


def flat_numbers(values: Any) -> Floats:
    """A flat float64 array; itself where it is one."""
    if type(values) is np.ndarray and values.dtype == np.float64 and values.ndim == 1:
        return values
    try:
        array = real_numbers(values, "grades, weights and rewards")
    except InvalidInput as error:
        raise IncompatibleFeedback(str(error)) from None
    if array.ndim != 1:
        raise IncompatibleFeedback("grades and weights are flat lists of numbers")
    return array

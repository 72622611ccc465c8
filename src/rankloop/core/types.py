"""The types of problems, queries, decisions and feedback; and conversion of numbers from outside, with checks."""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput

# Not NDArray[…], which is no ndarray from NumPy 2.5 on: receipts are read by these annotations.
Floats = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
Ints = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]
Bools = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]
R = TypeVar("R")
MAX_HASHED_BITS = 26
MAX_HASHED = 2**MAX_HASHED_BITS  # hashed columns of a problem: their weight table takes 1 GiB


class Problem(NamedTuple):
    """The sizes of a ranking problem, which are known before the first query."""

    n_features: int  # per item
    n_items: int | None = None  # of a fixed set; None: queries have items of their own
    n_context: int = 0  # features of the request
    shown: int | None = None  # visible positions; None: all
    depth: int | None = None  # positions whose grades come back; None: all
    max_grade: int = 1  # grades are from 0 to this
    feature_names: tuple[str, ...] = ()
    n_hashed: int = 0  # the first so many features are hashed columns

    @property
    def n_dense(self) -> int:
        """The number of features that are not hashed columns."""
        return self.n_features - self.n_hashed


class Rows(NamedTuple):
    """The sparse features of a query's items, and a block of dense ones.

    Item i has the entries from `starts[i]` to `starts[i + 1]`; entry e is `values[e]` in the hashed column
    `columns[positions[e]]`. Each column is in `columns` once. The weights of these rows are those of `columns`, then
    those of the dense block.
    """

    starts: Ints  # (n_items + 1,)
    positions: Ints
    values: Floats
    columns: Ints
    dense: Floats  # (n_items, n_dense)

    @property
    def n_items(self) -> int:
        """The number of items."""
        return len(self.starts) - 1

    def take(self, items: Ints) -> "Rows":
        """Return some of the items, in this order; `columns` stays the same, and consecutive items are not copied."""
        sizes = np.diff(self.starts)[items]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        if len(items) and (np.diff(items) == 1).all():
            first, end = int(items[0]), int(items[-1]) + 1
            rows, entries = slice(first, end), slice(int(self.starts[first]), int(self.starts[end]))
            return Rows(starts, self.positions[entries], self.values[entries], self.columns, self.dense[rows])
        entry_numbers = np.arange(starts[-1]) + np.repeat(self.starts[items] - starts[:-1], sizes)
        return Rows(starts, self.positions[entry_numbers], self.values[entry_numbers], self.columns, self.dense[items])


Features = Floats | Rows


class Query(NamedTuple):
    """One request to rank, without the relevance of the items."""

    id: str
    features: Any  # Features: an array (n_items, n_features), or `Rows` where the problem has hashed columns
    context: Floats  # (n_context,)
    user: str = ""  # whose request it is, for learners that limit how much a user counts
    item_ids: Sequence[str | int] = ()  # the names of the items, for the same learners

    @property
    def n_items(self) -> int:
        """The number of items."""
        features = self.features
        return features.n_items if type(features) is Rows else len(features)

    @classmethod
    def of(cls, features: ArrayLike, context: ArrayLike = (), id: str = "") -> "Query":
        """Make a query from numbers, one row of features per item, which are checked and copied."""
        return cls(id, finite_floats(features, 2, "features"), finite_floats(context, 1, "context"))


class Decision(NamedTuple, Generic[R]):
    """A shown ranking, with everything that `learn` needs when feedback comes."""

    ranking: Ints
    log_propensity: float  # the log-probability of the ranking at decision time; nan where unknown
    receipt: R  # further data of the learner


class Relevances(NamedTuple):
    """The grades of the first `depth` items."""

    items: Ints
    grades: Floats


class Clicks(NamedTuple):
    """Clicked items of the visible part; weight 1 is a click, a purchase may weigh more."""

    items: Ints
    weights: Floats


class Preferred(NamedTuple):
    """A better order of the same items."""

    ranking: Ints


class Reward(NamedTuple):
    """The reward of the first item."""

    value: float


Feedback = Relevances | Clicks | Preferred | Reward


class Arrival(NamedTuple):
    """Feedback with the query and the decision that it belongs to."""

    query: Query
    decision: Decision[Any]
    feedback: Feedback


class Limit(NamedTuple):
    """A limit on the exploration of a sequential learner."""

    positions: int = -1  # no item moves more positions than this from the best ranking; -1: no limit
    keep_first: bool = False  # the best item stays first


def item_indices(values: ArrayLike, name: str) -> Ints:
    """Return a one-dimensional int64 array.

    Args:
      values: Integers.
      name: The name of the argument, for error messages.
    """
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be a list of item numbers, got {values!r:.80}") from None
    array = array if array.size else np.zeros(array.shape, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidInput(f"{name} must be a list of item numbers, got shape {array.shape} of {array.dtype}")
    return np.array(array, dtype=np.int64)


def whole_number(value: Any, name: str, least: int) -> int:
    """Return an integer.

    Args:
      value: The value; true and 1.0 are not integers.
      name: The name of the argument, for error messages.
      least: The smallest value that is allowed.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInput(f"{name} must be a whole number from {least}, got {value!r:.80}")
    return int(value)


def rows_in(values: Any, name: str) -> Sequence[Any]:
    """Return a list from outside.

    Args:
      values: A sequence or an array.
      name: The name of the argument, for error messages.
    """
    is_list = isinstance(values, np.ndarray) and values.ndim > 0
    if not is_list and (isinstance(values, str | bytes) or not isinstance(values, Sequence)):
        raise InvalidInput(f"{name} must be a list, got {values!r:.80}")
    return values  # type: ignore[no-any-return]


def real_numbers(values: Any, name: str) -> Floats:
    """Return a writable C-contiguous float64 copy of any shape.

    Args:
      values: Real numbers.
      name: The name of the argument, for error messages.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "cmMV":
            return np.array(array, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{name} must be numbers, in rows of even length: {error}") from None
    raise InvalidInput(f"{name} must be real numbers, got {array.dtype}")


def finite_floats(values: ArrayLike, ndim: int, name: str) -> Floats:
    """Return a writable C-contiguous float64 copy of finite numbers.

    Args:
      values: The numbers.
      ndim: The number of dimensions.
      name: The name of the argument, for error messages.
    """
    array = real_numbers(values, name)
    if array.ndim != ndim:
        raise InvalidInput(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        position = f"row {bad[0][0]}, column {bad[0][1]}" if ndim == 2 else f"entry {bad[0][0]}"
        raise InvalidInput(f"{name}: {array[tuple(bad[0])]} at {position} (every number must be finite)")
    return array

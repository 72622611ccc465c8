"""The words of rankloop as values: what is asked, shown and revealed; and numbers from outside, checked."""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput

# Spelt out: NDArray[…] no longer says that it is an ndarray from numpy 2.5 on, and receipts are read by annotation.
Floats = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
Ints = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]
Bools = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]
R = TypeVar("R")


class Problem(NamedTuple):
    """What is known before the first round."""

    n_features: int
    n_items: int | None = None  # fixed sets only
    n_context: int = 0
    shown: int | None = None
    depth: int | None = None
    max_grade: int = 1  # grades are 0..max_grade
    feature_names: tuple[str, ...] = ()
    n_hashed: int = 0  # so many of the features, the first ones, are columns of a hash table; 0: there is none

    @property
    def n_dense(self) -> int:
        """How many features every item has a number for."""
        return self.n_features - self.n_hashed


class Rows(NamedTuple):
    """The features of a query's items where most of them are 0: what is not, and a block of plain numbers.

    Entry e says that an item has `values[e]` in the hashed column `columns[positions[e]]`; item i owns the entries from
    `starts[i]` to `starts[i + 1]`. A column stands in `columns` once. The numbers of `dense` come after the hashed
    columns: weights for these rows are those of `columns`, then those of the block.
    """

    starts: Ints  # (n_items + 1,)
    positions: Ints
    values: Floats
    columns: Ints
    dense: Floats  # (n_items, n_dense)

    @property
    def n_items(self) -> int:
        return len(self.starts) - 1

    def take(self, items: Ints) -> "Rows":
        """Some of the items, in this order; the columns in sight stay the same."""
        entries = [np.arange(self.starts[item], self.starts[item + 1]) for item in items]
        chosen = np.concatenate([np.empty(0, np.int64), *entries])
        starts = np.concatenate([[0], np.cumsum([len(part) for part in entries])]).astype(np.int64)
        return Rows(starts, self.positions[chosen], self.values[chosen], self.columns, self.dense[items])

    def to_array(self) -> Floats:
        """One column for each in sight, then those of the block: for whoever wants to look, or to check."""
        array = np.zeros((self.n_items, len(self.columns)))
        for item in range(self.n_items):
            own = slice(self.starts[item], self.starts[item + 1])
            np.add.at(array[item], self.positions[own], self.values[own])
        return np.hstack([array, self.dense])


Features = Floats | Rows


class Query(NamedTuple):
    """One request to rank. The relevance is absent: leaking it is a type error."""

    id: str
    features: Any  # Features: an array (n_items, n_features), or `Rows` where the problem has hashed columns
    context: Floats  # (n_context,)

    @property
    def n_items(self) -> int:
        features = self.features
        return features.n_items if type(features) is Rows else len(features)

    @classmethod
    def of(cls, features: ArrayLike, context: ArrayLike = (), id: str = "") -> "Query":
        """Check and copy what comes from outside: the border behind which nobody checks again."""
        return cls(id, finite_floats(features, 2, "features"), finite_floats(context, 1, "context"))


class Decision(NamedTuple, Generic[R]):
    """What was shown, with all that `learn` will need when the feedback comes."""

    ranking: Ints
    log_propensity: float  # log_prob(state, query, ranking) at decision time; nan where unknown
    receipt: R


class Relevances(NamedTuple):
    """Grades of the first `depth` shown items."""

    items: Ints
    grades: Floats


class Clicks(NamedTuple):
    """Clicked items of the shown part; weight 1 is a click, more is a purchase."""

    items: Ints
    weights: Floats


class Preferred(NamedTuple):
    """A better order of the same items."""

    ranking: Ints


class Reward(NamedTuple):
    """What the first shown item earned."""

    value: float


Feedback = Relevances | Clicks | Preferred | Reward


class Arrival(NamedTuple):
    """Feedback that reaches the learner, with the decision that it answers."""

    query: Query
    decision: Decision[Any]
    feedback: Feedback


class Limit(NamedTuple):
    """How far a sequential learner may move items away from its best ranking."""

    positions: int = -1  # no item moves more positions than this, up or down; -1: no limit
    keep_first: bool = False


def relevances(items: ArrayLike, grades: ArrayLike) -> Relevances:
    """`Relevances` from plain sequences."""
    return Relevances(item_indices(items, "items"), finite_floats(grades, 1, "grades"))


def clicks(items: Sequence[int] | Ints, weights: ArrayLike | None = None) -> Clicks:
    """`Clicks` from plain sequences; every weight is 1 unless given."""
    indices = item_indices(items, "items")
    return Clicks(indices, finite_floats(np.ones(len(indices)) if weights is None else weights, 1, "weights"))


def item_indices(values: ArrayLike, name: str) -> Ints:
    """A one-dimensional int64 array, refusing anything that is not whole numbers."""
    try:
        array = np.asarray(values)
        if array.size == 0:
            array = array.astype(np.int64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be a list of item numbers, got {values!r:.80}") from None
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidInput(f"{name} must be a list of item numbers, got shape {array.shape} of {array.dtype}")
    return np.array(array, dtype=np.int64)


def whole_number(value: Any, name: str, least: int) -> int:
    """An int of at least `least`, refusing what only looks like one."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInput(f"{name} must be a whole number from {least}, got {value!r:.80}")
    return int(value)


def rows_in(values: Any, name: str) -> Sequence[Any]:
    """A list of things from outside, refusing what is none."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise InvalidInput(f"{name} must be a list, got {values!r:.80}")
    if isinstance(values, np.ndarray) and values.ndim == 0:
        raise InvalidInput(f"{name} must be a list, got the number {values}")
    return values  # type: ignore[return-value]


def real_numbers(values: Any, name: str) -> Floats:
    """A writable C-contiguous float64 copy of any shape, refusing all but real numbers."""
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "cmMV":
            return np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{name} must be numbers, in rows of even length: {error}") from None
    raise InvalidInput(f"{name} must be real numbers, got {given.dtype}")


def finite_floats(values: ArrayLike, ndim: int, name: str) -> Floats:
    """A writable C-contiguous float64 copy, refusing wrong shapes, NaN and infinity by position."""
    array = real_numbers(values, name)
    if array.ndim != ndim:
        raise InvalidInput(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        position = f"row {bad[0][0]}, column {bad[0][1]}" if ndim == 2 else f"entry {bad[0][0]}"
        raise InvalidInput(f"{name}: {array[tuple(bad[0])]} at {position} (every number must be finite)")
    return array

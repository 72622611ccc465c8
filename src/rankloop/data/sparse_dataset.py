"""Queries whose items have a few of very many columns: the columns that occur, and what is in them."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints, Rows


class SparseDataset(NamedTuple):
    """Query q owns the rows from offsets[q] to offsets[q + 1]; weights are those of the columns that occur."""

    features: Rows  # of all items; `columns` says which hashed columns these are, `dense` comes after them
    relevance: Floats  # (n_items,)
    offsets: Ints  # (n_queries + 1,)
    base: Floats  # (n_items,) what is added to the score of each item
    query_ids: tuple[str, ...]

    @property
    def n_queries(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_features(self) -> int:
        return len(self.features.columns) + int(self.features.dense.shape[1])

    def subset(self, indices: Iterable[int]) -> "SparseDataset":
        """These queries only, in the order given; the columns stay the same."""
        chosen = np.fromiter(indices, np.int64)
        rows = _spans(self.offsets, chosen)
        names = tuple(self.query_ids[q] for q in chosen)
        offsets = np.concatenate([[0], np.cumsum(np.diff(self.offsets)[chosen])])
        return SparseDataset(take_rows(self.features, rows), self.relevance[rows], offsets, self.base[rows], names)


class Collection:
    """Queries that come one by one, as a data set: columns are numbered as they are met."""

    def __init__(self, n_hashed: int) -> None:
        self._numbers = np.full(n_hashed, -1, np.int64)
        self._columns: list[Ints] = []
        self._n_columns = 0
        self._positions: list[Ints] = []
        self._values: list[Floats] = []
        self._dense: list[Floats] = []
        self._counts: list[Ints] = []
        self._sizes: list[int] = []
        self._names: list[str] = []

    def add(self, name: str, features: Rows) -> None:
        """One query more."""
        numbers = self._numbers[features.columns]
        fresh = np.flatnonzero(numbers < 0)
        if len(fresh):
            numbers[fresh] = self._n_columns + np.arange(len(fresh))
            self._numbers[features.columns[fresh]] = numbers[fresh]
            self._columns.append(features.columns[fresh])
            self._n_columns += len(fresh)
        self._positions.append(numbers[features.positions])
        self._values.append(features.values)
        self._dense.append(features.dense)
        self._counts.append(np.diff(features.starts))
        self._sizes.append(features.n_items)
        self._names.append(name)

    def dataset(self, relevance: Floats, base: Floats | None = None) -> SparseDataset:
        """All of them, with a grade for each item; what was gathered is let go."""
        if not self._sizes:
            raise InvalidInput("there is no query to make a data set of")
        starts = np.concatenate([[0], np.cumsum(_emptied(self._counts))])
        columns = np.concatenate(self._columns) if self._columns else np.empty(0, np.int64)
        rows = Rows(starts, _emptied(self._positions), _emptied(self._values), columns, _emptied(self._dense))
        offsets = np.concatenate([[0], np.cumsum(self._sizes)])
        if len(relevance) != rows.n_items:
            raise InvalidInput(f"{rows.n_items} items and {len(relevance)} grades must be equally many")
        added = np.zeros(rows.n_items) if base is None else base
        return SparseDataset(rows, relevance, offsets, added, tuple(self._names))


def with_column(dataset: SparseDataset, marks: Sequence[int], numbers: Ints, value: float) -> SparseDataset:
    """The same with one more entry in each item: `value` in the new column `numbers[i]`, which is called marks[…]."""
    features, n_items = dataset.features, dataset.features.n_items
    n_columns = len(features.columns)
    at = features.starts[1:]
    positions = np.insert(features.positions, at, n_columns + numbers)
    values = np.insert(features.values, at, value)
    starts = features.starts + np.arange(n_items + 1)
    columns = np.concatenate([features.columns, np.array(marks, np.int64)])
    return dataset._replace(features=Rows(starts, positions, values, columns, features.dense))


@kernel
def squared_slopes(features: Rows, grad: Floats, offsets: Ints) -> Floats:
    """Σ over queries of the square of the query's own slope, by column."""
    n_columns, n_dense = len(features.columns), features.dense.shape[1]
    squares, own = np.zeros(n_columns + n_dense), np.zeros(n_columns + n_dense)
    for q in range(len(offsets) - 1):
        for i in range(offsets[q], offsets[q + 1]):
            for e in range(features.starts[i], features.starts[i + 1]):
                own[features.positions[e]] += grad[i] * features.values[e]
            for j in range(n_dense):
                own[n_columns + j] += grad[i] * features.dense[i, j]
        for i in range(offsets[q], offsets[q + 1]):
            for e in range(features.starts[i], features.starts[i + 1]):
                at = features.positions[e]
                squares[at] += own[at] * own[at]
                own[at] = 0.0
        for j in range(n_dense):
            squares[n_columns + j] += own[n_columns + j] * own[n_columns + j]
            own[n_columns + j] = 0.0
    return squares


def _emptied(parts: list[Any]) -> Any:
    """The parts as one; the list is emptied."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole


def _spans(borders: Ints, chosen: Ints) -> Ints:
    """All numbers from borders[c] to borders[c + 1], for each chosen c."""
    spans = [np.arange(borders[c], borders[c + 1]) for c in chosen]
    return np.concatenate([np.empty(0, np.int64), *spans])


def take_rows(features: Rows, rows: Ints) -> Rows:
    """Return some of the items, in this order; the columns stay the same."""
    if not len(features.values):
        return features._replace(starts=np.zeros(len(rows) + 1, np.int64), dense=features.dense[rows])
    if len(rows) and (np.diff(rows) == 1).all():  # they stand together: no copy
        first, end = int(rows[0]), int(rows[-1]) + 1
        entries = slice(int(features.starts[first]), int(features.starts[end]))
        starts = features.starts[first : end + 1] - features.starts[first]
        return Rows(
            starts, features.positions[entries], features.values[entries], features.columns, features.dense[first:end]
        )
    return features.take(rows)

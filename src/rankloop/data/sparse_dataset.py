"""Data sets whose items have values in a few of very many columns."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints, Rows
from rankloop.data.dataset import offsets_of


class SparseDataset(NamedTuple):
    """A data set: query q has the rows from offsets[q] to offsets[q + 1]; weights are of the columns that occur."""

    features: Rows  # of all items; `columns` says which hashed columns these are, `dense` comes after them
    relevance: Floats  # (n_items,)
    offsets: Ints  # (n_queries + 1,)
    base: Floats  # (n_items,) what is added to the score of each item
    query_ids: tuple[str, ...]

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.offsets) - 1

    @property
    def n_features(self) -> int:
        """The number of hashed columns that occur and of dense ones."""
        return len(self.features.columns) + int(self.features.dense.shape[1])

    def subset(self, indices: Iterable[int]) -> "SparseDataset":
        """Return some queries, in the order of the indices, with all columns."""
        chosen = np.fromiter(indices, np.int64)
        sizes = np.diff(self.offsets)[chosen]
        offsets = offsets_of(sizes)
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], sizes)
        names = tuple(self.query_ids[q] for q in chosen)
        return SparseDataset(self.features.take(rows), self.relevance[rows], offsets, self.base[rows], names)


class Collection:
    """A collector of queries; columns are numbered as they occur."""

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
        """Add a query."""
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

    def dataset(self, relevance: Floats) -> SparseDataset:
        """Return all queries, with a grade for each item, and forget them."""
        if not self._sizes:
            raise InvalidInput("there is no query to make a data set of")
        starts = offsets_of(_emptied(self._counts))
        columns = np.concatenate(self._columns) if self._columns else np.empty(0, np.int64)
        rows = Rows(starts, _emptied(self._positions), _emptied(self._values), columns, _emptied(self._dense))
        offsets = offsets_of(self._sizes)
        if len(relevance) != rows.n_items:
            raise InvalidInput(f"{rows.n_items} items and {len(relevance)} grades must be equally many")
        return SparseDataset(rows, relevance, offsets, np.zeros(rows.n_items), tuple(self._names))


def with_column(dataset: SparseDataset, marks: Sequence[int], numbers: Ints, value: float) -> SparseDataset:
    """Return a data set with one more entry in each item.

    Args:
      dataset: The data set.
      marks: The names of the new columns, as numbers that no hashed column has.
      numbers: For each item, its new column, as an index of `marks`.
      value: The value there.

    Returns:
      The data set with the new columns.
    """
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
    """Return Σ over queries of the square of the query's slope, by column.

    Args:
      features: The rows of all items.
      grad: The slope in the score of each item.
      offsets: Query q has the rows from offsets[q] to offsets[q + 1].

    Returns:
      One number per column.
    """
    n_columns, n_dense = len(features.columns), features.dense.shape[1]
    squares, slope = np.zeros(n_columns + n_dense), np.zeros(n_columns + n_dense)
    for q in range(len(offsets) - 1):
        for i in range(offsets[q], offsets[q + 1]):
            for e in range(features.starts[i], features.starts[i + 1]):
                slope[features.positions[e]] += grad[i] * features.values[e]
            for j in range(n_dense):
                slope[n_columns + j] += grad[i] * features.dense[i, j]
        for i in range(offsets[q], offsets[q + 1]):
            for e in range(features.starts[i], features.starts[i + 1]):
                at = features.positions[e]
                squares[at] += slope[at] * slope[at]
                slope[at] = 0.0
        for j in range(n_dense):
            squares[n_columns + j] += slope[n_columns + j] * slope[n_columns + j]
            slope[n_columns + j] = 0.0
    return squares


def _emptied(parts: list[Any]) -> Any:
    """Concatenate a list of arrays, and empty it to free memory."""
    array = np.concatenate(parts)
    parts.clear()
    return array

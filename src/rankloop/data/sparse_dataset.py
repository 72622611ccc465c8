"""Data sets whose items have values in a few of very many columns."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
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
        query_numbers = np.fromiter(indices, np.int64)
        sizes = np.diff(self.offsets)[query_numbers]
        offsets = offsets_of(sizes)
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[query_numbers] - offsets[:-1], sizes)
        names = tuple(self.query_ids[q] for q in query_numbers)
        return SparseDataset(self.features.take(rows), self.relevance[rows], offsets, self.base[rows], names)


class Collection:
    """A collector of queries; columns are numbered as they occur."""

    def __init__(self, n_hashed: int) -> None:
        self._numbers, self._n_columns = np.full(n_hashed, -1, np.int64), 0
        self._columns: list[Ints] = []
        self._rows: tuple[list[Any], ...] = ([], [], [], [])
        self._names: list[str] = []
        self._sizes: list[int] = []

    def add(self, name: str, features: Rows) -> None:
        """Add a query."""
        numbers = self._numbers[features.columns]
        fresh = np.flatnonzero(numbers < 0)
        if len(fresh):
            numbers[fresh] = self._n_columns + np.arange(len(fresh))
            self._numbers[features.columns[fresh]] = numbers[fresh]
            self._columns.append(features.columns[fresh])
            self._n_columns += len(fresh)
        arrays = np.diff(features.starts), numbers[features.positions], features.values, features.dense
        for parts, array in zip(self._rows, arrays):
            parts.append(array)
        self._names.append(name)
        self._sizes.append(features.n_items)

    def dataset(self, relevance: Floats) -> SparseDataset:
        """Return all queries, with a grade for each item, and forget them."""
        if not self._sizes:
            raise InvalidInput("there is no query to make a data set of")
        arrays: list[Any] = []
        for parts in self._rows:
            arrays.append(np.concatenate(parts))
            parts.clear()  # frees memory
        counts, positions, values, dense = arrays
        columns = np.concatenate([*self._columns, np.empty(0, np.int64)])
        rows = Rows(offsets_of(counts), positions, values, columns, dense)
        if len(relevance) != rows.n_items:
            raise InvalidInput(f"{rows.n_items} items and {len(relevance)} grades must be equally many")
        return SparseDataset(rows, relevance, offsets_of(self._sizes), np.zeros(rows.n_items), tuple(self._names))

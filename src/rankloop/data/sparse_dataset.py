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
        starts = offsets_of(_concatenate_and_free(self._counts))
        columns = np.concatenate(self._columns) if self._columns else np.empty(0, np.int64)
        rows = Rows(
            starts,
            _concatenate_and_free(self._positions),
            _concatenate_and_free(self._values),
            columns,
            _concatenate_and_free(self._dense),
        )
        offsets = offsets_of(self._sizes)
        if len(relevance) != rows.n_items:
            raise InvalidInput(f"{rows.n_items} items and {len(relevance)} grades must be equally many")
        return SparseDataset(rows, relevance, offsets, np.zeros(rows.n_items), tuple(self._names))


def _concatenate_and_free(parts: list[Any]) -> Any:
    """Concatenate a list of arrays, and empty it to free memory."""
    array = np.concatenate(parts)
    parts.clear()
    return array

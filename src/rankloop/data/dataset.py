"""Queries with their items, features and grades: of few features in arrays, or in a few of very many columns."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints, Query, Rows, finite_floats, item_indices, rows_in

NO_CONTEXT: Floats = np.empty(0)


class Dataset(NamedTuple):
    """A data set of queries: query q has the rows from offsets[q] to offsets[q + 1] of features and relevance."""

    features: Floats  # (n_items, n_features)
    relevance: Floats  # (n_items,)
    offsets: Ints  # (n_queries + 1,)
    query_ids: tuple[str, ...]

    @classmethod
    def of(
        cls, features: ArrayLike, relevance: ArrayLike, offsets: ArrayLike, query_ids: Sequence[str] | None = None
    ) -> "Dataset":
        """Check and copy arrays.

        Args:
          features: (n_items, n_features).
          relevance: (n_items,).
          offsets: (n_queries + 1,), from 0 to n_items.
          query_ids: The names of the queries; "0", "1" and so on unless given.
        """
        bounds = item_indices(offsets, "offsets")
        if len(bounds) == 0:
            raise InvalidInput("offsets must hold one row number more than there are queries, got none")
        names = tuple(map(str, range(len(bounds) - 1))) if query_ids is None else tuple(map(str, query_ids))
        table, grades = finite_floats(features, 2, "features"), finite_floats(relevance, 1, "relevance")
        return cls(table, grades, bounds, names).checked()

    @classmethod
    def of_rows(cls, features: ArrayLike, relevance: ArrayLike, qid: Sequence[object] | ArrayLike) -> "Dataset":
        """Build a data set from one query id per row; queries stand by first appearance.

        Args:
          features: (n_items, n_features).
          relevance: (n_items,).
          qid: The query of each row; rows of a query need not be adjacent.
        """
        if isinstance(qid, str) or not isinstance(qid, Iterable) or getattr(qid, "ndim", 1) != 1:
            raise InvalidInput(f"qid must be a list with one query id per row, got {qid!r:.80}")
        numbers: dict[str, int] = {}
        owner = np.array([numbers.setdefault(str(name), len(numbers)) for name in qid], dtype=np.int64)
        table, grades = finite_floats(features, 2, "features"), finite_floats(relevance, 1, "relevance")
        if not len(table) == len(grades) == len(owner):
            counts = f"{len(table)} rows of features, {len(grades)} grades and {len(owner)} query ids"
            raise InvalidInput(f"{counts} must be equally many")
        order = np.argsort(owner, kind="stable")
        return cls(table[order], grades[order], offsets_of(np.bincount(owner, minlength=len(numbers))), tuple(numbers))

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.offsets) - 1

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self.features.shape[1])

    @property
    def sizes(self) -> Ints:
        """The number of items of each query."""
        return np.diff(self.offsets)

    def query(self, index: int) -> tuple[Query, Floats]:
        """Return copies of one query and the grades of its items."""
        rows = slice(self.offsets[self._checked_number(index)], self.offsets[index + 1])
        return Query(self.query_ids[index], self.features[rows].copy(), NO_CONTEXT), self.relevance[rows].copy()

    def subset(self, indices: Iterable[int]) -> "Dataset":
        """Return some queries, in the order of the indices."""
        query_numbers = [self._checked_number(int(index)) for index in indices]
        spans = [np.arange(self.offsets[q], self.offsets[q + 1]) for q in query_numbers]
        rows, offsets = np.concatenate([*spans, np.empty(0, np.int64)]), offsets_of([len(span) for span in spans])
        names = tuple(self.query_ids[q] for q in query_numbers) if self.query_ids else ()  # parts have no names
        return Dataset(self.features[rows], self.relevance[rows], offsets, names)

    def _checked_number(self, query: int) -> int:
        if not 0 <= query < self.n_queries:
            raise InvalidInput(f"no query number {query}: there are {self.n_queries}, counted from 0")
        return query

    def checked(self) -> "Dataset":
        """Return itself; raise `InvalidInput` if its arrays do not fit together."""
        n_rows = len(self.features)
        if len(self.relevance) != n_rows:
            raise InvalidInput(f"{n_rows} rows of features and {len(self.relevance)} grades must be equally many")
        if self.offsets[0] != 0 or self.offsets[-1] != n_rows or (np.diff(self.offsets) < 0).any():
            raise InvalidInput(f"offsets must rise from 0 to the number of rows, {n_rows}")
        if len(self.query_ids) != self.n_queries:
            raise InvalidInput(f"{self.n_queries} queries and {len(self.query_ids)} query ids must be equally many")
        return self


def concatenate(datasets: Sequence[Dataset]) -> Dataset:
    """Return all queries of several data sets, one after the other; the last features of narrower ones are 0."""
    if not len(rows_in(datasets, "datasets")) or not all(isinstance(part, Dataset) for part in datasets):
        raise InvalidInput("concatenate takes a list of one or more data sets")
    if len(datasets) == 1:
        return datasets[0]
    ends = np.cumsum([len(part.features) for part in datasets])
    features = np.zeros((ends[-1], max(part.n_features for part in datasets)))
    for part, end in zip(datasets, ends.tolist()):
        features[end - len(part.features) : end, : part.n_features] = part.features
    offsets = offsets_of(np.concatenate([part.sizes for part in datasets]))
    names = tuple(name for part in datasets for name in part.query_ids)
    return Dataset(features, np.concatenate([part.relevance for part in datasets]), offsets, names)


def normalise_queries(dataset: Dataset) -> Dataset:
    """Scale every feature to [0, 1] inside each query: (x − min) / (max − min); constant features become 0.

    Use it when raw features differ in scale from query to query.
    """
    return dataset._replace(features=_min_max(dataset.features, dataset.offsets))


def offsets_of(sizes: ArrayLike) -> Ints:
    """Return where queries of these sizes begin, and the end of the last."""
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


@kernel
def _min_max(features: Floats, offsets: Ints) -> Floats:
    """Return (x − min) / (max − min) of each feature within each query; 0 where all values are equal."""
    n_features = features.shape[1]
    scaled = np.zeros_like(features)
    for q in range(len(offsets) - 1):
        first, end = offsets[q], offsets[q + 1]
        for j in range(n_features):
            low, high = np.inf, -np.inf
            for i in range(first, end):
                low, high = min(low, features[i, j]), max(high, features[i, j])
            if low < high:
                halve = 0.5 if np.isinf(high - low) else 1.0  # the width of huge values overflows
                for i in range(first, end):
                    scaled[i, j] = (features[i, j] * halve - low * halve) / (high * halve - low * halve)
    return scaled


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

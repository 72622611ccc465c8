"""A catalogue of all queries of a data set in parts, and selections of them whose rows stay on disk."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Ints
from rankloop.data.dataset import Dataset, offsets_of
from rankloop.data.parts.columns import ColumnCopy, PartOptions, PartSummary
from rankloop.data.parts.source import PartSource

MAX_OPEN_COPIES = 256  # that a process keeps mapped
HASH_END = 1 << 64  # above every hash
copy_of = lru_cache(MAX_OPEN_COPIES)(ColumnCopy)  # the columns of a part on this machine, written where missing


class Span(NamedTuple):
    """Consecutive queries in the copy of a part: their sizes, and their rows."""

    source: PartSource
    sizes: Ints
    first_row: int
    end_row: int


class StoredQueries(NamedTuple):
    """A few thousand rows that a worker loads when it needs them."""

    spans: tuple[Span, ...]
    n_features: int
    options: PartOptions

    def load(self) -> Dataset:
        """Return the queries without their names; where the rows are consecutive, as views of the mapped file."""
        rows = []
        for span in self.spans:
            if span.source.is_local:
                span.source.check()
            copy = copy_of(span.source, self.options)
            rows.append(copy.rows(span.first_row, span.end_row, self.n_features))
        features, grades = rows[0] if len(rows) == 1 else (np.concatenate(arrays) for arrays in zip(*rows))
        return Dataset(features, grades, offsets_of(np.concatenate([span.sizes for span in self.spans])), ())

    def __str__(self) -> str:
        return ", ".join(dict.fromkeys(span.source.name for span in self.spans))


class PartCatalogue(NamedTuple):
    """The summaries of all parts, in the order in which their sums are added."""

    parts: tuple[PartSummary, ...]
    options: PartOptions

    @property
    def n_features(self) -> int:
        """The number of features of the widest part."""
        return max(part.n_features for part in self.parts)

    def checked(self) -> "PartCatalogue":
        """Return itself; raise `InvalidInput` if a query is in two parts, because its loss needs all its rows."""
        hashes = np.concatenate([part.hashes for part in self.parts])
        order = np.argsort(hashes, kind="stable")
        twice = np.flatnonzero(np.diff(hashes[order]) == 0)
        if len(twice):
            borders = offsets_of([len(part.sizes) for part in self.parts])
            queries = np.sort(order[twice[0] : twice[0] + 2])
            numbers = np.searchsorted(borders, queries, "right") - 1
            first, second = (self.parts[number] for number in numbers.tolist())
            try:
                name = copy_of(first.source, self.options).name_of(int(queries[0] - borders[numbers[0]]))
            except (InvalidInput, LookupError):  # this machine does not see the part
                name = f"with hash {int(hashes[queries[0]]):x}"
            raise InvalidInput(
                f"query {name!r} is in two parts, {first.source.name} and {second.source.name}: put all rows of a "
                "query into one"
            )
        return self

    def within(self, ranges: Sequence[tuple[int, int]]) -> "StoredDataset":
        """Return the queries whose hash is in one of the ranges; of every part, those of the first range come first."""
        spans = []
        for part in self.parts:
            for low, high in ranges:
                first = int(np.searchsorted(part.hashes, np.uint64(low)))
                is_last = high == HASH_END  # which is no hash
                end = len(part.sizes) if is_last else int(np.searchsorted(part.hashes, np.uint64(high)))
                spans += [(part, first, end)] if first < end else []
        return StoredDataset(spans, self.n_features, self.options)

    def of(self, sources: Sequence[PartSource]) -> "StoredDataset":
        """Return the queries of these parts, in this order."""
        by_source = {part.source: part for part in self.parts}
        spans = [(by_source[source], 0, len(by_source[source].sizes)) for source in sources]
        return StoredDataset(spans, self.n_features, self.options)


class StoredDataset:
    """A data set whose rows stay on disk; only the sizes of its queries are in memory."""

    def __init__(self, chosen: Sequence[tuple[PartSummary, int, int]], n_features: int, options: PartOptions) -> None:
        self._chosen, self.n_features, self._options = tuple(chosen), n_features, options

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return sum(end - first for _, first, end in self._chosen)

    @cached_property
    def offsets(self) -> Ints:
        """The first row of each query, and the end of the last."""
        sizes = [part.sizes[first:end] for part, first, end in self._chosen]
        return offsets_of(np.concatenate([*sizes, np.empty(0, np.int64)]))

    def between(self, first: int, end: int) -> StoredQueries:
        """Return the queries from number `first` to `end`, to be loaded by a worker."""
        spans, n_passed = [], 0
        for part, start, stop in self._chosen:
            low, high = max(first - n_passed, 0) + start, min(end - n_passed + start, stop)
            if low < high:
                first_row, end_row = int(part.sizes[:low].sum()), int(part.sizes[:high].sum())
                spans.append(Span(part.source, part.sizes[low:high], first_row, end_row))
            n_passed += stop - start
        return StoredQueries(tuple(spans), self.n_features, self._options)


def joined(datasets: Sequence[StoredDataset]) -> StoredDataset:
    """Return all queries of several data sets, one after the other."""
    width = max(dataset.n_features for dataset in datasets)
    return StoredDataset([chosen for dataset in datasets for chosen in dataset._chosen], width, datasets[0]._options)


def read_all_queries(dataset: StoredDataset) -> Dataset:
    """Read a stored data set into memory; its queries are named "0", "1" and so on."""
    queries = dataset.between(0, dataset.n_queries).load()
    return queries._replace(query_ids=tuple(map(str, range(dataset.n_queries))))


def summary_of(task: tuple[PartSource, PartOptions]) -> PartSummary:
    """Read a part, keep its columns, and return its summary: a task for a worker."""
    return copy_of(*task).summary()

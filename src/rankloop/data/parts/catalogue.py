"""All queries of a data set in parts, by hash and size; and some of them, as a data set that stays on the disks."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Ints
from rankloop.data.dataset import Dataset, offsets_of
from rankloop.data.parts.column_file import BLOCK, shift_to_fit
from rankloop.data.parts.columns import ColumnCopy, PartOptions, Room, Summary
from rankloop.data.parts.source import PartSource

OPEN_COPIES = 256  # files that a process keeps open
END = 1 << 64  # of the hashes


class Span(NamedTuple):
    """Queries that stand together in the copy of a part: their sizes, and the rows that they own."""

    source: PartSource
    sizes: Ints
    first_row: int
    end_row: int


class StoredQueries(NamedTuple):
    """A few thousand rows that are loaded when they are needed, by whoever needs them."""

    spans: tuple[Span, ...]
    n_features: int
    options: PartOptions

    def load(self, room: Room) -> Dataset:
        """The queries; their names stay on the disk. The memory is the room's: valid until it is used again."""
        sizes = np.concatenate([span.sizes for span in self.spans])
        n_rows = int(sizes.sum())
        n_numbers = n_rows * self.n_features
        memory = room(n_numbers + n_rows + BLOCK)
        first = self.spans[0]
        memory = memory[shift_to_fit(memory, copy_of(first.source, self.options).position_of(first.first_row)) :]
        features, grades = memory[:n_numbers].reshape(n_rows, self.n_features), memory[n_numbers : n_numbers + n_rows]
        row = 0
        for span in self.spans:
            end = row + span.end_row - span.first_row
            if span.source.is_local:
                span.source.check()
            copy = copy_of(span.source, self.options)
            copy.read_rows(span.first_row, span.end_row, features[row:end], grades[row:end])
            row = end
        return Dataset(features, grades, offsets_of(sizes), ())

    def __str__(self) -> str:
        return ", ".join(dict.fromkeys(span.source.name for span in self.spans))


class PartCatalogue(NamedTuple):
    """What is known of all parts, in the order in which they are added up."""

    parts: tuple[Summary, ...]
    options: PartOptions

    @property
    def n_features(self) -> int:
        return max(part.n_features for part in self.parts)

    def checked(self) -> "PartCatalogue":
        """Itself, when no query is in two parts: its loss would not be that of the whole query."""
        hashes = np.concatenate([part.hashes for part in self.parts])
        order = np.argsort(hashes, kind="stable")
        twice = np.flatnonzero(np.diff(hashes[order]) == 0)
        if len(twice):
            first, second = sorted(order[twice[0] : twice[0] + 2].tolist())
            raise InvalidInput(
                f"query {self._name(first)!r} is in two parts, {self._part(first)[0].source.name} and "
                f"{self._part(second)[0].source.name}: put all rows of a query into one"
            )
        return self

    def within(self, ranges: Sequence[tuple[int, int]]) -> "StoredDataset":
        """The queries whose hash is in one of the ranges; of every part, those of the first range come first."""
        chosen = []
        for part in self.parts:
            borders = [
                (_position(part, low) if low else 0, _position(part, high) if high < END else len(part.sizes))
                for low, high in ranges
            ]
            chosen += [(part, first, end) for first, end in borders if first < end]
        return StoredDataset(chosen, self.n_features, self.options)

    def of(self, sources: Sequence[PartSource]) -> "StoredDataset":
        """The queries of these parts, in this order."""
        by_source = {part.source: part for part in self.parts}
        chosen = [(by_source[source], 0, len(by_source[source].sizes)) for source in sources]
        return StoredDataset(chosen, self.n_features, self.options)

    def _part(self, query: int) -> tuple[Summary, int]:
        """The part of a query that is numbered through, and its number there."""
        for part in self.parts:
            if query < len(part.sizes):
                return part, query
            query -= len(part.sizes)
        raise AssertionError("no such query")

    def _name(self, query: int) -> str:
        part, number = self._part(query)
        try:
            return copy_of(part.source, self.options).name_of(number)
        except (InvalidInput, LookupError):  # this machine does not see the part
            return f"with hash {int(part.hashes[number]):x}"


class StoredDataset:
    """A data set of which only hashes and sizes of the queries are here; the rows are where the parts are."""

    def __init__(self, chosen: Sequence[tuple[Summary, int, int]], n_features: int, options: PartOptions) -> None:
        self._chosen, self.n_features, self._options = tuple(chosen), n_features, options

    @property
    def n_queries(self) -> int:
        return sum(end - first for _, first, end in self._chosen)

    @cached_property
    def offsets(self) -> Ints:
        sizes = [part.sizes[first:end] for part, first, end in self._chosen]
        return offsets_of(np.concatenate([*sizes, np.empty(0, np.int64)]))

    def between(self, first: int, end: int) -> StoredQueries:
        """The queries from number `first` to `end`, to be loaded elsewhere."""
        spans, before = [], 0
        for part, start, stop in self._chosen:
            low, high = max(first - before, 0) + start, min(end - before + start, stop)
            if low < high:
                first_row, end_row = int(part.sizes[:low].sum()), int(part.sizes[:high].sum())
                spans.append(Span(part.source, part.sizes[low:high], first_row, end_row))
            before += stop - start
        return StoredQueries(tuple(spans), self.n_features, self._options)


def joined(datasets: Sequence[StoredDataset]) -> StoredDataset:
    """All queries of several, one after the other."""
    width = max(dataset.n_features for dataset in datasets)
    return StoredDataset([each for one in datasets for each in one._chosen], width, datasets[0]._options)


def read_whole(dataset: StoredDataset) -> Dataset:
    """Everything in memory, for data that are small enough; queries are named "0", "1", …"""
    found = dataset.between(0, dataset.n_queries).load(np.empty)
    return found._replace(query_ids=tuple(map(str, range(dataset.n_queries))))


@lru_cache(OPEN_COPIES)
def copy_of(source: PartSource, options: PartOptions) -> ColumnCopy:
    """The columns of a part on this machine, made when they are not there yet."""
    return ColumnCopy(source, options)


def summary_of(task: tuple[PartSource, PartOptions]) -> Summary:
    """A task for a worker: read a part, keep its columns, and say what is in it."""
    source, options = task
    return copy_of(source, options).summary()


def _position(part: Summary, low: int) -> int:
    return int(np.searchsorted(part.hashes, np.uint64(low)))

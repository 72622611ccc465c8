"""The weight table of hashed columns: a persistent table of two numbers per column, of which an update changes few."""

import hashlib
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints

MAX_STEPS_BACK = 256  # a version that is further behind gets its own array when it is read
COLUMNS_PER_VERSION = 16  # a version takes as much memory as this many columns, beside those that it changed
NO_CHANGES: tuple[Ints, Floats] = np.empty(0, np.int64), np.empty((0, 2))


@kernel
def _gather(table: Floats, columns: Ints) -> Floats:
    """Return both entries of each column."""
    entries = np.empty((len(columns), 2))
    for i in range(len(columns)):
        entries[i, 0] = table[columns[i], 0]
        entries[i, 1] = table[columns[i], 1]
    return entries


@kernel
def _exchange(table: Floats, columns: Ints, values: Floats) -> Floats:
    """Write the values and return the old ones."""
    old = np.empty((len(columns), 2))
    for i in range(len(columns)):
        for k in range(2):
            old[i, k] = table[columns[i], k]
            table[columns[i], k] = values[i, k]
    return old


@kernel
def _overlay(entries: Floats, columns: Ints, changed: Ints, values: Floats) -> None:
    """Replace the entries of changed columns; `changed` is sorted."""
    for i in range(len(columns)):
        at = np.searchsorted(changed, columns[i])
        if at < len(changed) and changed[at] == columns[i]:
            entries[i, 0] = values[at, 0]
            entries[i, 1] = values[at, 1]


class _Version:
    """A version of a table; all but the newest hold the old values of the columns that the next version changed."""

    __slots__ = ("is_sorted", "newer", "old_values")

    def __init__(self) -> None:
        self.newer: _Version | None = None
        self.old_values = NO_CHANGES  # replaced as one tuple, because readers may not hold the lock
        self.is_sorted = False

    def sorted_values(self) -> tuple[Ints, Floats]:
        if not self.is_sorted:
            columns, values = self.old_values
            order = np.argsort(columns, kind="stable")
            self.old_values, self.is_sorted = (columns[order], values[order]), True
        return self.old_values


class _Table:
    """The array of the newest version, with weak references to all versions in use."""

    def __init__(self, array: Floats) -> None:
        self.array = array
        self.lock = Lock()
        self.newest = _Version()
        self.written = 0  # columns changed since `_release` was last called
        self.count = 0
        self.handles: WeakValueDictionary[int, WeightTable] = WeakValueDictionary()


class WeightTable:
    """A persistent table of shape `(n_columns, 2)`: weights, and the evidence that sets their step sizes.

    `patched` returns the next version and leaves this one unchanged. The newest version owns the array; an older one
    holds the old values of changed columns and reads all others from newer versions. The table is copied when an older
    version is patched, and when a version is kept while as many columns are written as the table has. So memory is
    bounded by one copy per version that is in use. Any number of threads may read and write.
    """

    __slots__ = ("__weakref__", "_held", "n_columns")

    def __init__(self, n_columns: int) -> None:
        self._take_array(np.zeros((n_columns, 2)))

    @classmethod
    def of(cls, n_columns: int, columns: Ints, values: Floats) -> "WeightTable":
        """Make a table with these two numbers in some columns, and 0 elsewhere."""
        table = cls(n_columns)
        table._held[0].array[columns] = values
        return table

    def at(self, columns: Ints) -> Floats:
        """Return the two numbers of each of some columns, one row per column."""
        table, version = self._held
        with table.lock:
            if version is table.newest:
                return _gather(table.array, columns)
            behind = _since(version)
            if len(behind) <= MAX_STEPS_BACK:
                entries = _gather(table.array, columns)
                for older in reversed(behind):
                    changed, values = older.sorted_values()
                    _overlay(entries, columns, changed, values)
                return entries
            array = _rewound(table.array.copy(), behind)
            self._take_array(array)
            return _gather(array, columns)

    def patched(self, columns: Ints, values: Floats) -> "WeightTable":
        """Return the next version, with other numbers in some distinct columns; `columns` is kept, not copied."""
        if not len(columns):
            return self
        table, version = self._held
        with table.lock:
            if version is table.newest:
                version.old_values = columns, _exchange(table.array, columns, values)
                version.newer = table.newest = _Version()
                newer = WeightTable.__new__(WeightTable)
                newer.n_columns, newer._held = self.n_columns, (table, table.newest)
                table.count += 1
                table.handles[table.count] = newer
                table.written += len(columns) + COLUMNS_PER_VERSION
                if table.written > self.n_columns:
                    table.written = 0
                    _release(table)
                return newer
        return self._copy(self.n_columns).patched(columns, values)

    def grown(self, n_columns: int) -> "WeightTable":
        """Return a table with at least `n_columns` columns; new ones hold 0."""
        return self if n_columns <= self.n_columns else self._copy(n_columns)

    def used(self) -> tuple[Ints, Floats]:
        """Return the columns with a number other than 0, in order, and their entries."""
        table, version = self._held
        with table.lock:
            array = table.array if version is table.newest else _rewound(table.array.copy(), _since(version))
            columns = np.flatnonzero((array[:, 0] != 0.0) | (array[:, 1] != 0.0))
            return columns, _gather(array, columns)

    def digest(self) -> str:
        """Return a SHA-256 of the contents."""
        columns, values = self.used()
        content = hashlib.sha256(self.n_columns.to_bytes(8, "little"))
        content.update(columns.astype("<i8", copy=False).data)
        content.update(values.astype("<f8", copy=False).data)
        return content.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WeightTable) and self.n_columns == other.n_columns and self.digest() == other.digest()

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return WeightTable.of, (self.n_columns, *self.used())

    def __repr__(self) -> str:
        return f"<WeightTable: {len(self.used()[0])} of {self.n_columns} columns>"

    def _take_array(self, array: Floats) -> None:
        table = _Table(array)
        table.handles[0] = self
        self.n_columns = len(array)
        self._held = table, table.newest

    def _copy(self, n_columns: int) -> "WeightTable":
        array = np.zeros((n_columns, 2))
        table, version = self._held
        with table.lock:
            array[: self.n_columns] = table.array
            behind = _since(version)
        copy = WeightTable.__new__(WeightTable)
        copy._take_array(_rewound(array, behind))
        return copy


def _since(version: _Version) -> list[_Version]:
    """Return this version and all newer ones but the newest, oldest first."""
    versions = []
    while version.newer is not None:
        versions.append(version)
        version = version.newer
    return versions


def _rewound(array: Floats, behind: list[_Version]) -> Floats:
    """Turn the array of the newest version, in place, into that of the oldest of some versions."""
    for older in reversed(behind):
        columns, values = older.old_values
        array[columns] = values
    return array


def _release(table: _Table) -> None:
    """Give the oldest version in use its own array, if its chain of old values is larger than that."""
    for number in sorted(table.handles.keys()):
        version = table.handles.get(number)
        if version is None or version._held[0] is not table:  # deleted, or it has its own array already
            table.handles.pop(number, None)
            continue
        behind = _since(version._held[1])
        if sum(len(step.old_values[0]) + COLUMNS_PER_VERSION for step in behind) >= len(table.array):
            version._take_array(_rewound(table.array.copy(), behind))
            del table.handles[number]
        return


def with_columns(state: Any, n_columns: int) -> Any:
    """Return a state whose weight tables have at least a number of columns.

    Args:
      state: The state of a learner.
      n_columns: The number of columns.
    """
    if isinstance(state, WeightTable):
        return state.grown(n_columns)
    if hasattr(state, "_fields"):
        return type(state)._make(with_columns(part, n_columns) for part in state)
    return state

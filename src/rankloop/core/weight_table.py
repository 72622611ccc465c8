"""The weight table of hashed columns: a persistent table of two numbers per column, of which an update changes few."""

import hashlib
from threading import Lock
from typing import Any

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
    """The array of the newest version."""

    def __init__(self, array: Floats) -> None:
        self.array = array
        self.lock = Lock()
        self.newest = _Version()
        self.written = 0  # columns changed so far


class WeightTable:
    """A persistent table of shape `(n_columns, 2)`: weights, and the evidence that sets their step sizes.

    `patched` returns the next version and leaves this one unchanged. The newest version owns the array; an older one
    holds the old values of changed columns and reads all others from newer versions. The array is copied when an older
    version is patched, and whenever as many columns have been written as it has: then older versions keep the old
    array, or free it if none is in use. Any number of threads may read and write.
    """

    __slots__ = ("_held", "n_columns")

    def __init__(self, n_columns: int) -> None:
        self._hold(_Table(np.zeros((n_columns, 2))))

    @classmethod
    def of(cls, n_columns: int, columns: Ints, values: Floats) -> "WeightTable":
        """Make a table with these two numbers in some columns, and 0 elsewhere."""
        weights = cls(n_columns)
        weights._held[0].array[columns] = values
        return weights

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
            self._hold(_Table(array))
            return _gather(array, columns)

    def patched(self, columns: Ints, values: Floats) -> "WeightTable":
        """Return the next version, with other numbers in some distinct columns; `columns` is kept, not copied."""
        if not len(columns):
            return self
        table, version = self._held
        with table.lock:
            if version is table.newest and table.written <= self.n_columns:
                version.old_values = columns, _gather(table.array, columns)
                table.array[columns] = values
                version.newer = table.newest = _Version()
                table.written += len(columns) + COLUMNS_PER_VERSION
                newer = WeightTable.__new__(WeightTable)
                newer._hold(table)
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
            columns = np.flatnonzero(array.any(axis=1))
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

    def _hold(self, table: _Table) -> None:
        """Become the newest version of a table."""
        self.n_columns, self._held = len(table.array), (table, table.newest)

    def _copy(self, n_columns: int) -> "WeightTable":
        copy, (table, version) = WeightTable(n_columns), self._held
        with table.lock:
            array, behind = copy._held[0].array, _since(version)
            array[: self.n_columns] = table.array
        _rewound(array, behind)
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


def with_columns(state: Any, n_columns: int) -> Any:
    """Return a state whose weight tables have at least a number of columns.

    Args:
      state: The state of a learner.
      n_columns: The number of columns.
    """
    if isinstance(state, WeightTable):
        return state.grown(n_columns)
    return type(state)._make(with_columns(part, n_columns) for part in state) if hasattr(state, "_fields") else state

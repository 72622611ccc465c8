"""A large table as a value: two numbers per column, of which a lesson changes a few hundred out of millions."""

import hashlib
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints

MAX_STEPS_BACK = 256  # an older version that is further behind than this gets a table of its own when it is read
OVERHEAD = 16  # a version takes as much memory as so many columns, beside those that it changed

NOTHING = np.empty(0, np.int64), np.empty((0, 2))


@kernel
def _gather(table: Floats, columns: Ints) -> Floats:
    found = np.empty((len(columns), 2))
    for i in range(len(columns)):
        found[i, 0] = table[columns[i], 0]
        found[i, 1] = table[columns[i], 1]
    return found


@kernel
def _write(table: Floats, columns: Ints, values: Floats) -> None:
    for i in range(len(columns)):
        table[columns[i], 0] = values[i, 0]
        table[columns[i], 1] = values[i, 1]


@kernel
def _exchange(table: Floats, columns: Ints, values: Floats) -> Floats:
    """Write the values, and answer with what stood there."""
    before = np.empty((len(columns), 2))
    for i in range(len(columns)):
        for k in range(2):
            before[i, k] = table[columns[i], k]
            table[columns[i], k] = values[i, k]
    return before


@kernel
def _overlay(found: Floats, columns: Ints, known: Ints, values: Floats) -> None:
    """Replace what is asked for by what is known of it; `known` is sorted."""
    for i in range(len(columns)):
        at = np.searchsorted(known, columns[i])
        if at < len(known) and known[at] == columns[i]:
            found[i, 0] = values[at, 0]
            found[i, 1] = values[at, 1]


class _Version:
    """One version: nothing for the newest of its table, for others what the next one changed, as it was before."""

    __slots__ = ("before", "in_order", "newer")

    def __init__(self) -> None:
        self.newer: _Version | None = None
        self.before: tuple[Ints, Floats] = NOTHING  # replaced as one: who reads it may not hold the lock
        self.in_order = False

    def ordered(self) -> tuple[Ints, Floats]:
        if not self.in_order:
            columns, values = self.before
            order = np.argsort(columns, kind="stable")
            self.before, self.in_order = (columns[order], values[order]), True
        return self.before


class _Table:
    """The array of the newest version, and who still looks at it or at an older one."""

    def __init__(self, array: Floats) -> None:
        self.array = array
        self.lock = Lock()
        self.newest = _Version()
        self.written = 0  # columns changed since it was last looked for versions that are left behind
        self.count = 0
        self.handles: WeakValueDictionary[int, WeightTable] = WeakValueDictionary()


class WeightTable:
    """A persistent table of shape `(n_columns, 2)`: `patched` gives the next version and leaves this one as it is.

    The newest version owns the array; an older one holds what was there before, column by column, and finds the rest in
    the newer ones. Learning from an older version copies the table once. So does an old version that somebody keeps
    while as many columns as the table has are written: memory is bounded by a copy for each version that is kept.
    Any number of threads may read and write.
    """

    __slots__ = ("__weakref__", "_held", "n_columns")

    def __init__(self, n_columns: int) -> None:
        self._own(np.zeros((n_columns, 2)))

    @classmethod
    def of(cls, n_columns: int, columns: Ints, values: Floats) -> "WeightTable":
        """A table that holds these, and 0 everywhere else."""
        table = cls(n_columns)
        _write(table._held[0].array, columns, values)
        return table

    def at(self, columns: Ints) -> Floats:
        """The two numbers of each of these columns."""
        table, version = self._held
        with table.lock:
            if version is table.newest:
                return _gather(table.array, columns)
            behind = _since(version)
            if len(behind) <= MAX_STEPS_BACK:
                found = _gather(table.array, columns)
                for older in reversed(behind):
                    known, values = older.ordered()
                    _overlay(found, columns, known, values)
                return found
            own = _rewound(table.array, behind)
            found = _gather(own, columns)
            self._own(own)
            return found

    def patched(self, columns: Ints, values: Floats) -> "WeightTable":
        """The version in which these columns, each named once, hold these numbers; `columns` is kept, not copied."""
        if not len(columns):
            return self
        table, version = self._held
        with table.lock:
            if version is table.newest:
                return self._next(table, version, columns, values)
        return self._copy(self.n_columns).patched(columns, values)

    def grown(self, n_columns: int) -> "WeightTable":
        """The same with at least so many columns; new ones hold 0."""
        return self if n_columns <= self.n_columns else self._copy(n_columns)

    def used(self) -> tuple[Ints, Floats]:
        """The columns that hold anything, in order, and what they hold."""
        table, version = self._held
        with table.lock:
            array = table.array if version is table.newest else _rewound(table.array, _since(version))
            columns = np.flatnonzero((array[:, 0] != 0.0) | (array[:, 1] != 0.0))
            return columns, _gather(array, columns)

    def digest(self) -> str:
        """Equal for tables that hold the same numbers, and for no others."""
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

    def _own(self, array: Floats) -> None:
        table = _Table(array)
        table.handles[0] = self
        self.n_columns = len(array)
        self._held = table, table.newest

    def _copy(self, n_columns: int) -> "WeightTable":
        copy = WeightTable.__new__(WeightTable)
        array = np.zeros((n_columns, 2))
        table, version = self._held
        with table.lock:
            array[: self.n_columns] = table.array
            behind = _since(version)
        _rewind(array, behind)
        copy._own(array)
        return copy

    def _next(self, table: _Table, version: _Version, columns: Ints, values: Floats) -> "WeightTable":
        newer = WeightTable.__new__(WeightTable)
        version.before = columns, _exchange(table.array, columns, values)
        version.newer = _Version()
        table.newest = version.newer
        newer.n_columns, newer._held = self.n_columns, (table, table.newest)
        table.count += 1
        table.handles[table.count] = newer
        table.written += len(columns) + OVERHEAD
        if table.written > self.n_columns:
            table.written = 0
            _release(table)
        return newer


def _since(version: _Version) -> list[_Version]:
    """This version and all newer ones but the newest, oldest first."""
    found = []
    while version.newer is not None:
        found.append(version)
        version = version.newer
    return found


def _rewind(array: Floats, behind: list[_Version]) -> None:
    """Write what the oldest of these versions holds over what the newest does."""
    for older in reversed(behind):
        columns, values = older.before
        array[columns] = values


def _rewound(array: Floats, behind: list[_Version]) -> Floats:
    old = array.copy()
    _rewind(old, behind)
    return old


def _release(table: _Table) -> None:
    """Give the oldest version that somebody keeps a table of its own, if what it holds on to is larger than one."""
    for number in sorted(table.handles.keys()):
        kept = table.handles.get(number)
        if kept is None or kept._held[0] is not table:  # gone, or it has its own already
            table.handles.pop(number, None)
            continue
        behind = _since(kept._held[1])
        if sum(len(version.before[0]) + OVERHEAD for version in behind) >= len(table.array):
            kept._own(_rewound(table.array, behind))
            del table.handles[number]
        return


def with_columns(state: Any, n_columns: int) -> Any:
    """A state whose tables have at least so many columns."""
    if isinstance(state, WeightTable):
        return state.grown(n_columns)
    if hasattr(state, "_fields"):
        return type(state)._make(with_columns(part, n_columns) for part in state)
    return state


def restored_table(n_columns: int, columns: Any, values: Any, where: str) -> WeightTable:
    """The table that `used` wrote, or `InvalidInput`."""
    fits = columns.ndim == 1 and columns.dtype == np.int64 and values.dtype == np.float64
    if not fits or values.shape != (len(columns), 2):
        raise InvalidInput(f"{where} is not a table of columns and their two numbers")
    columns, values = np.ascontiguousarray(columns), np.ascontiguousarray(values)
    if len(columns) and not (columns[0] >= 0 and columns[-1] < n_columns and np.all(columns[1:] > columns[:-1])):
        raise InvalidInput(f"{where} names columns that are not those of a table of {n_columns}")
    if not np.all(np.isfinite(values)) or not np.all(values[:, 1] >= 0.0):
        raise InvalidInput(f"{where} holds a number that is not finite, or evidence below 0")
    return WeightTable.of(n_columns, columns, values)

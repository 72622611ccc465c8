"""A visitor as numbers: columns with names as people have them, encoded as the policy learned them."""

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankloop.adapter import named_row
from rankloop.core.errors import InvalidInput, Rejected
from rankloop.core.types import Floats, Ints

if TYPE_CHECKING:
    from rankloop.logs.table import LogPiece

POSITION = "(position)"
CONSTANT = "(always 1)"
Visitor = Mapping[str, Any] | Sequence[float] | Floats  # a row by column names, or the numbers that it becomes


class Encoding(NamedTuple):
    """How rows become numbers: ads by label; a column with `values` is 0/1 for each of them, one without as it is.

    A value that is not listed is 0 everywhere; a missing number counts as the column's mean. Columns that look like
    ids are `left_out`: nothing is learned from an id, and a saved policy would publish them. So are `times`, and
    `outcomes`, which nobody has before the click.
    """

    ads: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    means: tuple[float, ...]
    left_out: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()  # known only after the click, with what gave them away

    @property
    def described(self) -> str:
        """One line: which columns are context, and which are not."""
        used = [f"{name} ({_kind(values)})" for name, values in zip(self.columns, self.values)]
        unused = {"ids": self.left_out, "times": self.times, "outcomes": self.outcomes}
        said = [f"; left out as {kind}: {', '.join(names)}" for kind, names in unused.items() if names]
        return f"context: {', '.join(used) or 'none'}{''.join(said)}"

    @property
    def wanted(self) -> str:
        """What to give, for whoever gave something else."""
        names = ["position" if name == POSITION else name for name in self.columns]
        return f"give {', '.join(names)} (null: not known)"

    @property
    def n_context(self) -> int:
        """How many numbers describe a person; the last is a constant 1."""
        return sum(len(values) or 1 for values in self.values) + 1

    @property
    def context_names(self) -> list[str]:
        """What each of these numbers is: a column, one value of a column, or the constant."""
        parts = ([f"{name}={one}" for one in values] or [name] for name, values in zip(self.columns, self.values))
        return [*chain.from_iterable(parts), CONSTANT]

    def row_of(self, visitor: Visitor) -> list[float]:
        """The numbers of one visitor, given as a row with all columns ({"age": 41, "job": "student"}) or as numbers.

        None is a missing value; further columns are ignored. Names of single values ("job=student") mean numbers, of
        which those not given are 0.
        """
        names = self.context_names
        if not isinstance(visitor, Mapping) or not set(names).difference(self.columns).isdisjoint(visitor):
            return named_row(visitor, names, "context")[0]
        row: list[float] = []
        for name, values, mean in zip(self.columns, self.values, self.means):
            value = self._value(visitor, name)
            row += [float(_text(value, name) == one) for one in values] or [_number(value, name, mean)]
        return [*row, 1.0]

    def ads_of(self, piece: "LogPiece", where: str) -> Ints:
        """The number of each shown ad."""
        numbers = {label: number for number, label in enumerate(self.ads)}
        found = np.array([numbers.get(label, -1) for label in piece.action], dtype=np.int64)
        if (found < 0).any():
            row = int(np.flatnonzero(found < 0)[0])
            label = piece.action[row]
            said = "is missing" if label is None else f"{label!r} is not one of those the policy knows"
            raise InvalidInput(f"{where}, row {piece.first_row + row}: the ad {said}")
        return found

    def contexts_of(self, piece: "LogPiece") -> Floats:
        """(n_rows, n_context)."""
        parts = [
            _one_hot(_column(piece, name), values, name) if values else _filled(_column(piece, name), mean, name)
            for name, values, mean in zip(self.columns, self.values, self.means)
        ]
        return np.ascontiguousarray(np.column_stack([*parts, np.ones(len(piece.reward))]))

    def to_plain(self) -> dict[str, Any]:
        """Tables and lists for JSON, as version 0.1 reads them where there are no outcomes."""
        plain = self._asdict()
        return plain if self.outcomes else {name: value for name, value in plain.items() if name != "outcomes"}

    @classmethod
    def from_plain(cls, plain: Any) -> "Encoding":
        """What `to_plain` gave, after a journey as JSON."""
        try:
            values = tuple(tuple(map(str, part)) for part in plain["values"])
            columns, means = tuple(map(str, plain["columns"])), tuple(map(float, plain["means"]))
            unused = (tuple(map(str, plain.get(name, ()))) for name in ("left_out", "times", "outcomes"))
            if len(columns) == len(values) == len(means) and all(map(math.isfinite, means)):
                return cls(tuple(map(str, plain["ads"])), columns, values, means, *unused)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            pass
        raise InvalidInput("an encoding has ads and columns, and for each column its values and its mean")

    def _value(self, visitor: Mapping[str, Any], name: str) -> Any:
        called = "position" if name == POSITION and POSITION not in visitor else name
        if called not in visitor:
            raise InvalidInput(
                f"context has no {called!r}; the policy learned from {', '.join(self.columns)} (None: not known)"
            )
        return visitor[called]


def _kind(values: tuple[str, ...]) -> str:
    return f"{len(values)} value{'s' * (len(values) > 1)}" if values else "number"


def _number(value: Any, name: str, mean: float) -> float:
    """A visitor's number; the mean where it is missing."""
    try:
        number = math.nan if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.inf
    if isinstance(value, str) or math.isinf(number):
        raise Rejected("context", f"{name} must be a finite number, as in the log, got {value!r:.60}")
    return mean if math.isnan(number) else number


def _text(value: Any, name: str) -> str | None:
    """A visitor's value as the log would spell it; None where it is missing."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping | Sequence | set | np.ndarray):
        raise Rejected("context", f"{name} must be a single value, as in the log, got {value!r:.60}")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _column(piece: "LogPiece", name: str) -> Any:
    if name == POSITION and piece.position is not None:
        return piece.position
    if name not in piece.context:
        raise InvalidInput(f"the log has no column {name!r}, which the policy needs")
    return piece.context[name]


def _one_hot(column: Any, values: tuple[str, ...], name: str) -> Floats:
    texts = column if column.dtype == object else np.array([_text(value, name) for value in column.tolist()], object)
    return np.array([texts == value for value in values], dtype=np.float64).T


def _filled(column: Any, mean: float, name: str) -> Floats:
    if column.dtype == object:
        raise InvalidInput(f"{name} held numbers when the policy was trained, and holds texts in this log")
    return np.where(np.isfinite(column), column, mean)[:, None]

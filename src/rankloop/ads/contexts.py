"""Columns of a log as numbers: what a person's context is made of, learned once and used again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.evaluation.log_table import LogPiece

MOST_VALUES = 50
POSITION = "(position)"
CONSTANT = "(always 1)"


class Encoding(NamedTuple):
    """How rows become numbers: ads by label; a column with `values` is 0/1 for each of them, one without as it is.

    A value that is not listed is 0 everywhere; a missing number counts as the column's mean. Texts that differ in
    nearly every row are `left_out`: nothing is learned from an id, and a saved policy would publish them.
    """

    ads: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    means: tuple[float, ...]
    left_out: tuple[str, ...] = ()

    @property
    def described(self) -> str:
        """One line: which columns are context, and which are not."""
        used = [f"{name} ({_kind(values)})" for name, values in zip(self.columns, self.values)]
        unused = ", ".join(f"{name} (differs in nearly every row)" for name in self.left_out)
        return f"context: {', '.join(used) or 'none'}" + (f"; left out: {unused}" if unused else "")

    @property
    def n_context(self) -> int:
        """How many numbers describe a person; the last is a constant 1."""
        return sum(len(values) or 1 for values in self.values) + 1

    @property
    def context_names(self) -> list[str]:
        """What each of these numbers is: a column, one value of a column, or the constant."""
        columns = zip(self.columns, self.values)
        return [f"{name}={one}" if one else name for name, values in columns for one in values or ("",)] + [CONSTANT]

    def ads_of(self, piece: LogPiece, where: str) -> Ints:
        """The number of each shown ad."""
        numbers = {label: number for number, label in enumerate(self.ads)}
        found = np.array([numbers.get(label, -1) for label in piece.action], dtype=np.int64)
        if (found < 0).any():
            row = int(np.flatnonzero(found < 0)[0])
            label = piece.action[row]
            said = "is missing" if label is None else f"{label!r} is not one of those the policy knows"
            raise InvalidInput(f"{where}, row {piece.first_row + row}: the ad {said}")
        return found

    def contexts_of(self, piece: LogPiece) -> Floats:
        """(n_rows, n_context)."""
        parts = [
            _one_hot(_column(piece, name), values) if values else _filled(_column(piece, name), mean)
            for name, values, mean in zip(self.columns, self.values, self.means)
        ]
        return np.ascontiguousarray(np.column_stack([*parts, np.ones(len(piece.reward))]))

    def to_plain(self) -> dict[str, Any]:
        """Tables and lists for JSON."""
        return self._asdict()

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Encoding:
        try:
            values = tuple(tuple(map(str, part)) for part in plain["values"])
            means, left_out = tuple(map(float, plain["means"])), tuple(plain.get("left_out", ()))
            return cls(tuple(plain["ads"]), tuple(plain["columns"]), values, means, left_out)
        except (KeyError, TypeError, ValueError):
            raise InvalidInput("the file beside the model does not tell how its contexts are made") from None


def encoding_of(pieces: Iterable[LogPiece]) -> Encoding:
    """Learn ads, values and means from a whole log; texts keep their most frequent values."""
    ads: Counter[str] = Counter()
    texts: dict[str, Counter[str]] = {}
    sums: dict[str, Floats] = {}
    for piece in pieces:
        ads.update(label for label in piece.action if label is not None)
        columns = dict(piece.context) | ({} if piece.position is None else {POSITION: piece.position})
        for name, column in columns.items():
            if column.dtype == object:
                texts.setdefault(name, Counter()).update(value for value in column if value is not None)
            else:
                known = column[np.isfinite(column)]
                sums[name] = sums.get(name, np.zeros(2)) + np.array([known.sum(), len(known)])
    if not ads:
        raise InvalidInput("the log has no rows")
    ids = tuple(name for name, counts in texts.items() if _hardly_repeats(counts))
    names = tuple(name for name in dict.fromkeys((*sums, *texts)) if name in sums or (texts[name] and name not in ids))
    values = tuple(_frequent(texts[name]) if name in texts else () for name in names)
    means = tuple(0.0 if name in texts else float(sums[name][0] / max(sums[name][1], 1.0)) for name in names)
    return Encoding(_in_order(ads), names, values, means, ids)


def _hardly_repeats(counts: Counter[str]) -> bool:
    return len(counts) > MOST_VALUES and 2 * len(counts) > counts.total()


def _kind(values: tuple[str, ...]) -> str:
    return f"{len(values)} value{'s' * (len(values) > 1)}" if values else "number"


def _frequent(counts: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(value for value, _ in counts.most_common(MOST_VALUES)))


def _in_order(labels: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(labels, key=lambda label: (not label.isdigit(), int(label) if label.isdigit() else 0, label)))


def _column(piece: LogPiece, name: str) -> Any:
    if name == POSITION and piece.position is not None:
        return piece.position
    if name not in piece.context:
        raise InvalidInput(f"the log has no column {name!r}, which the policy needs")
    return piece.context[name]


def _one_hot(column: Any, values: tuple[str, ...]) -> Floats:
    texts = column if column.dtype == object else np.array([str(value) for value in column], dtype=object)
    return np.array([texts == value for value in values], dtype=np.float64).T


def _filled(column: Any, mean: float) -> Floats:
    if column.dtype == object:
        raise InvalidInput("a column that held numbers when the policy was trained holds texts now")
    return np.where(np.isfinite(column), column, mean)[:, None]

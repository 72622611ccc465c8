"""A visitor as numbers: which columns of a log of single choices tell of the visitor, and how they become numbers."""

import datetime
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from rankloop.adapter import named_row
from rankloop.core.errors import InvalidInput, Rejected
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Floats, Ints
from rankloop.logs.outcome_columns import Outcomes

if TYPE_CHECKING:
    from rankloop.logs.choice_log import LogPiece

POSITION_COLUMN = "(position)"
CONSTANT_COLUMN = "(always 1)"
MAX_VALUES = 50
MAX_COUNTED = 100_000  # whole numbers that all differ so far are an id
ID_NAME = re.compile(r"(^|[\W_])(?i:id|uid|uuid|guid)$|[a-z](Id|ID)$")
CLOCK_FORM = r"\d{2}:\d{2}(:\d{2}([.,]\d+)?)?"
ISO_TIME = re.compile(rf"\s*(\d{{4}}-\d{{2}}-\d{{2}}([T ]{CLOCK_FORM})?|{CLOCK_FORM})\s*(Z|[+-]\d{{2}}:?\d{{2}})?\s*")
LOCAL_TIME = re.compile(r"\s*(\d{1,2}[./-]\d{1,2}[./-]\d{4}|\d{4}[./]\d{1,2}[./]\d{1,2})([ ,T]+\d{1,2}:\d{2}.*)?")
TIME_TYPES = (datetime.date, datetime.time)  # a datetime is a date too
Visitor = Mapping[str, Any] | Sequence[float] | Floats  # a row by column names, or the numbers that it becomes


def are_times(values: Iterable[Any]) -> bool:
    """Return true where all values, missing ones aside, are dates or times, also as texts (10:30, 1.3.2026)."""
    cells = [value for value in values if value is not None]
    return bool(cells) and all(
        bool(ISO_TIME.fullmatch(cell) or LOCAL_TIME.fullmatch(cell))
        if isinstance(cell, str)
        else isinstance(cell, TIME_TYPES)
        for cell in cells
    )


class Encoding(NamedTuple):
    """Encoding of rows as numbers: ads by label; a column with `values` is 0/1 for each of them, one without as it is.

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

    @classmethod
    def of(
        cls,
        pieces: Iterable["LogPiece"],
        context: Sequence[str] | None = None,
        without: Sequence[str] = (),
        asked_for: Sequence[str] = (),
    ) -> Self:
        """Learn ads, values and means from a whole log; texts keep their most frequent values.

        All columns are learned from but those `without`, and those that look like ids, times or outcomes of the click
        unless they are `asked_for`; where a `context` is named, its columns and no others.
        """
        ads: Counter[str] = Counter()
        revealed = Outcomes()
        numbers: dict[str, NumberColumn] = {}
        texts: dict[str, Counter[str]] = {}
        for piece in pieces:
            ads.update(label for label in piece.action if label is not None)
            for name in (*(context or ()), *without):
                if name not in piece.context:
                    raise InvalidInput(f"the log has no context column {name!r}{nearest(name, piece.context)}")
            names = piece.context if context is None else context
            piece_columns = {name: piece.context[name] for name in names if name not in without}
            if piece.position is not None:
                piece_columns[POSITION_COLUMN] = piece.position
            revealed.add(piece_columns, piece.reward)
            for name, column in piece_columns.items():
                if column.dtype == object:
                    texts.setdefault(name, Counter()).update(value for value in column if value is not None)
                else:
                    numbers.setdefault(name, NumberColumn(name)).add(column)
        if not ads:
            raise InvalidInput("the log has no rows")
        requested = {*(context or ()), *asked_for}
        outcomes = {name: why for name, why in revealed.reasons().items() if name not in (*requested, POSITION_COLUMN)}
        numbers = {name: column for name, column in numbers.items() if name not in outcomes}
        texts = {name: column for name, column in texts.items() if name not in outcomes}
        times = [name for name, counts in texts.items() if name not in requested and are_times(counts)]

        def is_id(name: str) -> bool:
            if name not in texts:
                return numbers[name].is_id
            return max(MAX_VALUES, texts[name].total() // 2) < len(texts[name])  # nearly all rows differ

        ids = [name for name in {**numbers, **texts} if name not in (*requested, *times) and is_id(name)]
        used = [name for name in numbers if name not in ids and name not in texts]
        named = [name for name in texts if name not in (*ids, *times) and texts[name]]
        frequent = (tuple(sorted(text for text, _ in texts[name].most_common(MAX_VALUES))) for name in named)
        values = (*(() for _ in used), *frequent)
        means = (*(numbers[name].mean for name in used), *(0.0 for _ in named))
        outcome_texts = tuple(f"{name} ({reason})" for name, reason in outcomes.items())
        # Numbers stand by their size, before texts.
        labels = sorted(ads, key=lambda label: (not label.isdecimal(), int(label) if label.isdecimal() else 0, label))
        return cls(tuple(labels), (*used, *named), values, means, tuple(ids), tuple(times), outcome_texts)

    @property
    def described(self) -> str:
        """One line: which columns are context, and which are not."""
        used = [
            f"{name} ({f'{len(values)} value' + 's' * (len(values) > 1) if values else 'number'})"
            for name, values in zip(self.columns, self.values)
        ]
        unused = {"ids": self.left_out, "times": self.times, "outcomes": self.outcomes}
        omissions = [f"; left out as {kind}: {', '.join(names)}" for kind, names in unused.items() if names]
        return f"context: {', '.join(used) or 'none'}{''.join(omissions)}"

    @property
    def expected_columns(self) -> str:
        """The columns to give, for an error message."""
        names = ["position" if name == POSITION_COLUMN else name for name in self.columns]
        return f"give {', '.join(names)} (null: not known)"

    @property
    def n_context(self) -> int:
        """Number of numbers that describe a user; the last is a constant 1."""
        return sum(len(values) or 1 for values in self.values) + 1

    @property
    def context_names(self) -> list[str]:
        """Names of these numbers: a column, one value of a column, or the constant."""
        parts = ([f"{name}={value}" for value in values] or [name] for name, values in zip(self.columns, self.values))
        return [*chain.from_iterable(parts), CONSTANT_COLUMN]

    def row_of(self, visitor: Visitor) -> list[float]:
        """Return the numbers of a visitor, who is a row with all columns ({"age": 41, "job": "student"}) or numbers.

        None is a missing value. Names of single values ("job=student") mean numbers; those not given are 0.
        """
        names = self.context_names
        if not isinstance(visitor, Mapping) or not set(names).difference(self.columns).isdisjoint(visitor):
            return named_row(visitor, names, "context")[0]
        row: list[float] = []
        for name, values, mean in zip(self.columns, self.values, self.means):
            called = "position" if name == POSITION_COLUMN and POSITION_COLUMN not in visitor else name
            if called not in visitor:
                learned = ", ".join(self.columns)
                raise InvalidInput(f"context has no {called!r}; the policy learned from {learned} (None: not known)")
            value = visitor[called]
            row += [float(_text(value, name) == listed) for listed in values] or [_number(value, name, mean)]
        return [*row, 1.0]

    def ads_of(self, piece: "LogPiece", where: str) -> Ints:
        """Return the number of each shown ad."""
        numbers = {label: number for number, label in enumerate(self.ads)}
        ads = np.array([numbers.get(label, -1) for label in piece.action], dtype=np.int64)
        if (ads < 0).any():
            row = int(np.flatnonzero(ads < 0)[0])
            label = piece.action[row]
            problem = "is missing" if label is None else f"{label!r} is not one of those the policy knows"
            raise InvalidInput(f"{where}, row {piece.first_row + row}: the ad {problem}")
        return ads

    def contexts_of(self, piece: "LogPiece") -> Floats:
        """(n_rows, n_context)."""
        parts: list[Floats] = []
        for name, values, mean in zip(self.columns, self.values, self.means):
            if name == POSITION_COLUMN and piece.position is not None:
                column: Any = piece.position
            elif name in piece.context:
                column = piece.context[name]
            else:
                raise InvalidInput(f"the log has no column {name!r}, which the policy needs")
            if values:
                if column.dtype != object:
                    column = np.array([_text(value, name) for value in column.tolist()], object)
                parts.append(np.array([column == value for value in values], dtype=np.float64).T)
            elif column.dtype == object:
                raise InvalidInput(f"{name} held numbers when the policy was trained, and holds texts in this log")
            else:
                parts.append(np.where(np.isfinite(column), column, mean)[:, None])
        return np.ascontiguousarray(np.column_stack([*parts, np.ones(len(piece.reward))]))

    def to_plain(self) -> dict[str, Any]:
        """Return tables and lists for JSON."""
        return self._asdict()

    @classmethod
    def from_plain(cls, plain: Any) -> "Encoding":
        """Read back what `to_plain` returned."""
        try:
            values = tuple(tuple(map(str, part)) for part in plain["values"])
            columns, means = tuple(map(str, plain["columns"])), tuple(map(float, plain["means"]))
            unused = {name: tuple(map(str, plain.get(name, ()))) for name in ("left_out", "times", "outcomes")}
            if len(columns) == len(values) == len(means) and all(map(math.isfinite, means)):
                return cls(tuple(map(str, plain["ads"])), columns, values, means, **unused)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            pass
        raise InvalidInput("an encoding has ads and columns, and for each column its values and its mean")


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


class NumberColumn:
    """Running summary of a column of numbers: its mean, and whether it looks like an id."""

    def __init__(self, name: str) -> None:
        self.named_id = ID_NAME.search(name) is not None
        self.sum, self.n, self.distinct = 0.0, 0, set[float]()
        self.are_whole, self.repeats = True, False

    def add(self, column: Floats) -> None:
        """Count the next rows."""
        present = column[np.isfinite(column)]
        self.sum, self.n = self.sum + float(present.sum()), self.n + len(present)
        if self.are_whole and (self.named_id or not self.repeats) and len(self.distinct) <= MAX_COUNTED:
            self.distinct.update(present.tolist())
            self.are_whole = bool((present == np.floor(present)).all())
            self.repeats = len(self.distinct) < self.n

    @property
    def mean(self) -> float:
        """The mean of the finite numbers."""
        return self.sum / max(self.n, 1)

    @property
    def is_id(self) -> bool:
        """Many whole numbers, in a column that is named like an id or in which no number comes twice."""
        return self.are_whole and len(self.distinct) > MAX_VALUES and (self.named_id or not self.repeats)

"""The columns of trees: numbers with gaps, categories as codes, and texts as hashed word counts."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build, spec_of
from rankloop.core.types import Floats
from rankloop.features.hashed_columns import hash_of
from rankloop.features.kinds import DAY_SECONDS, FLAG_NUMBERS, Category, moment_of
from rankloop.features.schema import Schema
from rankloop.features.words import words_of

MAX_CODES = 255  # values of a category, the most frequent ones; LightGBM's default number of bins
N_BUCKETS = 32  # columns that count the words of a text
MAX_NUMBER = sys.float_info.max
NUMBER, DATE, CATEGORY, WORDS = "number", "date", "category", "words"
COLUMN_KINDS = {"number": NUMBER, "flag": NUMBER, "date": DATE, "category": CATEGORY, "words": WORDS}
CATEGORY_TOKENS = Category()


class TreeColumn(NamedTuple):
    """A field of the items, and the numbers that it becomes; NaN is a missing value."""

    field: str
    kind: str = NUMBER  # number, date (in days since 1970), category or words
    values: tuple[str, ...] = ()  # of a category, whose numbers are their positions here; any other is missing
    n_buckets: int = 0  # columns that count hashed words; 0 for one column

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.n_buckets or 1

    @property
    def names(self) -> list[str]:
        """The name of each column."""
        return [f"{self.field}#{bucket}" for bucket in range(self.n_buckets)] or [self.field]

    @property
    def is_text(self) -> bool:
        """True for categories and words, which are given by name."""
        return self.kind in (CATEGORY, WORDS)

    def numbers(self, values: Sequence[Any]) -> Floats:
        """Return the numbers of values, (n_values, width)."""
        if not self.n_buckets:
            codes = {value: float(code) for code, value in enumerate(self.values)}
            return np.array([[self._number(value, codes)] for value in values]).reshape(len(values), 1)
        counts = np.full((len(values), self.n_buckets), np.nan)
        for row, value in enumerate(values):
            if value is not None:
                buckets = [hash_of(self.field, word) % self.n_buckets for word in words_of(str(value))]
                counts[row] = np.bincount(buckets, minlength=self.n_buckets)
        return counts

    def _number(self, value: Any, codes: Mapping[str, float]) -> float:
        if self.kind == CATEGORY:
            tokens = _category(value)
            return codes.get(tokens[0], np.nan) if tokens else np.nan
        if self.kind == DATE:
            return np.nan if value is None else moment_of(value) / DAY_SECONDS
        return plain_number(value)

    def to_plain(self) -> Any:
        """Return the name of a column of numbers, or a table of the attributes, for a file."""
        return self.field if self == TreeColumn(self.field) else self._asdict()

    @classmethod
    def from_plain(cls, plain: Any) -> "TreeColumn":
        """Read back what `to_plain` returned."""
        if isinstance(plain, str):
            return cls(plain)
        column = cls(str(plain["field"]), str(plain["kind"]), tuple(map(str, plain["values"])), int(plain["n_buckets"]))
        if column.kind not in COLUMN_KINDS.values() or column.n_buckets < 0:
            raise InvalidInput(f"{column.field!r:.60} is a column of the unknown kind {column.kind!r:.40}")
        return column


def tree_columns(schema: Schema, values: Mapping[str, Sequence[Any]]) -> list[TreeColumn]:
    """Return the columns of the item fields of a schema; ids, vectors and counters have none.

    Args:
      schema: The kinds of the fields.
      values: By field, from which the values of categories are taken.
    """
    columns = []
    for name, field in schema.features.items():
        kind = COLUMN_KINDS.get(spec_of(build(field, "field"))["kind"])
        if kind is None or name not in values:
            continue
        if kind == CATEGORY:
            counts = Counter(token for value in values[name] for token in _category(value)[:1])
            columns.append(TreeColumn(name, kind, tuple(sorted(value for value, _ in counts.most_common(MAX_CODES)))))
        else:
            columns.append(TreeColumn(name, kind, n_buckets=N_BUCKETS if kind == WORDS else 0))
    if not columns:
        raise InvalidInput(f"trees need numbers, flags, dates, categories or texts, not {', '.join(schema.features)}")
    return columns


def encode_columns(columns: Sequence[TreeColumn], values: Mapping[str, Sequence[Any]]) -> Floats:
    """Return the numbers of all columns side by side.

    Args:
      columns: The columns.
      values: By field, one per row.
    """
    return np.column_stack([column.numbers(values[column.field]) for column in columns])


def plain_number(value: Any) -> float:
    """Return a number or a flag as a number; anything else is missing."""
    if isinstance(value, str):
        value = FLAG_NUMBERS.get(value.strip().lower())
    if not isinstance(value, int | float) or not -MAX_NUMBER <= value <= MAX_NUMBER:
        return float("nan")
    return float(value)


def _category(value: Any) -> Sequence[str]:
    return CATEGORY_TOKENS.tokens(value, 0.0)[0]

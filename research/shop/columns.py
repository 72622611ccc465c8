"""A shop's rows as columns by hand: what users of a linear library without fields must write themselves.

Every side gets the same: names of categories, words and ids, and numbers as tents over a scale that suits each.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from math import floor, log, log1p
from typing import Any

from research.shop.world import CONTEXT, FEATURES, Fields

Columns = list[tuple[str, float]]
# A number is spread over the two nearest knots of its own scale.
SCALES: dict[str, Callable[[float], float]] = {
    "price": lambda value: log(value) / 0.5,
    "rating": lambda value: value / 0.5,
    "age_days": lambda value: log1p(value) / 0.5,
    "discount": lambda value: value / 0.1,
}


def columns(kind: str, field: str, value: Any) -> Columns:
    """Names with their values; what is missing has a name of its own, except for what may be empty."""
    if value is None:
        return [("missing", 1.0)]
    if kind == "number":
        return tents(SCALES[field](value))
    if kind == "flag":
        return [("yes" if value else "no", 1.0)]
    return [(name, 1.0) for name in names(kind, value)]


def names(kind: str, value: Any) -> Iterable[str]:
    """Return the column names of a value.

    Args:
      kind: The kind of the field.
      value: The value.
    """
    if kind == "words":
        return list(dict.fromkeys(value.split()))
    return [each.replace(" ", "_") for each in (value if isinstance(value, list) else [value])]


@lru_cache(10_000)
def tents(scaled: float) -> Columns:
    """1 at a knot, and between two knots as much of each as it is near."""
    low = floor(scaled)
    share = scaled - low
    return [(str(low), 1.0 - share), (str(low + 1), share)] if share else [(str(low), 1.0)]


def by_field(row: Mapping[str, Any], kinds: Mapping[str, str]) -> Iterator[tuple[str, Columns]]:
    """Yield each field with its columns.

    Args:
      row: The values by field.
      kinds: The kinds by field.
    """
    for field, kind in kinds.items():
        yield field, columns(kind, field, row[field])


class Kept:
    """Cache of what is computed from a product's row, for as long as the row is the same."""

    def __init__(self, make: Callable[[Fields], Any]) -> None:
        self.make, self.made = make, dict[str, tuple[Fields, Any]]()

    def __call__(self, row: Fields) -> Any:
        """Return the cached value of a row."""
        cached = self.made.get(row["sku"])
        if cached is None or cached[0] is not row:
            self.made[row["sku"]] = cached = row, self.make(row)
        return cached[1]


FIELD_LETTERS = dict(zip((*FEATURES, *CONTEXT), "ktbcpradigSDQX"))  # VowpalWabbit knows a field by one letter


def as_text(row: Mapping[str, Any], kinds: Mapping[str, str]) -> str:
    """`|b brand_7 |p 16:0.3 17:0.7`, as VowpalWabbit reads it."""
    return " ".join(
        f"|{FIELD_LETTERS[field]} {_pairs(field_columns)}"
        for field, field_columns in by_field(row, kinds)
        if field_columns
    )


def _pairs(field_columns: Columns) -> str:
    return " ".join(name if value == 1.0 else f"{name}:{value:.4f}" for name, value in field_columns)

"""The columns of a table in values as people have them: texts stay texts, and what is empty is missing (None)."""

import json
import math
from collections.abc import Mapping
from typing import Any

from rankloop.core.errors import InvalidInput
from rankloop.logs.columns import refuse_twice
from rankloop.logs.tables.source import Given, Source

LISTED = ("category", "id", "vector")  # kinds of which a value may be a list
AS_TEXT = ("category", "id", "words")  # kinds whose cells in a CSV file stay as they are written: 007 is not 7

Values = dict[str, list[Any]]


def read_raw_columns(given: Given, kinds: Mapping[str, str] | None = None) -> Values:
    """A whole table, as lists of plain values by column; `kinds` says what the cells of a CSV file are read as.

    Columns of a kind that is a text are read as texts, `number` as numbers, all others as they look. In a CSV file an
    empty cell is missing, among numbers also NA and NaN; in Parquet what is null or NaN.
    """
    kinds, source = kinds or {}, Source(given)
    numbers = [name for name, kind in kinds.items() if kind == "number"]
    try:
        table = source.whole(numbers, [name for name, kind in kinds.items() if kind in AS_TEXT])
    except InvalidInput:
        fault = source.text_in(numbers)
        if fault is None:
            raise
        said = f"{fault.column} is {fault.value!r}; it must be a number"
        raise InvalidInput(f"{source.name}, row {fault.row}: {said}") from None
    refuse_twice(table.column_names, source.name)
    if table.num_rows == 0:
        raise InvalidInput(f"{source.name} has no rows")
    return {name: _values(table[name].to_pylist(), kinds.get(name)) for name in table.column_names}


def _values(values: list[Any], kind: str | None) -> list[Any]:
    """None for what is empty; lists that a file has as text become lists again, where the kind has any."""
    known = [None if _is_empty(value) else value for value in values]
    if kind in LISTED:
        return [as_list(value) for value in known]
    if kind is None and all(isinstance(as_list(value), list) for value in known if value is not None):
        return [as_list(value) for value in known]
    return known


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value) or (isinstance(value, float) and math.isnan(value))


def as_list(value: Any) -> Any:
    """The list that a text such as ["red", "blue"] writes down; anything else as it is."""
    if not isinstance(value, str) or not value.startswith("[") or not value.endswith("]"):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value

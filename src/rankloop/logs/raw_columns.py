"""The columns of a table in values as people have them: texts stay texts, and what is empty is missing (None)."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rankloop.core.errors import InvalidInput
from rankloop.data.compression import opened
from rankloop.logs.columns import refuse_twice
from rankloop.logs.table import csv_header, csv_tables, first_fault, is_parquet

LISTED = ("category", "id", "vector")  # kinds of which a value may be a list
AS_TEXT = ("category", "id", "words")  # kinds whose cells in a CSV file stay as they are written: 007 is not 7

Values = dict[str, list[Any]]


def read_raw_columns(path: Path, kinds: Mapping[str, str] | None = None) -> Values:
    """A whole table, as lists of plain values by column; `kinds` says what the cells of a CSV file are read as.

    Columns of a kind that is a text are read as texts, `number` as numbers, all others as they look. In a CSV file an
    empty cell is missing, among numbers also NA and NaN; in Parquet what is null or NaN.
    """
    import pyarrow as pa
    from pyarrow import parquet

    kinds = kinds or {}
    try:
        table = parquet.read_table(path) if is_parquet(path) else _csv_table(path, kinds)
    except pa.ArrowInvalid as error:
        raise InvalidInput(_fault(path, kinds) or f"{path.name}: {' '.join(str(error).split())}") from None
    refuse_twice(table.column_names, path.name)
    if table.num_rows == 0:
        raise InvalidInput(f"{path.name} has no rows")
    return {name: _values(table[name].to_pylist(), kinds.get(name)) for name in table.column_names}


def _csv_table(path: Path, kinds: Mapping[str, str]) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    types = {name: pa.string() for name, kind in kinds.items() if kind in AS_TEXT}
    types |= {name: pa.float64() for name, kind in kinds.items() if kind == "number"}
    with opened(path) as file:
        csv_header(file, path.name)
    with opened(path) as file:
        return arrow_csv.read_csv(file, convert_options=arrow_csv.ConvertOptions(column_types=types))


def _fault(path: Path, kinds: Mapping[str, str]) -> str:
    """Which cell of a CSV file holds a text where the schema has a number; empty: none does."""
    import pyarrow as pa

    if is_parquet(path):
        return ""
    try:
        with opened(path) as file:
            names = csv_header(file, path.name)
        numbers = [name for name, kind in kinds.items() if kind == "number" and name in names]
        fault = first_fault(_texts(path, numbers), numbers) if numbers else None
    except pa.ArrowInvalid:
        return ""
    return f"{path.name}, row {fault.row}: {fault.column} is {fault.value!r}; it must be a number" if fault else ""


def _texts(path: Path, names: list[str]) -> Iterator[Any]:
    with opened(path) as file:
        yield from csv_tables(file, names, (), names)


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

"""CSV logs as Arrow tables, a piece at a time, and where a number is none."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rankloop.core.errors import InvalidInput

BLOCK_BYTES = 8 << 20


class Fault(NamedTuple):
    """A text where a number should be."""

    row: int
    column: str
    value: str


def csv_header(file: Any, where: str) -> list[str]:
    """The names in the first line, as the reader of the tables takes them."""
    lines = (line.decode("utf-8-sig", "replace") for line in iter(file.readline, b""))
    try:
        names = next(csv.reader(lines), [])
    except csv.Error as error:
        raise InvalidInput(f"{where}: the first line should name the columns: {error}") from None
    if not any(map(str.strip, names)):
        raise InvalidInput(f"{where} is empty; its first line should name the columns")
    if names[0].lstrip().startswith("{"):
        raise InvalidInput(f"{where} seems to be JSON; a log is a CSV or Parquet file")
    return names


def csv_tables(file: Any, wanted: Sequence[str], numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Any]:
    """The wanted columns; `numbers` and `texts` are read as such, the others as they look."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    types = dict.fromkeys(numbers, pa.float64()) | dict.fromkeys(texts, pa.string())
    known = {name: kind for name, kind in types.items() if name in wanted}
    convert = arrow_csv.ConvertOptions(column_types=known, include_columns=wanted, strings_can_be_null=True)
    yield from arrow_csv.open_csv(file, arrow_csv.ReadOptions(block_size=BLOCK_BYTES), convert_options=convert)


def first_fault(tables: Iterable[Any], numbers: Sequence[str], first_row: int = 1) -> Fault | None:
    """The first text among the columns of numbers, rows counted from `first_row`."""
    for table in tables:
        faults = [
            Fault(first_row + row, name, value)
            for name in numbers
            for row, value in enumerate(table[name].to_pylist())
            if not _is_number(value)
        ]
        if faults:
            return min(faults)
        first_row += table.num_rows
    return None


def _is_number(value: Any) -> bool:
    try:
        float(0.0 if value is None else value)
    except (TypeError, ValueError):
        return False
    return True

"""Logs as tables (CSV or Parquet) with named columns, read piece by piece."""

import csv
import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats
from rankloop.data.compression import opened
from rankloop.data.folder import given_path
from rankloop.logs.columns import columns_of, refuse_twice
from rankloop.logs.rows import Rows, rows_of

BLOCK_BYTES = 8 << 20
PIECE_ROWS = 1 << 16
CLICK = "a number (0 or 1)"  # what a column of clicks should hold
CLOCK = r"\d{2}:\d{2}(:\d{2}([.,]\d+)?)?"
ISO = re.compile(rf"\s*(\d{{4}}-\d{{2}}-\d{{2}}([T ]{CLOCK})?|{CLOCK})\s*(Z|[+-]\d{{2}}:?\d{{2}})?\s*")
KINDS = (datetime.date, datetime.time)  # a datetime is a date too


def are_times(values: Iterable[Any]) -> bool:
    """Whether all values, missing ones aside, are dates or times, as such or as texts (2026-03-01T10:00:00, 10:30)."""
    known = [value for value in values if value is not None]
    return bool(known) and all(_is_time(value) for value in known)


def _is_time(value: Any) -> bool:
    return isinstance(value, KINDS) or (isinstance(value, str) and ISO.fullmatch(value) is not None)


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


def read_columns(path: Path) -> dict[str, Any]:
    """A whole table, as arrays by column."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    try:
        if is_parquet(path):
            table = parquet.read_table(path)
        else:
            with opened(path) as file:
                csv_header(file, path.name)
            with opened(path) as file:
                table = arrow_csv.read_csv(file)
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"{path.name}: {' '.join(str(error).split())}") from None
    refuse_twice(table.column_names, path.name)
    if table.num_rows == 0:
        raise InvalidInput(f"{path.name} has no rows")
    return {name: table[name].to_numpy() for name in table.column_names}


def column_names(path: Path) -> list[str]:
    """The names of a table's columns, from its first line or its schema."""
    if is_parquet(path):
        import pyarrow.parquet

        return list(pyarrow.parquet.ParquetFile(path).schema_arrow.names)
    with opened(path) as file:
        return csv_header(file, path.name)


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


class LogPiece(NamedTuple):
    """Consecutive rows; `first_row` counts from 1, below the header."""

    first_row: int
    action: np.ndarray[tuple[int], np.dtype[np.object_]]  # labels, as text
    reward: Floats
    propensity: Floats  # nan where missing
    target: Floats | None
    position: np.ndarray[tuple[int], np.dtype[np.object_]] | None
    context: Mapping[str, Any]  # numbers or texts by column


class LogTable:
    """A file that can be read again and again, a piece at a time; packed CSV files are seen through.

    Columns that are not named are recognised by usual names, among them those of the Open Bandit Dataset (item_id,
    click, propensity_score, position); every other column is context, except an unnamed one, time stamps, and those
    with another usual name of the click, the ad, the propensity … (`columns.left_out`).
    """

    def __init__(self, path: str | Path, **named: str) -> None:
        self.path = given_path(str(path))
        self.names = column_names(self.path)
        self.columns = columns_of(self.names, named, self.path.name)

    def pieces(self) -> Iterator[LogPiece]:
        """From the first row to the last."""
        columns = self.columns
        first = 1
        for table in self._tables([name for name in (*columns[:5], *columns.context) if name]):
            if table.num_rows:
                yield self._piece(table, first)
                first += table.num_rows

    def rows(self) -> Iterator[Rows]:
        """Rows for `estimate`, where the table itself tells the target policy's probability of what was shown."""
        reward, propensity, target = self.columns[1:4]
        if not target:
            raise InvalidInput(
                f"{self.path.name} has no column with the target policy's probabilities: name it target="
            )
        first = 1
        for table in self._tables([reward, propensity, target]):
            numbers = (self._numbers(table, name, first) for name in (reward, propensity, target))
            yield rows_of(*numbers, first_row=first, where=self.path.name)
            first += table.num_rows

    def _piece(self, table: Any, first: int) -> LogPiece:
        columns = self.columns
        return LogPiece(
            first,
            _texts(table[columns.action]),
            self._numbers(table, columns.reward, first),
            self._numbers(table, columns.propensity, first),
            self._numbers(table, columns.target, first) if columns.target else None,
            _texts(table[columns.position]) if columns.position else None,
            {name: _context(table[name]) for name in columns.context},
        )

    def _numbers(self, table: Any, name: str, first: int) -> Floats:
        try:
            return np.array(table[name].to_numpy(zero_copy_only=False), dtype=np.float64)
        except (TypeError, ValueError) as error:
            fault = first_fault([table], [name], first)
            said = self._message(fault) if fault else f"{self.path.name}, from row {first}: {name}: {error}"
            raise InvalidInput(said) from None

    def _message(self, fault: Fault) -> str:
        right = CLICK if fault.column == self.columns.reward else "a number"
        return f"{self.path.name}, row {fault.row}: {fault.column} is {fault.value!r}; it must be {right}"

    def _tables(self, wanted: list[str]) -> Iterator[Any]:
        import pyarrow as pa

        try:
            if is_parquet(self.path):
                import pyarrow.parquet

                yield from pyarrow.parquet.ParquetFile(self.path).iter_batches(PIECE_ROWS, columns=wanted)
                return
            texts = [name for name in (self.columns.action, self.columns.position) if name]
            with opened(self.path) as file:
                yield from csv_tables(file, wanted, self._number_columns(wanted), texts)
        except pa.ArrowInvalid as error:
            fault = None if is_parquet(self.path) else self._fault(wanted)
            said = self._message(fault) if fault else f"{self.path.name}: {' '.join(str(error).split())}"
            raise InvalidInput(said) from None

    def _number_columns(self, wanted: Sequence[str]) -> list[str]:
        return [name for name in self.columns[1:4] if name and name in wanted]

    def _fault(self, wanted: Sequence[str]) -> Fault | None:
        """Read the columns of numbers again as texts, to find the row that holds none."""
        import pyarrow as pa

        numbers = self._number_columns(wanted)
        try:
            with opened(self.path) as file:
                return first_fault(csv_tables(file, numbers, (), numbers), numbers)
        except pa.ArrowInvalid:  # a line with too many columns, or the like
            return None


def is_parquet(path: Path) -> bool:
    """Whether a file is in this format, whatever its name."""
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _texts(column: Any) -> Any:
    import pyarrow as pa

    return np.asarray(column.cast(pa.string()).to_numpy(zero_copy_only=False), dtype=object)


def _context(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    return _texts(column)

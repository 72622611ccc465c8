"""Logs of single choices as tables with named columns, read piece by piece."""

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats
from rankloop.logs.columns import columns_of, refuse_twice
from rankloop.logs.rows import Rows, rows_of
from rankloop.logs.tables.source import Fault, Given, Source, csv_header, csv_tables, first_fault, is_parquet

__all__ = [
    "CLICK",
    "Fault",
    "LogPiece",
    "LogTable",
    "are_times",
    "click_number",
    "column_names",
    "csv_header",
    "csv_tables",
    "first_fault",
    "is_parquet",
    "read_columns",
]

CLICK = "a number (0 or 1)"  # what a column of clicks should hold
FLAGS = dict.fromkeys(("yes", "y", "true", "t", "ja"), 1.0) | dict.fromkeys(("no", "n", "false", "f", "nein"), 0.0)
CLOCK = r"\d{2}:\d{2}(:\d{2}([.,]\d+)?)?"
ISO = re.compile(rf"\s*(\d{{4}}-\d{{2}}-\d{{2}}([T ]{CLOCK})?|{CLOCK})\s*(Z|[+-]\d{{2}}:?\d{{2}})?\s*")
KINDS = (datetime.date, datetime.time)  # a datetime is a date too


def are_times(values: Iterable[Any]) -> bool:
    """Whether all values, missing ones aside, are dates or times, as such or as texts (2026-03-01T10:00:00, 10:30)."""
    known = [value for value in values if value is not None]
    return bool(known) and all(_is_time(value) for value in known)


def _is_time(value: Any) -> bool:
    return isinstance(value, KINDS) or (isinstance(value, str) and ISO.fullmatch(value) is not None)


def click_number(value: Any) -> Any:
    """What a cell of a column of clicks says, where it says yes or no; any other value as it is."""
    return FLAGS.get(value.strip().lower(), value) if isinstance(value, str) else value


def read_columns(given: Given, texts: Sequence[str] = ()) -> dict[str, Any]:
    """A whole table, as arrays by column; `texts` are columns of a file without types that are read as such."""
    source = Source(given)
    refuse_twice(source.names, source.name)
    table = source.whole(texts=texts)
    if table.num_rows == 0:
        raise InvalidInput(f"{source.name} has no rows")
    return {name: table[name].to_numpy() for name in table.column_names}


def column_names(given: Given) -> list[str]:
    """The names of a table's columns, from its first line or its schema."""
    return Source(given).names


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
    """A table that can be read again and again, a piece at a time: a file of any format (see `Source`) or a frame.

    Columns that are not named are recognised by usual names, among them those of the Open Bandit Dataset (item_id,
    click, propensity_score, position); every other column is context, except an unnamed one, time stamps, and those
    with another usual name of the click, the ad, the propensity … (`columns.left_out`).
    """

    def __init__(self, path: Given, **named: str) -> None:
        self.source = Source(path)
        self.name, self.names = self.source.name, self.source.names
        self.columns = columns_of(self.names, named, self.name)

    @property
    def path(self) -> Path:
        """The file that it is."""
        if self.source.path is None:
            raise InvalidInput(f"{self.name} is not a file")
        return self.source.path

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
            raise InvalidInput(f"{self.name} has no column with the target policy's probabilities: name it target=")
        first = 1
        for table in self._tables([reward, propensity, target]):
            numbers = (self._numbers(table, name, first) for name in (reward, propensity, target))
            yield rows_of(*numbers, first_row=first, where=self.name)
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
            said = self._message(fault) if fault else f"{self.name}, from row {first}: {name}: {error}"
            raise InvalidInput(said) from None

    def _message(self, fault: Fault) -> str:
        right = CLICK if fault.column == self.columns.reward else "a number"
        return f"{self.name}, row {fault.row}: {fault.column} is {fault.value!r}; it must be {right}"

    def _tables(self, wanted: list[str]) -> Iterator[Any]:
        texts = [name for name in (self.columns.action, self.columns.position) if name]
        numbers = [name for name in self.columns[1:4] if name and name in wanted]
        try:
            yield from self.source.batches(wanted, numbers, texts)
        except InvalidInput:
            fault = self.source.text_in(numbers)
            if fault is None:
                raise
            raise InvalidInput(self._message(fault)) from None


def _texts(column: Any) -> Any:
    import pyarrow as pa

    return np.asarray(column.cast(pa.string()).to_numpy(zero_copy_only=False), dtype=object)


def _context(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    return _texts(column)

"""Logs as tables (CSV or Parquet) with named columns, read piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats
from rankloop.data.folder import given_path
from rankloop.data.lines import opened
from rankloop.evaluation.csv_pieces import Fault, csv_header, csv_tables, first_fault
from rankloop.evaluation.log_columns import columns_of
from rankloop.evaluation.rows import Rows, rows_of

PIECE_ROWS = 1 << 16


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
        self.names = self._header()
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
            said = self._told(fault) if fault else f"{self.path.name}, from row {first}: {name}: {error}"
            raise InvalidInput(said) from None

    def _told(self, fault: Fault) -> str:
        right = "a number (0 or 1)" if fault.column == self.columns.reward else "a number"
        return f"{self.path.name}, row {fault.row}: {fault.column} is {fault.value!r}; it must be {right}"

    def _header(self) -> list[str]:
        if _is_parquet(self.path):
            import pyarrow.parquet

            return list(pyarrow.parquet.ParquetFile(self.path).schema_arrow.names)
        with opened(self.path) as file:
            return csv_header(file, self.path.name)

    def _tables(self, wanted: list[str]) -> Iterator[Any]:
        import pyarrow as pa

        try:
            if _is_parquet(self.path):
                import pyarrow.parquet

                yield from pyarrow.parquet.ParquetFile(self.path).iter_batches(PIECE_ROWS, columns=wanted)
                return
            texts = [name for name in (self.columns.action, self.columns.position) if name]
            with opened(self.path) as file:
                yield from csv_tables(file, wanted, self._number_columns(wanted), texts)
        except pa.ArrowInvalid as error:
            fault = None if _is_parquet(self.path) else self._fault(wanted)
            said = self._told(fault) if fault else f"{self.path.name}: {' '.join(str(error).split())}"
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


def _is_parquet(path: Path) -> bool:
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

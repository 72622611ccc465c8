"""Logs as tables (CSV or Parquet) with named columns, read piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.specs import nearest
from rankloop.core.types import Floats
from rankloop.data.folder import data_path
from rankloop.data.lines import opened
from rankloop.evaluation.rows import Rows, rows_of

PIECE_ROWS = 1 << 16
BLOCK_BYTES = 8 << 20
GUESSES = {
    "action": (
        "action",
        "ad",
        "item",
        "offer",
        "arm",
        "shown_ad",
        "ad_shown",
        "ad_id",
        "item_id",
        "offer_id",
        "banner",
    ),
    "reward": ("reward", "click", "clicked", "clicks", "is_click"),
    "propensity": ("propensity", "propensity_score", "pscore", "probability", "prob"),
    "target": ("target", "target_probability", "evaluation_probability"),
    "position": ("position", "place", "slot"),
}
ROLES = {"action": "shown ad", "reward": "click", "propensity": "probability with which the ad was shown"}
NOT_CONTEXT = ("", "timestamp", "time", "date", "id")


class Columns(NamedTuple):
    """Which column of a table is what; an empty name: the table has none."""

    action: str
    reward: str
    propensity: str
    target: str = ""
    position: str = ""
    context: tuple[str, ...] = ()


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
    click, propensity_score, position); every other column is context, except an unnamed one and time stamps.
    """

    def __init__(self, path: str | Path, **named: str) -> None:
        self.path = data_path(str(path))
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
            raise InvalidInput(f"{self.path.name}, from row {first}: {name} must hold numbers: {error}") from None

    def _header(self) -> list[str]:
        if _is_parquet(self.path):
            import pyarrow.parquet

            return list(pyarrow.parquet.ParquetFile(self.path).schema_arrow.names)
        with opened(self.path) as file:
            line = file.readline().decode("utf-8-sig", "replace").strip()
        if not line:
            raise InvalidInput(f"{self.path.name} is empty; its first line should name the columns")
        return [name.strip().strip('"') for name in line.split(",")]

    def _tables(self, wanted: list[str]) -> Iterator[Any]:
        import pyarrow as pa

        try:
            if _is_parquet(self.path):
                import pyarrow.parquet

                yield from pyarrow.parquet.ParquetFile(self.path).iter_batches(PIECE_ROWS, columns=wanted)
                return
            with opened(self.path) as file:
                yield from _csv(file, wanted, self.columns)
        except pa.ArrowInvalid as error:
            raise InvalidInput(f"{self.path.name}: {' '.join(str(error).split())}") from None


def columns_of(names: Sequence[str], named: Mapping[str, str], where: str) -> Columns:
    """The columns as named, or as their names suggest."""
    unknown = next((given for given in named.values() if given and given not in names), None)
    if unknown is not None:
        raise InvalidInput(f"{where} has no column {unknown!r}{nearest(unknown, names)}")
    found = {role: named.get(role) or _guess(names, usual) for role, usual in GUESSES.items()}
    for role in ("action", "reward", "propensity"):
        if not found[role]:
            raise InvalidInput(
                f"{where} has no column that is clearly the {ROLES[role]} (such as {', '.join(GUESSES[role][:3])}); it "
                f"has {', '.join(names)}: say which one, as in {role}={names[0]} (rankloop evaluate: --column)"
            )
    used = {*found.values(), *NOT_CONTEXT}
    return Columns(**found, context=tuple(name for name in names if name not in used))


def _guess(names: Sequence[str], usual: Sequence[str]) -> str:
    return next((name for guess in usual for name in names if _plain(name) == guess), "")


def _plain(name: str) -> str:
    """So that "Shown Ad" and "shown-ad" are known as shown_ad."""
    return name.lower().replace(" ", "_").replace("-", "_")


def _csv(file: Any, wanted: list[str], columns: Columns) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    numbers = {name: pa.float64() for name in (columns.reward, columns.propensity, columns.target) if name}
    texts = {name: pa.string() for name in (columns.action, columns.position) if name}
    types = {name: kind for name, kind in (numbers | texts).items() if name in wanted}
    convert = csv.ConvertOptions(column_types=types, include_columns=wanted, strings_can_be_null=True)
    yield from csv.open_csv(file, csv.ReadOptions(block_size=BLOCK_BYTES), convert_options=convert)


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

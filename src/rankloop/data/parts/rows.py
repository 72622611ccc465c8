"""The rows of a part, some at a time, whatever it is written in."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints, finite_floats
from rankloop.data.compression import opened
from rankloop.data.letor.rows import Layout, Namer, pieces

QUERY_COLUMNS = ("query", "query_id", "qid")
GRADE_COLUMNS = ("relevance", "grade", "label", "rating")


class PartRows(NamedTuple):
    """Consecutive rows; another query begins at each of `starts`. Valid until the next ones are asked for.

    Columns are features as they are numbered in the file; `lowest` is the lowest number that occurs, 0 or 1.
    """

    features: Floats
    grades: Floats
    starts: Ints
    names: list[str]  # of the query that begins at each start
    lowest: int
    width: int  # columns up to the highest number that occurs


Read = Callable[[Path], Iterator["PartRows"]]  # importable, since it travels to the workers


def letor_rows(path: Path) -> Iterator[PartRows]:
    """Of a LETOR file, packed or not; queries without a name are numbered, under the name of the file."""
    namer = Namer(path, None)
    for rows in pieces(path, Layout()):
        owner = namer.number(rows)
        starts = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
        prefix = "" if namer.are_named else f"{path.name}:"
        names = [prefix + namer.names(number, number + 1)[0] for number in owner[starts].tolist()]
        yield PartRows(rows.features, rows.grades, starts, names, min(1, rows.lowest), rows.highest + 1)
    namer.finish()


def graded_rows(path: Path) -> Iterator[PartRows]:
    """Of a CSV or Parquet table with a column for the query, one for the grade, and features in the others."""
    import pyarrow as pa

    try:
        with opened(path) as file:
            yield from _table_rows(path, file)
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"{path.name} is cut short or damaged: {' '.join(str(error).split())}") from None


def _table_rows(path: Path, file: Any) -> Iterator[PartRows]:
    import pyarrow.parquet
    from pyarrow import csv

    batches: Iterator[Any]
    if path.suffix in (".parquet", ".pq"):
        table = pyarrow.parquet.ParquetFile(path)
        names, batches = table.schema_arrow.names, table.iter_batches(batch_size=1 << 14)
    else:
        reader = csv.open_csv(file)
        names, batches = reader.schema.names, iter(reader)
    query, grade = (_column(path.name, names, usual) for usual in (QUERY_COLUMNS, GRADE_COLUMNS))
    features = [name for name in names if name not in (query, grade)]
    for batch in batches:
        if batch.num_rows:
            owner = [str(name) for name in batch.column(query).to_pylist()]
            starts = np.array([row for row in range(len(owner)) if row == 0 or owner[row] != owner[row - 1]])
            values = np.column_stack([_numbers(path.name, batch, name) for name in features])
            grades = _numbers(path.name, batch, grade)
            yield PartRows(values, grades, starts, [owner[start] for start in starts], 0, len(features))


def _column(where: str, names: Sequence[str], usual: Sequence[str]) -> str:
    found = next((name for name in usual if name in names), None)
    if found is None:
        needed = f"{where} needs a column {' or '.join(usual)}; it has {', '.join(names)}"
        raise InvalidInput(f"{needed} (a log of clicks is given with --log)")
    return found


def _numbers(where: str, batch: Any, name: str) -> Floats:
    column = batch.column(name)
    try:
        return finite_floats(column.to_numpy(zero_copy_only=False), 1, f"{where}, column {name!r}")
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{where}, column {name!r}: features and grades are finite numbers: {error}") from None

"""Tables as logs of lists: which rows are one page, and every cell in the type that it should have."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import spec_of
from rankloop.core.types import Floats, Ints
from rankloop.features.schema import Schema
from rankloop.logs import columns as roles_of
from rankloop.logs.columns import CLICK, ListColumns, Mask, are_amounts, click_number, number_of, plain_name
from rankloop.logs.list_log import MAX_POSITIONS, ListLog
from rankloop.logs.table_reader import Fault, Given, TableReader

LIST_KINDS = ("category", "id", "vector")  # kinds of which a value may be a list
WHOLE_NUMBER = "a whole number from 0"
AS_TEXT = ("category", "id", "words")  # kinds whose cells in a CSV file stay as they are written: 007 is not 7
NUMERIC_TYPES = ("int", "uint", "float", "double", "bool")  # beginnings of the names of Arrow's types


class RawColumns(Mapping[str, Sequence[Any]]):
    """The columns of an Arrow table as lists of plain values, None where a cell is empty; converted when asked for."""

    def __init__(self, table: Any, kinds: Mapping[str, str]) -> None:
        self.table, self.kinds = table, kinds
        self._lists: dict[str, list[Any]] = {}

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self._lists:
            if name not in self.table.column_names:
                raise KeyError(name)
            self._lists[name] = _plain_values(self.table[name].to_pylist(), self.kinds.get(name))
        return self._lists[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.table.column_names)

    def __len__(self) -> int:
        return len(self.table.column_names)

    def numbers(self, name: str, are_clicks: bool) -> Floats:
        """Return a column as numbers, nan where a cell is none; a click may also be yes or no."""
        column = self.table[name]
        if column.null_count == 0 and str(column.type).startswith(NUMERIC_TYPES):
            return np.asarray(column.to_numpy().astype(np.float64))
        return np.array([number_of(click_number(cell) if are_clicks else cell) for cell in self[name]], np.float64)


class BadRows:
    """The faults of a table: collected, then either refused together or, with `skip`, left out with their rows."""

    def __init__(self, source: TableReader, skip: bool = False) -> None:
        self.source, self.skip = source, skip
        self.faults: list[Fault] = []

    def add(self, bad: Mask, values: RawColumns, column: str, rule: str) -> None:
        """Collect the bad cells of a column; `rule` says what they must be."""
        for row in np.flatnonzero(bad).tolist():
            value = "" if values[column][row] is None else values[column][row]
            self.faults.append(Fault(row + 1, column, value, rule if value != "" else ""))

    def kept(self, n_rows: int) -> Mask:
        """Return true for the rows without a fault; raise for all faults unless they are to be left out."""
        if not self.skip:
            ragged = self.source.ragged  # in the file these rows count, too
            numbers = np.delete(np.arange(1, n_rows + len(ragged) + 1), [fault.row - 1 for fault in ragged]).tolist()
            faults = [*ragged, *(fault._replace(row=numbers[fault.row - 1]) for fault in self.faults)]
            more = "; --skip-bad-rows (in Python skip_bad_rows=True) leaves such rows out" if len(faults) > 1 else ""
            self.source.refuse(faults, more)
        kept = np.ones(n_rows, np.bool_)
        kept[[fault.row - 1 for fault in self.faults]] = False
        return kept

    @property
    def n_skipped(self) -> int:
        """The number of rows that were left out."""
        return len({fault.row for fault in self.faults}) + len(self.source.ragged)


def _raw_columns(source: TableReader, kinds: Mapping[str, str], bad_rows: BadRows) -> RawColumns:
    """Read a table by the kinds of its fields; cells that should be numbers and are not become missing, and faults."""
    # In a CSV file an empty cell is missing, among numbers also NA and NaN.
    numbers = [name for name, kind in kinds.items() if kind == "number"]
    texts = [name for name, kind in kinds.items() if kind in AS_TEXT]
    try:
        table = source.read_table(numbers, texts)
    except InvalidInput:
        faults = source.texts_in(numbers)
        if not faults:
            raise
        table = source.read_table((), [*texts, *{fault.column for fault in faults}])
        for name in {fault.column for fault in faults}:
            numbers_in_cells = (number_of(cell, source.decimal) for cell in table[name].to_pylist())
            values = [number if math.isfinite(number) else None for number in numbers_in_cells]
            table = table.set_column(table.column_names.index(name), name, [values])
        bad_rows.faults += [fault for fault in faults if not math.isfinite(number_of(fault.value))]
    roles_of.refuse_twice(table.column_names, source.name)
    if table.num_rows == 0:
        bad_rows.kept(0)
        raise InvalidInput(f"{source.name} has no rows")
    return RawColumns(table, kinds)


def read_list_table(
    table: Given,
    *,
    schema: Schema | None = None,
    columns: Mapping[str, str] | None = None,
    without: Sequence[str] = (),
    skip_bad_rows: bool = False,
) -> ListLog:
    """Read a table of shown items as a log of lists.

    Args:
      table: A file (CSV, JSON Lines, Parquet, Arrow) or a frame (pandas, polars, pyarrow).
      schema: As what its fields are read.
      columns: Which column is what, where the names do not tell.
      without: Columns that are left alone.
      skip_bad_rows: Leave out rows with a cell that is not what it should be, instead of refusing the table.
    """
    source, named = TableReader(table), columns or {}
    if len(names := source.names) < 2:
        raise InvalidInput(f"{source.name} has only the column {names[0]!r}; a log has a list, an item, a position …")
    roles = ListColumns.of(names, without, named, source.name)
    session = roles.session if roles.session not in (roles.click, roles.position) else ""
    kinds = dict.fromkeys(filter(None, (session, roles.list, roles.query, roles.item)), "words")  # texts as they are
    if schema is not None:
        kinds |= {name: spec_of(kind)["kind"] for name, kind in [*schema.features.items(), *schema.context.items()]}
    bad_rows = BadRows(source, skip_bad_rows)
    values = _raw_columns(source, kinds, bad_rows)
    numbers, notes = _checked_numbers(values, roles, bad_rows)
    if bad_rows.faults or source.ragged:
        kept = bad_rows.kept(values.table.num_rows)
        values, numbers = RawColumns(values.table.filter(kept), kinds), numbers[:, kept]
        if not values.table.num_rows:
            raise InvalidInput(f"{source.name} has no row without a fault")
    queries, items = (values[name] if name else None for name in (roles.query, roles.item))
    offsets, kept = _pages_of(values[roles.list], roles.list, numbers[0], queries, items, source.name)
    if not kept.all():
        values, numbers = RawColumns(values.table.filter(kept), kinds), numbers[:, kept]
    if bad_rows.n_skipped:
        notes.append(f"{bad_rows.n_skipped:,} bad rows were left out")
    if source.encoding != "utf-8":
        notes.append(f"{source.name} is not UTF-8, so it was read as {source.encoding}")
    if not roles.query:
        fault = "no column names what was searched for, so clicks on an item count alike for all pages"
        notes.append(f"{fault}; if the log has one, add --column query=NAME")
    log = replace(
        _list_log(source.name, roles, offsets, values, numbers),
        n_repeated=int((~kept).sum()),
        notes=tuple(notes),
        reread=partial(read_list_table, source, columns=named, without=without, skip_bad_rows=skip_bad_rows)
        if source.format == "csv" and schema is None
        else None,
    )
    if roles.time and roles.time not in named.values() and not log.same_in_lists(roles.time):
        return replace(log, columns=roles._replace(time="", others=(*roles.others, roles.time)))
    return log


def _checked_numbers(values: RawColumns, roles: ListColumns, bad_rows: BadRows) -> tuple[Floats, list[str]]:
    """Return position, click and weight by row with notes, and collect the cells that are not what they should be."""
    for name in filter(None, (roles.list if roles.list != roles.query else "", roles.item)):
        if values.table[name].null_count or "" in values[name] or None in values[name]:
            bad_rows.add(np.array([cell is None or cell == "" for cell in values[name]]), values, name, "")
    columns, notes = list[Floats](), list[str]()
    for name, right in ((roles.position, WHOLE_NUMBER), (roles.click, CLICK), (roles.weight, "a number from 0")):
        if not name:
            columns.append(np.ones(values.table.num_rows))
            continue
        numbers = values.numbers(name, right == CLICK)
        if right == CLICK:
            empty = np.array([cell is None or cell == "" for cell in values[name]])
            if empty.any() and not empty.all() and np.all(numbers[~empty] > 0):  # the column marks clicks only
                numbers[empty] = 0.0
                notes.append(f"{name} is never 0 or no, so its {empty.sum():,} empty cells count as no click")
        bad = ~np.isfinite(numbers)
        if right != CLICK:
            bad |= numbers < 0
        if right == WHOLE_NUMBER:
            bad |= numbers != np.floor(numbers)
        bad_rows.add(bad, values, name, f"; it must be {right}")
        columns.append(numbers)
    return np.array(columns), notes


def _list_log(name: str, roles: ListColumns, offsets: Ints, values: RawColumns, numbers: Floats) -> ListLog:
    stands, clicked = numbers[0], (numbers[1] > 0).astype(np.float64)
    if stands.max() - stands.min() >= MAX_POSITIONS:
        row = int(np.argmax(np.abs(stands)))
        far = f"{roles.position} is {values[roles.position][row]!r}; lists have at most {MAX_POSITIONS:,} places"
        raise InvalidInput(f"{name}, row {row + 1}: {far}")

    def texts(column: str) -> list[str | None]:
        """Return the first cell of every page."""
        cells = [values[column][row] if column else None for row in offsets[:-1].tolist()]
        return [None if cell is None or cell == "" else str(cell) for cell in cells]

    queries = values[roles.query] if roles.query else [None] * len(stands)
    return ListLog(
        name=name,
        columns=roles,
        offsets=offsets,
        position=(stands - stands.min()).astype(np.int64),  # the smallest number is the first position
        clicked=clicked,
        weight=clicked * numbers[2],
        query=["" if value is None else str(value) for value in queries],
        item=[item if isinstance(item, int) else str(item) for item in values[roles.item]] if roles.item else None,
        session=texts(roles.session),
        user=texts(roles.user),
        values=values,
        table=values.table,
    )


def _pages_of(
    lists: Sequence[Any],
    column: str,
    position: Floats,
    queries: Sequence[Any] | None = None,
    items: Sequence[Any] | None = None,
    where: str = "",
) -> tuple[Ints, Mask]:
    """Return the offsets of the pages of a table, and which rows are kept."""
    # A `column` named like a visit or a query does not tell pages apart when it comes again: a page ends where the
    # visit or the query changes, or where a position comes a second time. The rows of a page stand together; a row that
    # repeats the item and the position of its list is left out, where the column names single lists.
    session, of_query = (plain_name(column) in roles_of.USUAL_NAMES[group] for group in ("session", "query"))
    keys = list(zip(lists, queries)) if session and queries is not None else list(lists)
    kept, starts, positions = np.ones(len(keys), dtype=np.bool_), list[int](), position.tolist()
    if session or of_query:
        page_positions = set[float]()
        for row, key in enumerate(keys):
            if row == 0 or key != keys[row - 1] or positions[row] in page_positions:
                starts.append(row)
                page_positions.clear()
            page_positions.add(positions[row])
        # Lists whose rows stand apart come again, though no position of theirs does.
        n_pages, n_rows = Counter(keys[row] for row in starts), Counter(keys)
        n_positions = Counter(key for key, _ in set(zip(keys, positions)))
        scattered = any(n_pages[key] > 1 and n_rows[key] == n_positions[key] for key in n_pages)
    else:
        starts = [row for row, key in enumerate(keys) if row == 0 or key != keys[row - 1]]
        scattered = len({keys[row] for row in starts}) != len(starts)
        if queries is not None:  # a list ends where its query does
            starts = sorted({*starts, *(row for row in range(1, len(keys)) if queries[row] != queries[row - 1])})
        cells = set[Any]()
        for row, cell in enumerate(zip(keys, items, positions) if items is not None else ()):
            kept[row] = cell not in cells
            cells.add(cell)
    if scattered:
        raise InvalidInput(f"{where}: the rows of a list do not stand together; sort by {column!r}")
    numbers = np.concatenate([[0], np.cumsum(kept)])
    return numbers[[*starts, len(keys)]].astype(np.int64), kept


def _plain_values(cells: list[Any], kind: str | None) -> list[Any]:
    """Return None for empty cells; lists that a file has as text become lists again, where the kind has any."""
    values = [None if cell == "" or (isinstance(cell, float) and math.isnan(cell)) else cell for cell in cells]
    if kind in (None, "number") and are_amounts(values):
        return [None if value is None else number_of(value) for value in values]
    if kind in LIST_KINDS:
        return [as_list(value) for value in values]
    if kind is None and all(isinstance(as_list(value), list) for value in values if value is not None):
        return [as_list(value) for value in values]
    return values


def as_list(value: Any) -> Any:
    """Return the list that a text such as ["red", "blue"] writes down; anything else as it is."""
    if not isinstance(value, str) or not value.startswith("[") or not value.endswith("]"):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value

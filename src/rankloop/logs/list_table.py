"""Tables as logs of lists: which rows are one page, and every cell in the type that it should have."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import spec_of
from rankloop.core.types import Floats, Ints
from rankloop.features.schema import Schema
from rankloop.logs.columns import (
    CLICK,
    QUERY_NAMES,
    SESSION_NAMES,
    ListColumns,
    Mask,
    click_number,
    list_columns_of,
    number_of,
    numbers_in,
    plain_name,
    refuse_cell,
    refuse_twice,
)
from rankloop.logs.list_log import MAX_POSITIONS, ListLog
from rankloop.logs.table_reader import Fault, Given, TableReader, refuse_faults

LIST_KINDS = ("category", "id", "vector")  # kinds of which a value may be a list
WHOLE_NUMBER = "a whole number from 0"
AS_TEXT = ("category", "id", "words")  # kinds whose cells in a CSV file stay as they are written: 007 is not 7


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

    def numbers(self, name: str, where: str, right: str) -> Floats:
        """Return a column of finite numbers, or refuse the first row that holds none; `right` says what it must be."""
        column = self.table[name]
        if column.null_count == 0 and str(column.type).startswith(("int", "uint", "float", "double", "bool")):
            numbers: Floats = column.to_numpy().astype(np.float64)
            if np.isfinite(numbers).all():
                return numbers
        return numbers_in(self[name], name, where, right)

    def is_clean(self, name: str, right: str) -> bool:
        """Return true if every cell of a column of numbers is what it must be, at a glance."""
        column = self.table[name]
        if column.null_count or not str(column.type).startswith(("int", "uint", "float", "double", "bool")):
            return False
        numbers = column.to_numpy().astype(np.float64)
        are_whole = right != WHOLE_NUMBER or bool((numbers == np.floor(numbers)).all())
        return bool(np.isfinite(numbers).all()) and are_whole and (right == CLICK or bool((numbers >= 0).all()))

    def __contains__(self, name: object) -> bool:
        return name in self.table.column_names

    def __iter__(self) -> Iterator[str]:
        return iter(self.table.column_names)

    def __len__(self) -> int:
        return len(self.table.column_names)


def read_raw_columns(table: Given, kinds: Mapping[str, str] | None = None) -> RawColumns:
    """Read a table as lists of plain values by column.

    Args:
      table: A file or a frame.
      kinds: As what the cells of a CSV file are read: columns of a kind that is a text as texts, `number` as numbers,
        all others as they look. An empty cell is missing, among numbers also NA and NaN.

    Raises:
      InvalidInput: If the table has no rows, a name twice, or a text where a number should be.
    """
    kinds, source = kinds or {}, TableReader(table)
    bad_rows = BadRows(source)
    columns = _raw_columns(source, kinds, bad_rows)
    bad_rows.kept(columns.table.num_rows)
    return columns


class BadRows:
    """The faults of a table: collected, then either refused together or left out with their rows.

    Args:
      source: The table.
      skip: Leave out bad rows instead of refusing them.
    """

    def __init__(self, source: TableReader, skip: bool = False) -> None:
        self.source, self.skip = source, skip
        self.faults: list[Fault] = []

    def add(self, bad: Mask, cells: Sequence[Any], column: str, rule: str) -> None:
        """Collect the bad cells of a column."""
        for row in np.flatnonzero(bad).tolist():
            value = "" if cells[row] is None else cells[row]
            self.faults.append(Fault(row + 1, column, value, rule if value != "" else ""))

    def kept(self, n_rows: int) -> Mask:
        """Return true for the rows without a fault; raise for all faults unless they are to be left out."""
        faults = [*(self._in_file(fault) for fault in self.faults), *self.source.ragged]
        if not self.skip:
            more = "; --skip-bad-rows (in Python skip_bad_rows=True) leaves such rows out" if len(faults) > 1 else ""
            refuse_faults(faults, self.source.name, more)
        kept = np.ones(n_rows, np.bool_)
        kept[[fault.row - 1 for fault in self.faults]] = False
        return kept

    def _in_file(self, fault: Fault) -> Fault:
        """Return a fault with its row in the file, in which ragged rows count, too."""
        row = fault.row
        for ragged in sorted(other.row for other in self.source.ragged):
            row += ragged <= row
        return fault._replace(row=row)

    @property
    def n_skipped(self) -> int:
        """The number of rows that were left out."""
        return len({fault.row for fault in self.faults}) + len(self.source.ragged)


def _raw_columns(source: TableReader, kinds: Mapping[str, str], bad_rows: BadRows) -> RawColumns:
    numbers = [name for name, kind in kinds.items() if kind == "number"]
    texts = [name for name, kind in kinds.items() if kind in AS_TEXT]
    try:
        table = source.read_table(numbers, texts)
    except InvalidInput:
        faults = source.texts_in(numbers)
        if not faults:
            raise
        # Cells that are no numbers become missing; their rows are left out later.
        table = source.read_table((), [*texts, *{fault.column for fault in faults}])
        for name in {fault.column for fault in faults}:
            values = [_number_or_none(cell, source.decimal) for cell in table[name].to_pylist()]
            table = table.set_column(table.column_names.index(name), name, [values])
        bad_rows.faults += faults
    refuse_twice(table.column_names, source.name)
    if table.num_rows == 0:
        bad_rows.kept(0)
        raise InvalidInput(f"{source.name} has no rows")
    return RawColumns(table, kinds)


def _number_or_none(cell: Any, decimal: str) -> float | None:
    number = number_of(cell.replace(decimal, ".") if isinstance(cell, str) else cell)
    return number if math.isfinite(number) else None


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

    Raises:
      InvalidInput: If a needed column is missing, or a cell is not what it should be: the first 20, with their rows.
    """
    source, named = TableReader(table), columns or {}
    names = source.names
    if len(names) < 2:
        raise InvalidInput(f"{source.name} has only the column {names[0]!r}; a log has a list, an item, a position …")
    roles = list_columns_of(names, without, named, source.name)
    session = roles.session if roles.session not in (roles.click, roles.position) else ""
    kinds = dict.fromkeys(filter(None, (session, roles.list, roles.query, roles.item)), "words")  # texts as they are
    if schema is not None:
        fields = dict(schema.features) | dict(schema.context)
        kinds |= {name: spec_of(kind)["kind"] for name, kind in fields.items()}
    bad_rows = BadRows(source, skip_bad_rows)
    values = _raw_columns(source, kinds, bad_rows)
    _check_cells(values, roles, bad_rows)
    if bad_rows.faults or source.ragged:
        values = RawColumns(values.table.filter(bad_rows.kept(values.table.num_rows)), kinds)
        if not values.table.num_rows:
            raise InvalidInput(f"{source.name} has no row without a fault")
    stands = values.numbers(roles.position, source.name, WHOLE_NUMBER)
    queries, items = (values[name] if name else None for name in (roles.query, roles.item))
    pages = pages_of(values[roles.list], roles.list, stands, queries, items, source.name)
    if pages.n_repeated:
        values, stands = RawColumns(values.table.filter(pages.kept), kinds), stands[pages.kept]
    reread = (
        partial(_read_again, source, named, without, skip_bad_rows)
        if source.format == "csv" and schema is None
        else None
    )
    log = _list_log(source.name, roles, pages.offsets, values, stands, pages.n_repeated, reread)
    log = replace(log, notes=_notes(source, bad_rows))
    if roles.time and roles.time not in named.values() and not log.same_in_lists(roles.time):
        of_item = roles._replace(time="", others=(*roles.others, roles.time))
        return replace(log, columns=of_item)
    return log


def _notes(source: TableReader, bad_rows: BadRows) -> tuple[str, ...]:
    """Return sentences about what was guessed or left out."""
    notes = [f"{bad_rows.n_skipped:,} bad rows were left out"] if bad_rows.n_skipped else []
    if source.encoding != "utf-8":
        notes.append(f"{source.name} is not UTF-8, so it was read as {source.encoding}")
    return tuple(notes)


def _read_again(
    source: TableReader, named: Mapping[str, str], without: Sequence[str], skip: bool, schema: Schema | None
) -> ListLog:
    return read_list_table(source, schema=schema, columns=named, without=without, skip_bad_rows=skip)


def _check_cells(values: RawColumns, roles: ListColumns, bad_rows: BadRows) -> None:
    """Collect the cells of all roles that are not what they should be."""
    for name in filter(None, (roles.list if roles.list != roles.query else "", roles.item)):
        if values.table[name].null_count or "" in values[name] or None in values[name]:
            missing = np.array([cell is None or cell == "" for cell in values[name]])
            bad_rows.add(missing, values[name], name, "")
    rules = {roles.position: WHOLE_NUMBER, roles.click: CLICK, roles.weight: "a number from 0"}
    for name, right in rules.items():
        if not name or values.is_clean(name, right):
            continue
        cells = values[name]
        numbers = np.array([number_of(click_number(cell) if right == CLICK else cell) for cell in cells])
        bad = ~np.isfinite(numbers)
        if right == WHOLE_NUMBER:
            bad |= (numbers != np.floor(numbers)) | (numbers < 0)
        elif right != CLICK:
            bad |= numbers < 0
        bad_rows.add(bad, cells, name, f"; it must be {right}")


def _list_log(
    name: str, roles: ListColumns, offsets: Ints, values: RawColumns, stands: Floats, n_repeated: int, reread: Any
) -> ListLog:
    clicked = (values.numbers(roles.click, name, CLICK) > 0).astype(np.float64)
    weight = clicked * values.numbers(roles.weight, name, "a number from 0") if roles.weight else clicked
    starts, items = offsets[:-1].tolist(), values[roles.item] if roles.item else None
    return ListLog(
        name=name,
        columns=roles,
        offsets=offsets,
        position=_positions(stands, values, roles.position, name),
        clicked=clicked,
        weight=weight,
        query=["" if value is None else str(value) for value in values[roles.query]]
        if roles.query
        else [""] * len(stands),
        item=None if items is None else [item if isinstance(item, int) else str(item) for item in items],
        session=_texts_at(values, roles.session, starts),
        user=_texts_at(values, roles.user, starts),
        values=values,
        table=values.table,
        n_repeated=n_repeated,
        reread=reread,
    )


def _texts_at(values: RawColumns, name: str, rows: Sequence[int]) -> list[str | None]:
    cells = [values[name][row] if name else None for row in rows]
    return [None if cell is None or cell == "" else str(cell) for cell in cells]


def _positions(stands: Floats, values: RawColumns, name: str, where: str) -> Ints:
    """Return positions from 0, the smallest number being the first position."""
    if stands.max() - stands.min() >= MAX_POSITIONS:
        far = np.abs(stands)
        refuse_cell(far == far.max(), values[name], name, where, f"; lists have at most {MAX_POSITIONS:,} places")
    positions: Ints = (stands - stands.min()).astype(np.int64)
    return positions


class Pages(NamedTuple):
    """Offsets of lists among the rows that are kept; repeated rows are not."""

    offsets: Ints
    kept: Mask

    @property
    def n_repeated(self) -> int:
        """The number of rows that repeat another."""
        return int((~self.kept).sum())


def pages_of(
    lists: Sequence[Any],
    column: str,
    position: Floats,
    queries: Sequence[Any] | None = None,
    items: Sequence[Any] | None = None,
    where: str = "",
) -> Pages:
    """Return the pages of a table in the order of its rows.

    A `column` named like a visit or a query does not tell pages apart when it comes again: a page ends where the visit
    or the query changes, or where a position comes a second time. The rows of a page stand together; a row that repeats
    the item and the position of its list is left out, where the column names single lists.

    Args:
      lists: The list of each row.
      column: The name of that column.
      position: The position of each row.
      queries: The query of each row, or None.
      items: The item of each row, or None.
      where: The file, for messages.
    """
    session, of_query = plain_name(column) in SESSION_NAMES, plain_name(column) in QUERY_NAMES
    keys = list(zip(lists, queries)) if session and queries is not None else list(lists)
    if not session and not of_query:
        return _by_id(keys, column, position, queries, items, where)
    starts, page_positions, last = list[int](), set[float](), object()
    for row, (key, position_of_row) in enumerate(zip(keys, position.tolist())):
        if row == 0 or key != last or position_of_row in page_positions:
            starts.append(row)
            page_positions, last = set(), key
        page_positions.add(position_of_row)
    _refuse_scattered([keys[row] for row in starts], keys, position, column, where)
    return Pages(np.array([*starts, len(keys)], dtype=np.int64), np.ones(len(keys), dtype=np.bool_))


def _by_id(
    keys: Sequence[Any],
    column: str,
    position: Floats,
    queries: Sequence[Any] | None,
    items: Sequence[Any] | None,
    where: str,
) -> Pages:
    starts = [row for row in range(len(keys)) if row == 0 or keys[row] != keys[row - 1]]
    if len({keys[row] for row in starts}) != len(starts):
        raise InvalidInput(f"{where}: the rows of a list do not stand together; sort by {column!r}")
    if queries is not None:  # a list ends where its query does
        starts = sorted({*starts, *(row for row in range(1, len(keys)) if queries[row] != queries[row - 1])})
    kept = np.ones(len(keys), dtype=np.bool_)
    if items is not None:
        cells = set[Any]()
        for row, cell in enumerate(zip(keys, items, position.tolist())):
            kept[row] = cell not in cells
            cells.add(cell)
    numbers = np.concatenate([[0], np.cumsum(kept)])
    return Pages(numbers[[*starts, len(keys)]].astype(np.int64), kept)


def _refuse_scattered(heads: Sequence[Any], keys: Sequence[Any], position: Floats, column: str, where: str) -> None:
    """Refuse lists whose rows stand apart: they come again, though no position of theirs does."""
    counts = dict[Any, int]()
    for key in heads:
        counts[key] = counts.get(key, 0) + 1
    again = {key for key, count in counts.items() if count > 1}
    if not again:
        return
    stands, rows = dict[Any, set[float]](), dict[Any, int]()
    for key, at in zip(keys, position.tolist()):
        if key in again:
            stands.setdefault(key, set()).add(at)
            rows[key] = rows.get(key, 0) + 1
    if any(len(stands[key]) == rows[key] for key in again):
        raise InvalidInput(f"{where}: the rows of a list do not stand together; sort by {column!r}")


def _plain_values(cells: list[Any], kind: str | None) -> list[Any]:
    """Return None for empty cells; lists that a file has as text become lists again, where the kind has any."""
    values = [None if _is_empty(cell) else cell for cell in cells]
    if kind in LIST_KINDS:
        return [as_list(value) for value in values]
    if kind is None and all(isinstance(as_list(value), list) for value in values if value is not None):
        return [as_list(value) for value in values]
    return values


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell) or (isinstance(cell, float) and math.isnan(cell))


def as_list(value: Any) -> Any:
    """Return the list that a text such as ["red", "blue"] writes down; anything else as it is."""
    if not isinstance(value, str) or not value.startswith("[") or not value.endswith("]"):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value

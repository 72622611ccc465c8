"""Lists as they were shown, in values as people have them: from tables, to learn from and to judge by with a schema."""

import math
from collections.abc import Mapping, Sequence
from itertools import compress, pairwise
from typing import Any, NamedTuple

import numpy as np

from rankloop.adapter import Id
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import spec_of
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Arrival, Clicks, Decision, Feedback, Floats, Ints, Query, Relevances, Reward
from rankloop.features.encoder import Encoder
from rankloop.features.kinds import moment_of
from rankloop.features.schema import Schema
from rankloop.logs.columns import CLICK_WEIGHTS, RawColumns, named_like, raw_columns_of
from rankloop.logs.raw_columns import Values, read_raw_columns
from rankloop.logs.table import CLICK, click_number
from rankloop.logs.tables.pages import pages_of
from rankloop.logs.tables.source import Given, Source

MAX_POSITIONS = 10_000
NO_CONTEXT = np.empty(0)
OF_CONTEXT = "a context field is the same for all items of a list"
OF_LISTS = "a propensity is that of the whole list"


class AskedValues(NamedTuple):
    """What was asked, in values by name."""

    query_id: str
    ids: Sequence[Id]
    rows: Sequence[Mapping[str, Any]]
    context: Mapping[str, Any]
    at: float  # when, in seconds since 1970: dates become ages

    def query(self, encoder: Encoder) -> Query:
        """The query by the schema of the encoder: fields that it does not have are left aside."""
        rows = [_only(row, encoder.schema.features) for row in self.rows]
        context = _only(self.context, encoder.schema.context)
        return Query(self.query_id, encoder.rows(self.ids, rows, context, self.at), NO_CONTEXT)


def _only(values: Mapping[str, Any], fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values of these fields."""
    if values.keys() <= fields.keys():
        return values
    return {name: value for name, value in values.items() if name in fields}


class ShownList(NamedTuple):
    """Items in the order shown, each with its values by name, and what came of them."""

    query_id: str
    ids: list[Id]
    rows: list[Mapping[str, Any]]
    context: Mapping[str, Any]
    at: float  # when, in seconds since 1970: dates become ages
    position: Ints  # where each item stood, from 0
    clicked: Floats  # what its click weighs; 0: none came
    log_propensity: float = math.nan  # of the whole list; nan where unknown
    feedback: str = "clicks"  # its kind

    def query(self, encoder: Encoder) -> Query:
        """What was asked, by the schema of the encoder."""
        return AskedValues(*self[:5]).query(encoder)

    def arrival(self, encoder: Encoder) -> Arrival:
        """As a decision and its feedback, items being numbered in the order shown."""
        items = np.flatnonzero(self.clicked)
        feedback: Feedback = Clicks(items, self.clicked[items])
        if self.feedback == "reward":
            feedback = Reward(float(self.clicked.sum()))
        elif self.feedback == "relevances":
            feedback = Relevances(np.arange(len(self.ids)), self.clicked)
        return Arrival(self.query(encoder), Decision(np.arange(len(self.ids)), self.log_propensity, ()), feedback)


class RawTable(NamedTuple):
    """One row per shown item; list l owns the rows from offsets[l] to offsets[l + 1]."""

    name: str
    values: Values
    roles: RawColumns
    offsets: Ints
    n_repeated: int = 0  # rows that say the same as another one, and were left out

    @property
    def clicked(self) -> Floats:
        """1 or 0 for each row."""
        return (_numbers(self, self.roles.click, CLICK) > 0).astype(np.float64)

    @property
    def weights(self) -> Floats:
        """What each click counts, 0 where there was none: 1 unless a column says so."""
        name = named_like(list(self.values), CLICK_WEIGHTS)
        if not name:
            return self.clicked
        weights = _numbers(self, name, "a number from 0")
        _refuse(self, name, weights < 0, "; it must be a number from 0")
        return self.clicked * weights

    def same_in_lists(self, name: str) -> bool:
        """Whether a column tells of whoever asks: all rows of a list have one value."""
        values, borders = self.values[name], pairwise(self.offsets.tolist())
        return all(values[row] == values[start] for start, end in borders for row in range(start + 1, end))


def read_raw_table(
    path: Given, schema: Schema | None = None, columns: Mapping[str, str] | None = None, without: Sequence[str] = ()
) -> RawTable:
    """A table of shown lists; `schema` says as what its columns are read, `columns` which of them is what."""
    source = Source(path)
    roles = raw_columns_of(source.names, without, columns or {}, source.name)
    kinds = dict.fromkeys(filter(None, (roles.list, roles.query, roles.item)), "category")
    if schema is not None:
        fields = dict(schema.features) | dict(schema.context)
        kinds |= {name: spec_of(kind)["kind"] for name, kind in fields.items()}
    values = read_raw_columns(source, kinds)
    whole = RawTable(source.name, values, roles, np.array([0, len(values[roles.list])], dtype=np.int64))
    queries, items = (values[name] if name else None for name in (roles.query, roles.item))
    stands = _numbers(whole, roles.position, "a whole number")
    for name in filter(None, (roles.list if roles.list != roles.query else "", roles.item)):
        _refuse_missing(whole, name)
    pages = pages_of(values[roles.list], roles.list, stands, queries, items, source.name)
    if pages.n_repeated:
        values = {name: list(compress(column, pages.kept.tolist())) for name, column in values.items()}
    table = RawTable(source.name, values, roles, pages.offsets, pages.n_repeated)
    if roles.time and roles.time not in (columns or {}).values() and not table.same_in_lists(roles.time):
        return table._replace(roles=roles._replace(time="", others=(*roles.others, roles.time)))  # of an item
    return table


def lists_of(table: RawTable, schema: Schema) -> list[ShownList]:
    """The lists of a table in the fields of a schema; an id that is no column is that of the item."""
    features, context = _columns(table, schema), [name for name in schema.context if name in table.values]
    _check_fields(table, schema)
    position, clicked, at = _positions(table), table.weights, _times(table, schema)
    log_propensity = _log_propensities(table)
    found = []
    for number, (start, end) in enumerate(pairwise(table.offsets.tolist())):
        order = start + np.argsort(position[start:end], kind="stable")
        rows = order.tolist()
        found.append(
            ShownList(
                _query_id(table, start),
                _ids(table, rows),
                [{name: values[row] for name, values in features.items() if values[row] is not None} for row in rows],
                {name: value for name in context if (value := _of_list(table, name, start, end)) is not None},
                at[start],
                position[order],
                clicked[order],
                log_propensity[number],
            )
        )
    return found


def _columns(table: RawTable, schema: Schema) -> dict[str, list[Any]]:
    return {name: table.values[name] for name in schema.features if name in table.values}


def _check_fields(table: RawTable, schema: Schema) -> None:
    """Every field is a column, but an id that may be the item's own."""
    for name, kind in [*schema.features.items(), *schema.context.items()]:
        if name in table.values or (kind.memory and name in schema.features and table.roles.item):
            continue
        raise InvalidInput(
            f"{table.name} has no column {name!r}, which is a field of the schema{nearest(name, table.values)}"
        )


def _query_id(table: RawTable, row: int) -> str:
    value = table.values[table.roles.query][row] if table.roles.query else None
    return "" if value is None else str(value)


def _ids(table: RawTable, rows: Sequence[int]) -> list[Id]:
    if not table.roles.item:
        return [f"row {row + 1}" for row in rows]
    items = table.values[table.roles.item]
    return [items[row] if isinstance(items[row], int) else str(items[row]) for row in rows]


def _of_list(table: RawTable, name: str, start: int, end: int, why: str = OF_CONTEXT) -> Any:
    """The value that all rows of a list have."""
    values = table.values[name]
    other = next((row for row in range(start + 1, end) if values[row] != values[start]), None)
    if other is not None:
        raise InvalidInput(
            f"{table.name}, row {other + 1}: {name} is {values[other]!r:.60}, and {values[start]!r:.60} before in the "
            f"same list: {why}"
        )
    return values[start]


def _positions(table: RawTable) -> Ints:
    """Where each item stood, the smallest number being the first position."""
    name = table.roles.position
    values = _numbers(table, name, "a whole number")
    _refuse(table, name, values != np.floor(values), "; it must be a whole number")
    if values.max() - values.min() >= MAX_POSITIONS:
        far = np.abs(values)
        _refuse(table, name, far == far.max(), f"; lists have at most {MAX_POSITIONS:,} places")
    positions: Ints = (values - values.min()).astype(np.int64)
    return positions


def _times(table: RawTable, schema: Schema) -> list[float]:
    """When each row was shown; 0 where nothing depends on it."""
    name, rows = table.roles.time, int(table.offsets[-1])
    dates = [field for field, kind in [*schema.features.items(), *schema.context.items()] if kind.stamped]
    if not dates:
        return [0.0] * rows
    if not name or name in dates:
        raise InvalidInput(
            f"{table.name}: the age of the date {dates[0]!r} depends on when a list was shown: name the column that "
            'tells it, --column time=NAME (in Python columns={"time": "NAME"})'
        )
    return [_moment(table, name, row) for row in range(rows)]


def _moment(table: RawTable, name: str, row: int) -> float:
    try:
        return moment_of(table.values[name][row])
    except InvalidInput as error:
        raise InvalidInput(f"{table.name}, row {row + 1}: {name} {error}") from None


def _log_propensities(table: RawTable) -> list[float]:
    """Of each list; nan where the table has none."""
    name = table.roles.propensity
    if not name:
        return [math.nan] * (len(table.offsets) - 1)
    known = []
    for start, end in pairwise(table.offsets.tolist()):
        value = _of_list(table, name, start, end, OF_LISTS)
        if value is not None and not (isinstance(value, int | float) and 0 < value <= 1):
            raise InvalidInput(f"{table.name}, row {start + 1}: {name} is {value!r:.60}; it must be a probability")
        known.append(math.nan if value is None else math.log(value))
    return known


def _numbers(table: RawTable, name: str, right: str) -> Floats:
    """A column of finite numbers, or the first row that holds none."""
    column = table.values[name]
    _refuse_missing(table, name)
    values = np.array([_number(click_number(value) if right == CLICK else value) for value in column])
    _refuse(table, name, ~np.isfinite(values), f"; it must be {right}")
    return values


def _refuse_missing(table: RawTable, name: str) -> None:
    missing = next((row for row, value in enumerate(table.values[name]) if value is None), None)
    if missing is not None:
        raise InvalidInput(f"{table.name}, row {missing + 1}: {name} is missing")


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _refuse(table: RawTable, name: str, bad: Any, said: str) -> None:
    for row in np.flatnonzero(bad)[:1].tolist():
        raise InvalidInput(f"{table.name}, row {row + 1}: {name} is {table.values[name][row]!r}{said}")

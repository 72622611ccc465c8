"""Which column of a table of shown lists is what, and its numbers, checked by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.ads.context_columns import Numbers
from rankloop.core.errors import InvalidInput
from rankloop.core.specs import nearest
from rankloop.core.types import Floats, Ints
from rankloop.data.lines import opened
from rankloop.evaluation.csv_pieces import csv_header
from rankloop.evaluation.log_columns import GUESSES, NOT_CONTEXT, TAKEN, plain, refuse_twice

QUERIES = ("query", "query_id", "qid")
LISTS = ("impression", "list", "session", *QUERIES)
ITEMS = ("item", "item_id", "doc", "document", "id")
ROLES = {"list": LISTS, "place": GUESSES["position"], "click": GUESSES["reward"]}
MOST_PLACES = 10_000

Table = Mapping[str, Any]  # arrays by column


class ClickColumns(NamedTuple):
    """The names of the columns, by what they are."""

    list: str
    place: str
    click: str
    item: str | None
    query: str
    features: tuple[str, ...]
    ids: tuple[str, ...]  # no features, since they look like ids
    set_aside: tuple[str, ...]  # nor these: other names of the click, the item …


def read_columns(path: Path) -> dict[str, Any]:
    """The whole table."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        if path.suffix == ".parquet":
            table = parquet.read_table(path)
        else:
            with opened(path) as file:
                csv_header(file, path.name)
            with opened(path) as file:
                table = csv.read_csv(file)
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"{path.name}: {' '.join(str(error).split())}") from None
    refuse_twice(table.column_names, path.name)
    if table.num_rows == 0:
        raise InvalidInput(f"{path.name} has no rows")
    return {name: table[name].to_numpy() for name in table.column_names}


def click_columns(table: Table, without: Sequence[str], where: str) -> ClickColumns:
    """As their names suggest, those in `without` left alone; of two names for one thing the first in `ROLES`."""
    for name in without:
        if name not in table:
            raise InvalidInput(f"{where} has no column {name!r}{nearest(name, list(table))}")
    known = {name: plain(name) for name in table if name not in without}
    roles = {role: _named(known, guesses, where, role) for role, guesses in ROLES.items()}
    item = next((name for name in known if known[name] in ITEMS), None)
    query = next((name for name in known if known[name] in QUERIES), roles["list"])
    rest = [name for name in known if name not in (*roles.values(), item, query) and known[name] not in NOT_CONTEXT]
    set_aside = tuple(name for name in rest if known[name] in {*TAKEN, *LISTS, *ITEMS})
    given = [name for name in rest if name not in set_aside]
    ids = tuple(name for name in given if _is_id(name, table[name], where))
    features = tuple(name for name in given if name not in ids)
    if not features:
        raise InvalidInput(f"{where} has no column of features; it has {', '.join(table)}")
    return ClickColumns(**roles, item=item, query=query, features=features, ids=ids, set_aside=set_aside)


def places_in(table: Table, name: str, where: str) -> Ints:
    """Where each item stood, the smallest number being the first place."""
    values = numbers_in(table, name, where, "a whole number")
    _refuse(values != np.floor(values), table, name, where, "; it must be a whole number")
    if values.max() - values.min() >= MOST_PLACES:
        far = np.abs(values)
        _refuse(far == far.max(), table, name, where, f"; lists have at most {MOST_PLACES:,} places")
    places = values.astype(np.int64)
    return places - int(places.min())


def numbers_in(table: Table, name: str, where: str, right: str = "a number") -> Floats:
    """A column of finite numbers, or the first row that holds none."""
    column = table[name]
    if column.dtype.kind in "biuf":
        values: Floats = column.astype(np.float64)
        missing = np.isnan(values)
    else:
        values = np.array([_number(cell) for cell in column.tolist()])
        missing = np.array([cell is None for cell in column.tolist()])
    if missing.any():
        raise InvalidInput(f"{where}, row {int(np.argmax(missing)) + 1}: {name} is missing")
    _refuse(~np.isfinite(values), table, name, where, f"; it must be {right}")
    return values


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _refuse(bad: np.ndarray[Any, np.dtype[np.bool_]], table: Table, name: str, where: str, said: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidInput(f"{where}, row {row + 1}: {name} is {table[name].tolist()[row]!r}{said}")


def _named(known: Mapping[str, str], guesses: Sequence[str], where: str, role: str) -> str:
    found = next((name for guess in guesses for name in known if known[name] == guess), None)
    if found is None:
        raise InvalidInput(f"{where} has no column for the {role} ({', '.join(guesses)}); it has {', '.join(known)}")
    return found


def _is_id(name: str, column: Any, where: str) -> bool:
    if column.dtype.kind not in "biuf":
        raise InvalidInput(
            f"{where}: {name} is not a column of numbers, and features are: write a 0/1 column for each of its "
            f'values, or leave it out (--without {name}, in Python without=["{name}"])'
        )
    seen = Numbers(name)
    seen.add(np.asarray(column, dtype=np.float64))
    return seen.is_id

"""Which column of a table of shown lists is what, and its numbers, checked by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import numpy as np

from rankloop.ads.context_columns import Numbers
from rankloop.core.errors import InvalidInput
from rankloop.core.specs import nearest
from rankloop.core.types import Floats, Ints
from rankloop.data.lines import opened
from rankloop.evaluation.csv_pieces import csv_header
from rankloop.evaluation.log_columns import GUESSES, NOT_CONTEXT, TAKEN, guess, plain, refuse_twice
from rankloop.evaluation.times import are_times

QUERIES = ("query", "query_id", "qid")
LISTS = ("impression", "list", "session", *QUERIES)
ITEMS = ("item", "item_id", "doc", "document", "id")
ROLES = {
    "list": LISTS,
    "query": QUERIES,
    "item": ITEMS,
    "position": GUESSES["position"],
    "click": GUESSES["reward"],
}
NEEDED = ("list", "position", "click")
MOST_PLACES = 10_000
CLICK = "a number (0 or 1)"

Table = Mapping[str, Any]  # arrays by column


class ClickColumns(NamedTuple):
    """The names of the columns, by what they are; an empty name: the table has none."""

    list: str
    query: str
    item: str
    position: str
    click: str
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


def click_columns(table: Table, without: Sequence[str], named: Mapping[str, str], where: str) -> ClickColumns:
    """As `named`, else as their names suggest, those in `without` left alone; of two names the first in `ROLES`."""
    unknown = next((role for role in named if role not in ROLES), None)
    if unknown is not None:
        raise InvalidInput(f"a column is one of {', '.join(ROLES)}, not {unknown!r}")
    for name in (*without, *named.values()):
        if name not in table:
            raise InvalidInput(f"{where} has no column {name!r}{nearest(name, list(table))}")
    known = [name for name in table if name not in without]
    free = [name for name in known if name not in named.values()]
    roles = {role: named.get(role) or guess(free, usual) for role, usual in ROLES.items()}
    for role in NEEDED:
        if not roles[role]:
            raise InvalidInput(
                f"{where} has no column for the {role} ({', '.join(ROLES[role])}); it has {', '.join(known)}: add "
                f'--column {role}=NAME (in Python columns={{"{role}": "NAME"}})'
            )
    rest = [name for name in free if plain(name) and name not in roles.values()]
    set_aside = tuple(name for name in rest if plain(name) in {*TAKEN, *LISTS, *ITEMS, *NOT_CONTEXT})
    given = [name for name in rest if name not in set_aside]
    _refuse_texts([name for name in given if table[name].dtype.kind not in "biuf"], table, where)
    ids = tuple(name for name in given if _is_id(name, table[name]))
    features = tuple(name for name in given if name not in ids)
    if not features:
        raise InvalidInput(f"{where} has no column of features; it has {', '.join(table)}")
    return ClickColumns(**roles, features=features, ids=ids, set_aside=set_aside)


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


def _refuse_texts(texts: Sequence[str], table: Table, where: str) -> None:
    """Name every column that holds no numbers, with the options that leave them out."""
    if not texts:
        return
    are = "is not a column of numbers" if len(texts) == 1 else "are not columns of numbers"
    times = [name for name in texts if table[name].dtype.kind == "M" or are_times(table[name].tolist())]
    ages = f", of a time ({', '.join(times)}) an age or an hour" if times else ""
    options = " ".join(f"--without {quote(name)}" for name in texts)
    listed = ", ".join(f'"{name}"' for name in texts)
    raise InvalidInput(
        f"{where}: {', '.join(texts)} {are}, and features are: write a 0/1 column for each value of a text{ages}, or "
        f"leave out what is no feature: {options} (in Python without=[{listed}])"
    )


def _is_id(name: str, column: Any) -> bool:
    seen = Numbers(name)
    seen.add(np.asarray(column, dtype=np.float64))
    return seen.is_id

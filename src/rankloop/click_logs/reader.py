"""Logs of shown lists and their clicks as arrays, for learning from yesterday's clicks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import numpy as np

from rankloop.click_logs.ips_weights import weighted_relevance
from rankloop.click_logs.position_bias import Bias, Impressions, any_moved, bias_by_em
from rankloop.core.errors import InvalidInput
from rankloop.core.specs import nearest
from rankloop.core.types import Floats, Ints, finite_floats
from rankloop.data.compressed import opened
from rankloop.logs.columns import GUESSES, NOT_CONTEXT, TAKEN, guess, plain, refuse_twice
from rankloop.logs.context_columns import Numbers
from rankloop.logs.impressions import holds_impressions, read_impressions
from rankloop.logs.table import are_times, csv_header


class ClickLog(NamedTuple):
    """One row per shown item; list q owns the rows from offsets[q] to offsets[q + 1], in the order of the log."""

    features: Floats
    offsets: Ints
    position: Ints  # where the item stood, from 0
    clicked: Floats  # 1 or 0
    pair: Ints  # the number of its (query, item) pair; of its item, where there are no queries
    query: Ints  # the number of its query
    feature_names: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # columns that look like ids
    set_aside: tuple[str, ...] = ()  # columns named like a time, or like the click, the item … that another one is

    @property
    def described(self) -> str:
        """One line: which columns are features, and which are not."""
        unused = f"; left out as ids: {', '.join(self.left_out)}" if self.left_out else ""
        if self.set_aside:
            unused += f"; not features, by their names: {', '.join(self.set_aside)}"
        return f"features: {', '.join(self.feature_names) or self.features.shape[1]}{unused}"

    def impressions(self) -> Impressions:
        """For the estimators of position bias."""
        return Impressions(self.pair, self.position, self.clicked)

    def position_bias(self) -> Bias:
        """By expectation maximisation; refused where no item stands at two places, since nothing tells it then."""
        shown = self.impressions()
        if self.position.max() > 0 and not any_moved(shown):
            raise InvalidInput(
                "no item stands at two places (for the same query, where there are queries), so the position bias "
                "cannot be told: give --position-bias 1,0.5,… (1,1,…: all places alike), or name the column that tells "
                "which item is which, --column item=NAME"
            )
        return bias_by_em(shown)

    def relevance(self, examined: Floats, clip: float = 10.0) -> Floats:
        """The weight of each click, 0 elsewhere; no click weighs more than `clip`."""
        if not clip > 0.0:
            raise InvalidInput(f"clip = {clip} must be a weight above 0")
        return weighted_relevance(self.offsets, self.position, self.clicked, examined, clip)


class MergedLists(NamedTuple):
    """One list per query, of all items that were ever shown for it."""

    features: Floats
    offsets: Ints
    weights: Floats  # what an item's clicks weighed, by the times that it was shown


def merged(log: ClickLog, weights: Floats) -> MergedLists:
    """All impressions of a query as one list, in which an item has its mean weight: an estimate of its relevance.

    A measure that is normalised inside a list needs this. A list with one click has the same nDCG loss whatever that
    click weighs, so over single impressions the weights would cancel. Items whose features change from one impression
    to the next cannot be merged: refused.
    """
    keys = log.query * (int(log.pair.max()) + 1) + log.pair  # sorted, they stand by query
    _, first, row_pair = np.unique(keys, return_index=True, return_inverse=True)
    changed = np.flatnonzero((log.features != log.features[first][row_pair]).any(axis=1))
    if len(changed):
        raise InvalidInput(
            f"row {changed[0] + 1}: the features of an item differ from those it had before in the same query, so its "
            "impressions cannot be merged, which a normalised measure needs; use the default loss"
        )
    mean = np.bincount(row_pair, weights) / np.bincount(row_pair)
    sizes = np.unique(log.query[first], return_counts=True)[1]
    return MergedLists(log.features[first], np.concatenate(([0], np.cumsum(sizes))), mean)


def read_click_log(path: Path, without: Sequence[str] = (), columns: Mapping[str, str] | None = None) -> ClickLog:
    """A table with columns for the list, the place, the click and the features, or an export of impressions.

    Recognised names: impression or list, whose rows stand together, else query or qid; position or place, the smallest
    number being the first; click; query and item, by which the same pair is known at another place (without a query,
    the item alone). `columns` says which column is what where the names do not: list, query, item, position, click.
    Every other column is a feature, except those named in `without`, times, whole numbers that look like ids, and other
    usual names of the click, the item, the propensity … (two columns for the click: the first usual name is taken).
    """
    return _of_impressions(path) if holds_impressions(path) else _of_table(path, without, columns or {})


def _of_impressions(path: Path) -> ClickLog:
    pairs: dict[tuple[str, str], int] = {}
    queries: dict[str, int] = {}
    features, position, clicked, pair, query, sizes = [], [], [], [], [], []
    for shown in read_impressions(path):
        features.append(shown.features)
        sizes.append(len(shown.ranking))
        query += [queries.setdefault(shown.query_id or f"impression {len(sizes)}", len(queries))] * sizes[-1]
        for row, item in enumerate(shown.ranking):
            position.append(row)
            clicked.append(float(shown.values.get(item, 0.0) > 0.0))
            pair.append(pairs.setdefault((shown.query_id, item), len(pairs)))
    if not sizes:
        raise InvalidInput(f"{path.name} has no impressions")
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    positions, clicks = np.array(position), np.array(clicked)
    return ClickLog(np.concatenate(features), offsets, positions, clicks, np.array(pair), np.array(query))


def _of_table(path: Path, without: Sequence[str], columns: Mapping[str, str]) -> ClickLog:
    table = read_columns(path)
    names = click_columns(table, without, columns, path.name)
    lists = np.asarray(table[names.list]).astype(str)
    starts = np.flatnonzero(np.append(True, lists[1:] != lists[:-1]))
    if len(np.unique(lists)) != len(starts):
        raise InvalidInput(f"{path.name}: the rows of a list do not stand together; sort by {names.list!r}")
    features = finite_floats(np.column_stack([table[name] for name in names.features]), 2, f"{path.name}: features")
    position = positions_in(table, names.position, path.name)
    clicked = (numbers_in(table, names.click, path.name, CLICK) > 0).astype(np.float64)
    query = np.asarray(table[names.query]).astype(str) if names.query else lists
    pair = np.arange(len(lists))
    if names.item:
        pair = _numbered(query if names.query else np.zeros(len(lists)), table[names.item])
    offsets = np.append(starts, len(lists)).astype(np.int64)
    queries = np.unique(query, return_inverse=True)[1]
    shown = features, offsets, position, clicked, pair.astype(np.int64), queries
    return ClickLog(*shown, names.features, names.ids, names.set_aside)


def _numbered(queries: Any, items: Any) -> Ints:
    """The number of each (query, item) pair, in order of first appearance."""
    numbers: dict[tuple[str, str], int] = {}
    keys = zip(np.asarray(queries).astype(str).tolist(), np.asarray(items).astype(str).tolist())
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


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
MAX_POSITIONS = 10_000
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


def positions_in(table: Table, name: str, where: str) -> Ints:
    """Where each item stood, the smallest number being the first place."""
    values = numbers_in(table, name, where, "a whole number")
    _refuse(values != np.floor(values), table, name, where, "; it must be a whole number")
    if values.max() - values.min() >= MAX_POSITIONS:
        far = np.abs(values)
        _refuse(far == far.max(), table, name, where, f"; lists have at most {MAX_POSITIONS:,} places")
    positions = values.astype(np.int64)
    return positions - int(positions.min())


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

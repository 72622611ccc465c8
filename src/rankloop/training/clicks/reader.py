"""Logs of shown lists and their clicks as arrays, for learning from yesterday's clicks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import numpy as np

from rankloop.click_models.pbm import position_bias
from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Floats, Ints
from rankloop.logs.columns import CLICK_WEIGHTS, ListColumns, list_columns_of, named_like
from rankloop.logs.context_columns import Numbers
from rankloop.logs.impressions import exported_names, holds_impressions, read_impressions
from rankloop.logs.outcomes import outcomes_of, outcomes_said
from rankloop.logs.table import CLICK, are_times, click_number, read_columns
from rankloop.logs.tables.pages import pages_of
from rankloop.logs.tables.source import Given, Source
from rankloop.training.clicks.ips_weights import weighted_relevance

MAX_POSITIONS = 10_000
UNTOLD_BIAS = (
    "no item stands at two places (for the same query, where there are queries), so the position bias cannot be told: "
    "give --position-bias 1,0.5,… (1,1,…: all places alike), or name the column that tells which item is which, "
    "--column item=NAME"
)
Table = Mapping[str, Any]  # arrays by column
EMPTY = ", and features are numbers: fill it in, leave the column out (--without), or use a schema, which knows gaps"


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
    outcomes: tuple[tuple[str, str], ...] = ()  # columns that are known only after the click, and why we think so
    query_ids: tuple[str, ...] = ()  # the names of the queries, by their number
    weight: Floats | None = None  # what a click on each row counts; None: 1

    @property
    def described(self) -> str:
        """One line: which columns are features, and which are not."""
        unused = f"; left out as ids: {', '.join(self.left_out)}" if self.left_out else ""
        if self.set_aside:
            unused += f"; not features, by their names: {', '.join(self.set_aside)}"
        if self.outcomes:
            unused += f"; outcomes, so not features: {outcomes_said(dict(self.outcomes))}"
        return f"features: {', '.join(self.feature_names) or self.features.shape[1]}{unused}"

    def position_bias(self) -> Floats:
        """By expectation maximisation; refused where no item stands at two positions, since nothing tells it then."""
        examined = position_bias(self.pair, self.position, self.clicked)
        if examined is None:
            raise InvalidInput(UNTOLD_BIAS)
        return examined

    def relevance(self, examined: Floats, clip: float = 10.0) -> Floats:
        """The weight of each click, 0 elsewhere; no click weighs more than `clip`."""
        if not clip > 0.0:
            raise InvalidInput(f"clip = {clip} must be a weight above 0")
        relevance = weighted_relevance(self.offsets, self.position, self.clicked, examined, clip)
        return relevance if self.weight is None else relevance * self.weight


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


def read_click_log(
    path: Given,
    without: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    asked_for: Sequence[str] = (),
) -> ClickLog:
    """A table with columns for the list, the position, the click and the features, or an export of impressions.

    The table is a file (CSV, JSON Lines, Parquet, Arrow) or a frame (pandas, polars, pyarrow). Recognised names:
    impression or list, whose rows stand together, else session or visit, else query or qid, whose pages are told apart
    by positions that come again; position or place, the smallest number being the first; click; query and item, by
    which the same pair is known at another position (without a query, the item alone). `columns` says which column is
    what where the names do not: list, query, item, position, click.
    Every other column is a feature, except those named in `without`, times, whole numbers that look like ids, outcomes
    such as a purchase (see `outcomes_of`), and other usual names of the click, the item, the propensity … (two columns
    for the click: the first usual name is taken). A column in `asked_for` is a feature whatever it looks like.
    """
    file = Source(path).path
    if file is not None and holds_impressions(file):
        return _of_impressions(file)
    return _of_table(path, without, columns or {}, asked_for)


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
    shown_rows = np.concatenate(features), offsets, positions, clicks, np.array(pair), np.array(query)
    return ClickLog(*shown_rows, exported_names(path), query_ids=tuple(queries))


def _of_table(path: Given, without: Sequence[str], columns: Mapping[str, str], asked_for: Sequence[str]) -> ClickLog:
    source = Source(path)
    where, names = source.name, list_columns_of(source.names, without, columns, source.name)
    columns_read = read_columns(source, [name for name in (names.list, names.query, names.item) if name])
    table, offsets = _in_pages(columns_read, names, where)
    clicked = (_numbers(table, names.click, where, CLICK) > 0).astype(np.float64)
    features, outcomes, set_aside = _features(table, names, asked_for, clicked, where)
    _refuse_texts([name for name in features if table[name].dtype.kind not in "biuf"], table, where)
    ids = tuple(name for name in features if _is_id(name, table[name]) and name not in asked_for)
    used = tuple(name for name in features if name not in ids)
    if not used:
        raise InvalidInput(f"{where} has no column of features; it has {', '.join(table)}")
    lists = np.asarray(table[names.list]).astype(str)
    numbers = [_numbers(table, name, where, "a finite number", EMPTY) for name in used]
    position = _positions(table, names.position, where)
    query = np.asarray(table[names.query]).astype(str) if names.query else lists
    pair = np.arange(len(lists))
    if names.item:
        pair = _numbered(query if names.query else np.zeros(len(lists)), table[names.item])
    query_ids, queries = np.unique(query, return_inverse=True)
    shown = np.ascontiguousarray(np.column_stack(numbers)), offsets, position, clicked, pair.astype(np.int64), queries
    weighs = named_like(list(table), CLICK_WEIGHTS)
    weight = _numbers(table, weighs, where, "a number from 0") if weighs else None
    if weight is not None:
        _refuse(weight < 0, table, weighs, where, "; it must be a number from 0")
    known = tuple(outcomes.items()), tuple(query_ids.tolist())
    return ClickLog(*shown, used, ids, set_aside, *known, weight)


def _in_pages(table: Table, names: ListColumns, where: str) -> tuple[Table, Ints]:
    """The table without rows that repeat others, and where its lists begin."""
    stands = _numbers(table, names.position, where, "a whole number")
    for name in filter(None, (names.list if names.list != names.query else "", names.item)):
        _refuse_missing(np.array([cell is None or cell == "" for cell in table[name].tolist()]), name, where)
    queries, items = (table[name].tolist() if name else None for name in (names.query, names.item))
    pages = pages_of(table[names.list].tolist(), names.list, stands, queries, items, where)
    if not pages.n_repeated:
        return table, pages.offsets
    return {name: column[pages.kept] for name, column in table.items()}, pages.offsets


def _features(
    table: Table, names: ListColumns, asked_for: Sequence[str], clicked: Floats, where: str
) -> tuple[list[str], dict[str, str], tuple[str, ...]]:
    """The columns to learn from; those that are outcomes, with what gave them away; those set aside by their names."""
    unknown = next((name for name in asked_for if name not in table), None)
    if unknown is not None:
        raise InvalidInput(f"{where} has no column {unknown!r}{nearest(unknown, table)}")
    outcomes = outcomes_of({name: table[name].tolist() for name in names.features if name not in asked_for}, clicked)
    wanted = list(dict.fromkeys([*names.features, *asked_for]))
    set_aside = tuple(name for name in names.left_out if name not in asked_for)
    return [name for name in wanted if name not in outcomes], outcomes, set_aside


def _numbered(queries: Any, items: Any) -> Ints:
    """The number of each (query, item) pair, in order of first appearance."""
    numbers: dict[tuple[str, str], int] = {}
    keys = zip(np.asarray(queries).astype(str).tolist(), np.asarray(items).astype(str).tolist())
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _positions(table: Table, name: str, where: str) -> Ints:
    """Where each item stood, the smallest number being the first position."""
    values = _numbers(table, name, where, "a whole number")
    _refuse(values != np.floor(values), table, name, where, "; it must be a whole number")
    if values.max() - values.min() >= MAX_POSITIONS:
        far = np.abs(values)
        _refuse(far == far.max(), table, name, where, f"; lists have at most {MAX_POSITIONS:,} places")
    positions = values.astype(np.int64)
    return positions - int(positions.min())


def _numbers(table: Table, name: str, where: str, right: str, empty: str = "") -> Floats:
    """A column of finite numbers, or the first row that holds none."""
    column = table[name]
    if column.dtype.kind in "biuf":
        values: Floats = column.astype(np.float64)
        missing = np.isnan(values)
    else:
        cells = column.tolist()
        values = np.array([_number(click_number(cell) if right == CLICK else cell) for cell in cells])
        missing = np.array([cell is None or cell == "" for cell in column.tolist()])
    _refuse_missing(missing, name, where, empty)
    _refuse(~np.isfinite(values), table, name, where, f"; it must be {right}")
    return values


def _refuse_missing(missing: np.ndarray[Any, np.dtype[np.bool_]], name: str, where: str, more: str = "") -> None:
    if missing.any():
        raise InvalidInput(f"{where}, row {int(np.argmax(missing)) + 1}: {name} is missing{more}")


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
        f"leave out what is no feature: {options} (in Python without=[{listed}]), or learn from texts as they are with "
        "a schema, which --guess-schema FILE writes"
    )


def _is_id(name: str, column: Any) -> bool:
    seen = Numbers(name)
    seen.add(np.asarray(column, dtype=np.float64))
    return seen.is_id

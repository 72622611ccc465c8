"""A log as a rehearsal needs it: lists in values by name, their schema, their pages, and what clicks were worth."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.click_models.page_log import NO_ITEM, ClickArrays, log_of_lists
from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats
from rankloop.features.schema import Schema
from rankloop.logs.columns import PRICES, PURCHASES, REVENUES, SESSIONS, columns_said, named_like
from rankloop.logs.impressions import (
    exported_names,
    exported_schemas,
    holds_impressions,
    read_impressions,
    read_shown_lists,
)
from rankloop.logs.schema_guess import guessed_schema
from rankloop.logs.shown_lists import RawTable, ShownList, lists_of, read_raw_table
from rankloop.logs.tables.source import Given, Source

SHRUNK = 10.0  # clicks of the belief about what an item sells: that of all items


class ShownLog(NamedTuple):
    """Lists in today's order; rows of `pages` and `worth` are those of the lists, one after the other."""

    name: str
    lists: list[ShownList]
    schema: Schema
    pages: ClickArrays
    worth: dict[str, Floats]  # by row: what a click is worth, in clicks (1), purchases and money
    notes: tuple[str, ...] = ()


def read_shown_log(
    given: Given,
    schema: Schema | None = None,
    columns: Mapping[str, str] | None = None,
    without: Sequence[str] = (),
) -> ShownLog:
    """From a table of any format, whose schema is guessed unless given, or the export of a service."""
    source = Source(given)
    if source.path is not None and holds_impressions(source.path):
        return _of_export(source.path, schema)
    table = read_raw_table(source, schema, columns, without)
    if not table.roles.item:
        raise InvalidInput(NO_ITEM.format(source.name))
    outcomes: Sequence[str] = ()
    if schema is None:
        guess = guessed_schema(table)
        schema, outcomes = guess.schema, tuple(guess.outcomes)
    lists = lists_of(table, schema)
    visit = named_like(list(table.values), SESSIONS)
    starts = table.offsets[:-1].tolist()
    sessions = [table.values[visit][row] or f"page {row}" for row in starts] if visit else None
    pages = log_of_lists(lists, sessions)._replace(columns=columns_said(table.roles), n_repeated=table.n_repeated)
    notes = [columns_said(table.roles)]
    if outcomes:
        notes.append(f"outcomes, so not learned from: {', '.join(outcomes)}")
    return ShownLog(source.name, lists, schema, pages, _worth(table, pages), tuple(notes))


def _of_export(path: Path, schema: Schema | None) -> ShownLog:
    known = exported_schemas(path)
    if known:
        lists = list(read_shown_lists(path))
    else:
        names = exported_names(path)
        lists = [_list_of(one, names) for one in read_impressions(path)]
        first = next(iter(lists), None)
        known = [] if first is None else [Schema(dict.fromkeys(first.rows[0], "number"))]
    if not lists:
        raise InvalidInput(f"{path.name} has no impressions")
    pages = log_of_lists(lists)
    return ShownLog(path.name, lists, schema or known[-1], pages, {"clicks": np.ones(len(pages.pair))})


def _list_of(shown: Any, names: Sequence[str]) -> ShownList:
    n_items, n_features = shown.features.shape
    called = list(names) if len(names) == n_features else [f"feature_{number}" for number in range(n_features)]
    rows = [dict(zip(called, row)) for row in shown.features.tolist()]
    clicked = np.array([shown.values.get(item, 0.0) for item in shown.ranking])
    return ShownList(shown.query_id, list(shown.ranking), list(rows), {}, 0.0, np.arange(n_items), clicked)


def _worth(table: RawTable, pages: ClickArrays) -> dict[str, Floats]:
    """What a click on each row is worth; purchases by the item's own share, drawn to that of all items."""
    worth = {"clicks": np.ones(len(pages.pair))}
    names = list(table.values)
    bought, revenue, price = (named_like(names, usual) for usual in (PURCHASES, REVENUES, PRICES))
    order = _order(table)
    item_numbers = pages.by_item().pair
    if bought:
        sold = (_numbers(table.values[bought])[order] > 0).astype(np.float64) * pages.clicked
        worth["purchases"] = _per_click(sold, pages.clicked, item_numbers)
    if revenue:
        earned = _numbers(table.values[revenue])[order] * pages.clicked
        worth["money"] = _per_click(earned, pages.clicked, item_numbers)
    elif bought and price:
        worth["money"] = worth["purchases"] * _numbers(table.values[price])[order]
    return worth


def _order(table: RawTable) -> Any:
    stands = _numbers(table.values[table.roles.position])
    borders = pairwise(table.offsets.tolist())
    return np.concatenate([start + np.argsort(stands[start:end], kind="stable") for start, end in borders])


def _per_click(values: Floats, clicked: Floats, item: Any) -> Floats:
    """Of each row's item: the mean of what its clicks were worth, with that of all clicks as if seen ten times."""
    mean = values.sum() / max(clicked.sum(), 1.0)
    sums, counts = np.bincount(item, values), np.bincount(item, clicked)
    found: Floats = ((sums + SHRUNK * mean) / (counts + SHRUNK))[item]
    return found


def _numbers(values: Sequence[Any]) -> Floats:
    """What is missing, or no number, is worth nothing."""
    found = np.zeros(len(values))
    for row, value in enumerate(values):
        try:
            found[row] = float(value or 0.0)
        except (TypeError, ValueError):
            continue
    return np.nan_to_num(found, nan=0.0, posinf=0.0, neginf=0.0)

"""A log as a rehearsal needs it: lists in values by name, their schema, their clicks, and what clicks were worth."""

from typing import NamedTuple

import numpy as np

from rankloop.core.types import Floats, Ints
from rankloop.features.schema import Schema
from rankloop.logs.list_log import MONEY, PURCHASES, ClickArrays, ListLog, ShownList
from rankloop.logs.schema_guess import guessed_schema

PRIOR_CLICKS = 10.0  # of the belief about what a click on an item sells: that of all items


class RehearsalLog(NamedTuple):
    """Lists in today's order; rows of `pages` and `worth` are those of the lists, one after the other."""

    name: str
    lists: list[ShownList]
    schema: Schema
    pages: ClickArrays
    worth: dict[str, Floats]  # by row: what a click is worth, in clicks (1), purchases and money
    notes: tuple[str, ...] = ()


def rehearsal_log(log: ListLog, schema: Schema | None = None) -> RehearsalLog:
    """Prepare a log for a rehearsal.

    Args:
      log: A log of lists.
      schema: What the columns are; guessed from a table, or taken from an export, unless given.
    """
    log = log if schema is None else log.typed_by(schema)
    pages, notes = log.clicks(), list(log.notes)
    if log.export is None:
        notes.append(str(log.columns))
    if schema is None and log.export is not None:
        schema = log.schemas[-1] if log.schemas else Schema(dict.fromkeys(log.values, "number"))
    elif schema is None:
        guess = guessed_schema(log)
        schema, log = guess.schema, log.typed_by(guess.schema)
        if guess.outcomes:
            notes.append(f"outcomes, so not learned from: {', '.join(guess.outcomes)}")
    return RehearsalLog(log.name, log.lists(schema), schema, pages, _worth(log, pages), tuple(notes))


def _worth(log: ListLog, pages: ClickArrays) -> dict[str, Floats]:
    """Return what a click on each row is worth; purchases by the item's own share, drawn to that of all items."""
    worth = {"clicks": np.ones(len(pages.pair))}
    if log.export is not None and not log.export.outcomes:
        return worth
    brought, prices = log.outcomes()
    items = pages.by_item().pair
    if PURCHASES in brought:
        sold = (brought[PURCHASES][log.order] > 0).astype(np.float64) * pages.clicked
        worth[PURCHASES] = _per_click(sold, pages.clicked, items)
    if log.columns.revenue:
        worth[MONEY] = _per_click(brought[MONEY][log.order] * pages.clicked, pages.clicked, items)
    elif PURCHASES in brought and MONEY in prices:
        worth[MONEY] = worth[PURCHASES] * prices[MONEY][log.order]
    for name in filter(lambda name: name not in (PURCHASES, MONEY), brought):
        worth[name] = _per_click(brought[name][log.order] * pages.clicked, pages.clicked, items)
    return worth


def _per_click(values: Floats, clicked: Floats, item: Ints) -> Floats:
    """Return for each row the mean worth of its item's clicks, with that of all clicks as if seen ten times."""
    mean = values.sum() / max(clicked.sum(), 1.0)
    sums, counts = np.bincount(item, values), np.bincount(item, clicked)
    by_row: Floats = ((sums + PRIOR_CLICKS * mean) / (counts + PRIOR_CLICKS))[item]
    return by_row

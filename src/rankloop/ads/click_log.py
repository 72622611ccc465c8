"""Logs of shown lists and their clicks as arrays, for learning from yesterday's clicks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.ads.click_columns import CLICK, click_columns, numbers_in, places_in, read_columns
from rankloop.ads.click_weights import weighted_relevance
from rankloop.ads.position_bias import Bias, Impressions, any_moved, bias_by_em
from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints, finite_floats
from rankloop.evaluation.impressions import holds_impressions, read_impressions


class ClickLog(NamedTuple):
    """One row per shown item; list q owns the rows from offsets[q] to offsets[q + 1], in the order of the log."""

    features: Floats
    offsets: Ints
    place: Ints  # where the item stood, from 0
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
        return Impressions(self.pair, self.place, self.clicked)

    def position_bias(self) -> Bias:
        """By expectation maximisation; refused where no item stands at two places, since nothing tells it then."""
        shown = self.impressions()
        if self.place.max() > 0 and not any_moved(shown):
            raise InvalidInput(
                "no item stands at two places (for the same query, where there are queries), so the position bias "
                "cannot be told: give --position-bias 1,0.5,… (1,1,…: all places alike), or name the column that tells "
                "which item is which, --column item=NAME"
            )
        return bias_by_em(shown)

    def relevance(self, looked_at: Floats, clip: float = 10.0) -> Floats:
        """The weight of each click, 0 elsewhere; no click weighs more than `clip`."""
        if not clip > 0.0:
            raise InvalidInput(f"clip = {clip} must be a weight above 0")
        return weighted_relevance(self.offsets, self.place, self.clicked, looked_at, clip)


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
    features, place, clicked, pair, query, sizes = [], [], [], [], [], []
    for shown in read_impressions(path):
        features.append(shown.features)
        sizes.append(len(shown.ranking))
        query += [queries.setdefault(shown.query_id or f"impression {len(sizes)}", len(queries))] * sizes[-1]
        for position, item in enumerate(shown.ranking):
            place.append(position)
            clicked.append(float(shown.values.get(item, 0.0) > 0.0))
            pair.append(pairs.setdefault((shown.query_id, item), len(pairs)))
    if not sizes:
        raise InvalidInput(f"{path.name} has no impressions")
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    places, clicks = np.array(place), np.array(clicked)
    return ClickLog(np.concatenate(features), offsets, places, clicks, np.array(pair), np.array(query))


def _of_table(path: Path, without: Sequence[str], columns: Mapping[str, str]) -> ClickLog:
    table = read_columns(path)
    names = click_columns(table, without, columns, path.name)
    lists = np.asarray(table[names.list]).astype(str)
    starts = np.flatnonzero(np.append(True, lists[1:] != lists[:-1]))
    if len(np.unique(lists)) != len(starts):
        raise InvalidInput(f"{path.name}: the rows of a list do not stand together; sort by {names.list!r}")
    features = finite_floats(np.column_stack([table[name] for name in names.features]), 2, f"{path.name}: features")
    place = places_in(table, names.position, path.name)
    clicked = (numbers_in(table, names.click, path.name, CLICK) > 0).astype(np.float64)
    query = np.asarray(table[names.query]).astype(str) if names.query else lists
    pair = np.arange(len(lists))
    if names.item:
        pair = _numbered(query if names.query else np.zeros(len(lists)), table[names.item])
    offsets = np.append(starts, len(lists)).astype(np.int64)
    queries = np.unique(query, return_inverse=True)[1]
    shown = features, offsets, place, clicked, pair.astype(np.int64), queries
    return ClickLog(*shown, names.features, names.ids, names.set_aside)


def _numbered(queries: Any, items: Any) -> Ints:
    """The number of each (query, item) pair, in order of first appearance."""
    numbers: dict[tuple[str, str], int] = {}
    keys = zip(np.asarray(queries).astype(str).tolist(), np.asarray(items).astype(str).tolist())
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)

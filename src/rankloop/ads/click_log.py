"""Logs of shown lists and their clicks as arrays, for learning from yesterday's clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.ads.click_weights import weighted_relevance
from rankloop.ads.position_bias import Bias, Impressions, bias_by_em
from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints, finite_floats
from rankloop.data.lines import opened
from rankloop.evaluation.impressions import holds_impressions, read_impressions
from rankloop.evaluation.log_columns import GUESSES

QUERIES = ("query", "query_id", "qid")
LISTS = ("impression", "list", "session", *QUERIES)
ITEMS = ("item", "item_id", "doc", "document", "id")


class ClickLog(NamedTuple):
    """One row per shown item; list q owns the rows from offsets[q] to offsets[q + 1], in the order of the log."""

    features: Floats
    offsets: Ints
    place: Ints  # where the item stood, from 0
    clicked: Floats  # 1 or 0
    pair: Ints  # the number of its (query, item) pair
    query: Ints  # the number of its query
    feature_names: tuple[str, ...] = ()

    def impressions(self) -> Impressions:
        """For the estimators of position bias."""
        return Impressions(self.pair, self.place, self.clicked)

    def position_bias(self) -> Bias:
        """By expectation maximisation."""
        return bias_by_em(self.impressions())

    def relevance(self, looked_at: Floats, clip: float = 10.0) -> Floats:
        """The weight of each click, 0 elsewhere."""
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


def read_click_log(path: Path) -> ClickLog:
    """A table with columns for the list, the place, the click and the features, or an export of impressions.

    Recognised names: impression or list, whose rows stand together, else query or qid; position or place, the smallest
    number being the first; click; query and item, by which the same pair is known at another place. Every other column
    is a feature.
    """
    return _of_impressions(path) if holds_impressions(path) else _of_table(path)


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


def _of_table(path: Path) -> ClickLog:
    columns = _columns(path)
    names = {role: _named(columns, guesses, path, role) for role, guesses in _ROLES.items()}
    item = next((name for name in columns if name.lower() in ITEMS), None)
    query = next((name for name in columns if name.lower() in QUERIES), names["list"])
    used = {*names.values(), item, query, ""}
    feature_names = tuple(name for name in columns if name not in used)
    lists = np.asarray(columns[names["list"]]).astype(str)
    starts = np.flatnonzero(np.append(True, lists[1:] != lists[:-1]))
    if len(np.unique(lists)) != len(starts):
        raise InvalidInput(f"{path.name}: the rows of a list do not stand together; sort by {names['list']!r}")
    features = finite_floats(np.column_stack([columns[name] for name in feature_names]), 2, f"{path.name}: features")
    place = np.asarray(columns[names["place"]], dtype=np.int64)
    clicked = (finite_floats(columns[names["click"]], 1, names["click"]) > 0).astype(np.float64)
    pair = np.arange(len(lists)) if item is None else _numbered(columns[query], columns[item])
    offsets = np.append(starts, len(lists)).astype(np.int64)
    queries = np.unique(lists if item is None else np.asarray(columns[query]).astype(str), return_inverse=True)[1]
    return ClickLog(features, offsets, place - place.min(), clicked, pair.astype(np.int64), queries, feature_names)


def _numbered(queries: Any, items: Any) -> Ints:
    """The number of each (query, item) pair, in order of first appearance."""
    numbers: dict[tuple[str, str], int] = {}
    keys = zip(np.asarray(queries).astype(str).tolist(), np.asarray(items).astype(str).tolist())
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


_ROLES = {"list": LISTS, "place": GUESSES["position"], "click": GUESSES["reward"]}


def _named(columns: dict[str, Any], guesses: tuple[str, ...], path: Path, role: str) -> str:
    found = next((name for guess in guesses for name in columns if name.lower() == guess), None)
    if found is None:
        raise InvalidInput(
            f"{path.name} has no column for the {role} ({', '.join(guesses)}); it has {', '.join(columns)}"
        )
    return found


def _columns(path: Path) -> dict[str, Any]:
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        with opened(path) as file:
            parquet_file = path.suffix == ".parquet"
            table = parquet.read_table(path) if parquet_file else csv.read_csv(file)
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"{path.name}: {' '.join(str(error).split())}") from None
    if table.num_rows == 0:
        raise InvalidInput(f"{path.name} has no rows")
    return {name: table[name].to_numpy() for name in table.column_names}

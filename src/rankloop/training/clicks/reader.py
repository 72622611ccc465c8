"""Logs of shown lists and their clicks as arrays, for learning from yesterday's clicks."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.logs.numeric_features import numeric_features
from rankloop.logs.outcomes import outcomes_said
from rankloop.logs.reader import lists_in
from rankloop.logs.table_source import Given
from rankloop.training.clicks.ips_weights import weighted_relevance
from rankloop.training.clicks.position_bias import Bias, Impressions, any_moved, bias_by_em

UNTOLD_BIAS = (
    "no item stands at two places (for the same query, where there are queries), so the position bias cannot be told: "
    "give --position-bias 1,0.5,… (1,1,…: all places alike), or name the column that tells which item is which, "
    "--column item=NAME"
)


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

    def impressions(self) -> Impressions:
        """For the estimators of position bias."""
        return Impressions(self.pair, self.position, self.clicked)

    def position_bias(self) -> Bias:
        """By expectation maximisation; refused where no item stands at two positions, since nothing tells it then."""
        seen = self.impressions()
        if self.position.max() > 0 and not any_moved(seen):
            raise InvalidInput(UNTOLD_BIAS)
        return bias_by_em(seen)

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
    """Read a table with columns for the list, the position, the click and the features, or an export of impressions.

    Args:
      path: A file or a frame; see `read_log`.
      without: Columns that are left alone.
      columns: Which column is what where the names do not tell.
      asked_for: Columns that are features whatever they look like.

    Returns:
      The log as arrays, in the order of its rows.
    """
    log = lists_in(path, columns=columns, without=without)
    features, (query, query_ids) = numeric_features(log, asked_for), log.query_numbers()
    return ClickLog(
        features=features.values,
        offsets=log.offsets,
        position=log.position,
        clicked=log.clicked,
        pair=log.pair_numbers(),
        query=query,
        feature_names=features.names,
        left_out=features.ids,
        set_aside=features.set_aside,
        outcomes=tuple(features.outcomes.items()),
        query_ids=query_ids,
        weight=log.weight if log.columns.weight else None,
    )

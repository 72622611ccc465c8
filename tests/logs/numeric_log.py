"""A log of lists with its columns of numbers, in one value, as tests look at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rankloop.click_models.examination import rows_as_log
from rankloop.core.types import Floats, Ints
from rankloop.logs.list_table import BadRows, RawColumns, _raw_columns
from rankloop.logs.numeric_features import numeric_features
from rankloop.logs.reader import lists_in
from rankloop.logs.table_reader import TableReader
from rankloop.training.clicks.weights import estimate_examined


class NumericLog(NamedTuple):
    features: Floats
    offsets: Ints
    position: Ints
    clicked: Floats
    pair: Ints
    query: Ints
    query_ids: tuple[str, ...]
    feature_names: tuple[str, ...]
    left_out: tuple[str, ...]
    set_aside: tuple[str, ...]
    outcomes: Mapping[str, str]
    described: str

    def examined(self) -> Floats | None:
        """The position bias, None where nothing tells it."""
        return estimate_examined(rows_as_log(self.pair, self.position, self.clicked, self.offsets))


def read_numeric_log(
    given: Any, without: Sequence[str] = (), columns: Mapping[str, str] | None = None, asked_for: Sequence[str] = ()
) -> NumericLog:
    log = lists_in(given, columns=columns, without=without)
    numbers, (query, query_ids) = numeric_features(log, asked_for), log.query_numbers()
    return NumericLog(
        features=numbers.values,
        offsets=log.offsets,
        position=log.position,
        clicked=log.clicked,
        pair=log.pair_numbers(),
        query=query,
        query_ids=query_ids,
        feature_names=numbers.names,
        left_out=numbers.ids,
        set_aside=numbers.set_aside,
        outcomes=numbers.outcomes,
        described=numbers.described,
    )


def read_raw_columns(table: Any, kinds: Mapping[str, str] | None = None) -> RawColumns:
    """Read a table, and refuse its faults."""
    source = TableReader(table)
    bad_rows = BadRows(source)
    columns = _raw_columns(source, kinds or {}, bad_rows)
    bad_rows.kept(columns.table.num_rows)
    return columns

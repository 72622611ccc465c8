"""Logged rankings as the service exports them (Parquet, one row per impression), to evaluate by and to learn from."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Arrival, Clicks, Decision, Feedback, Floats, Query, Relevances, Reward, finite_floats
from rankloop.features.schema import Schema
from rankloop.logs.raw_columns import as_list
from rankloop.logs.shown_lists import ShownList
from rankloop.logs.table import column_names, is_parquet
from rankloop.logs.typed_columns import LISTED, NOTES, OF_CONTEXT, OF_ITEM, fields_of, kind_of

COLUMNS = ("query_id", "ranking", "features", "context", "log_propensity", "feedback", "items", "values")
PIECE_ROWS = 1024


class Impression(NamedTuple):
    """A shown ranking and what was revealed; items are named by id, `features` has their rows in the order shown."""

    query_id: str
    ranking: tuple[str, ...]
    features: Floats
    context: Floats
    log_propensity: float  # nan where unknown
    feedback: str  # its kind; empty: none came
    values: dict[str, float]  # by item

    def reward(self) -> float:
        """All that was revealed, summed: clicks, grades or the reward."""
        return float(sum(self.values.values()))

    def arrival(self) -> Arrival:
        """As a decision and its feedback, items being numbered in the order shown."""
        numbers = {item: number for number, item in enumerate(self.ranking)}
        items = np.array([numbers[item] for item in self.values], dtype=np.int64)
        values = np.array(list(self.values.values()), dtype=np.float64)
        feedback: Feedback = Clicks(items, values)
        if self.feedback == "reward":
            feedback = Reward(self.reward())
        elif self.feedback == "relevances":
            feedback = Relevances(items, values)
        decision = Decision(np.arange(len(self.ranking)), self.log_propensity, ())
        return Arrival(Query(self.query_id, self.features, self.context), decision, feedback)


def holds_impressions(path: Path) -> bool:
    """Whether a file is such an export."""
    return is_parquet(path) and {"ranking", "log_propensity", "features"} <= set(column_names(path))


def n_impressions(path: Path) -> int:
    """How many rows an export has, mixed ones included."""
    import pyarrow.parquet as pq

    return int(pq.ParquetFile(path).metadata.num_rows)


def export_notes(path: Path) -> dict[str, Any]:
    """What an export says of itself: `feature_names`, or `schemas` of all versions; empty where it says nothing."""
    import pyarrow.parquet as pq

    found = pq.ParquetFile(path).schema_arrow.metadata or {}
    try:
        notes = json.loads(found.get(NOTES, b"{}"))
    except ValueError:
        notes = None
    if not isinstance(notes, dict):
        raise InvalidInput(f"{path.name}: its metadata are not those of an export")
    return notes


def exported_names(path: Path) -> tuple[str, ...]:
    """What the features of an export are called; empty where it does not say."""
    return tuple(map(str, export_notes(path).get("feature_names") or ()))


def exported_schemas(path: Path) -> list[Schema]:
    """The schemas of an export, the newest last; empty where its features are plain numbers."""
    schemas = [Schema.from_plain(plain) for plain in export_notes(path).get("schemas") or ()]
    return sorted(schemas, key=lambda schema: schema.version)


def read_shown_lists(path: Path) -> Iterator[ShownList]:
    """The impressions of an export in values as people have them; mixed ones are left out here too."""
    features, context = fields_of(exported_schemas(path))
    wanted = ["at", *(name for name in COLUMNS if name not in ("features", "context"))]
    wanted += [*(OF_ITEM + name for name in features), *(OF_CONTEXT + name for name in context)]
    missing = next((name for name in wanted if name not in column_names(path)), None)
    if missing is not None:
        raise InvalidInput(f"{path.name} lacks the column {missing!r} of an export of impressions")
    for table, where in _tables(path, wanted):
        yield _shown_list(table, features, context, where)


def read_impressions(path: Path) -> Iterator[Impression]:
    """From front to back, a piece at a time; rankings that were mixed for a comparison of two rankers are left out."""
    if exported_schemas(path):
        raise InvalidInput(f"{path.name} holds values by a schema, not numbers: a ranker with a schema can read them")
    for table, where in _tables(path, COLUMNS):
        yield _impression(table, where)


def _tables(path: Path, wanted: Sequence[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """The rows of an export, each with its name."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    names = file.schema_arrow.names
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise InvalidInput(f"{path.name} lacks the column {missing[0]!r} of an export of impressions")
    wanted = [*wanted, *(["evaluation"] if "evaluation" in names else [])]
    row = 0
    for batch in file.iter_batches(PIECE_ROWS, columns=wanted):
        for table in batch.to_pylist():
            row += 1
            if not table.get("evaluation"):
                yield table, f"{path.name}, row {row}"


def _shown_list(
    table: dict[str, Any], features: Mapping[str, Any], context: Mapping[str, Any], where: str
) -> ShownList:
    ranking, values = _ranking(table, where), _revealed(table, where)
    rows: list[dict[str, Any]] = [{} for _ in ranking]
    for name, kind in features.items():
        for row, value in zip(rows, table[OF_ITEM + name] or ()):
            if value is not None:
                row[name] = as_list(value) if kind_of(kind) in LISTED else value
    given = {name: table[OF_CONTEXT + name] for name in context}
    asked = {name: as_list(value) if kind_of(context[name]) in LISTED else value for name, value in given.items()}
    known, n_items = table["log_propensity"], len(ranking)
    return ShownList(
        table["query_id"] or "",
        list(ranking),
        list(rows),
        {name: value for name, value in asked.items() if value is not None},
        float(table["at"] or 0.0),
        np.arange(n_items),
        np.array([values.get(item, 0.0) for item in ranking]),
        math.nan if known is None else float(known),
        table["feedback"] or "clicks",
    )


def _ranking(table: dict[str, Any], where: str) -> tuple[str, ...]:
    ranking = tuple(table["ranking"] or ())
    if not ranking or len(set(ranking)) != len(ranking):
        raise InvalidInput(f"{where}: the ranking is empty or names an item twice")
    return ranking


def _revealed(table: dict[str, Any], where: str) -> dict[str, float]:
    items, values = table["items"] or [], table["values"] or []
    if len(items) != len(values) or not set(items) <= set(table["ranking"]):
        raise InvalidInput(f"{where}: feedback names an item that was not shown, or lacks a number")
    return dict(zip(items, values))


def _impression(table: dict[str, Any], where: str) -> Impression:
    ranking, values = _ranking(table, where), _revealed(table, where)
    features = finite_floats(np.reshape(table["features"], (len(ranking), -1)), 2, f"{where}: features")
    known = table["log_propensity"]
    return Impression(
        table["query_id"] or "",
        ranking,
        features,
        finite_floats(table["context"] or [], 1, f"{where}: context"),
        math.nan if known is None else float(known),
        table["feedback"] or "",
        values,
    )

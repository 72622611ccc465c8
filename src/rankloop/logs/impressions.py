"""Logged rankings as the service exports them (Parquet, one row per impression), to evaluate by and to learn from."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Arrival, Clicks, Decision, Feedback, Floats, Query, Relevances, Reward, finite_floats
from rankloop.logs.table import column_names, is_parquet

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


def read_impressions(path: Path) -> Iterator[Impression]:
    """From front to back, a piece at a time; rankings that were mixed for a comparison of two rankers are left out."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    names = file.schema_arrow.names
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise InvalidInput(f"{path.name} lacks the column {missing[0]!r} of an export of impressions")
    wanted = [*COLUMNS, *(["evaluation"] if "evaluation" in names else [])]
    row = 0
    for batch in file.iter_batches(PIECE_ROWS, columns=wanted):
        for table in batch.to_pylist():
            row += 1
            if not table.get("evaluation"):
                yield _impression(table, f"{path.name}, row {row}")


def _impression(table: dict[str, Any], where: str) -> Impression:
    ranking = tuple(table["ranking"] or ())
    if not ranking or len(set(ranking)) != len(ranking):
        raise InvalidInput(f"{where}: the ranking is empty or names an item twice")
    features = finite_floats(np.reshape(table["features"], (len(ranking), -1)), 2, f"{where}: features")
    items, values = table["items"] or [], table["values"] or []
    if len(items) != len(values) or not set(items) <= set(ranking):
        raise InvalidInput(f"{where}: feedback names an item that was not shown, or lacks a number")
    known = table["log_propensity"]
    return Impression(
        table["query_id"] or "",
        ranking,
        features,
        finite_floats(table["context"] or [], 1, f"{where}: context"),
        math.nan if known is None else float(known),
        table["feedback"] or "",
        dict(zip(items, values)),
    )

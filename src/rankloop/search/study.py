"""A study with visitors: half are learned from; half see the learned order interleaved with the engine's."""

import hashlib
import io
from collections.abc import Iterator
from typing import Any

import numpy as np

from rankloop.core.extras import import_extra
from rankloop.core.serialisation import from_plain
from rankloop.core.types import Clicks
from rankloop.interleaving import Comparison, Mixed, credit
from rankloop.service.domain.feedback_acceptance import closed_impressions
from rankloop.service.domain.projection import TEAM_DRAFT
from rankloop.service.records import Record

MAX_P_VALUE = 0.05  # a p-value below it, whenever it is looked at, ends the study
# Of the exported table, with the types of pyarrow.
STUDY_COLUMNS = {"at": "float64", "impression": "string", "visitor": "string", "query": "string", "state": "int64"}
STUDY_COLUMNS |= {"learned": "float64", "engine": "float64", "winner": "string"}


def is_compared(visitor: str) -> bool:
    """Return True for visitors of the half that compares; a visitor always belongs to the same half."""
    return hashlib.sha256(visitor.encode()).digest()[0] % 2 == 1


def study_report(comparison: Comparison) -> dict[str, Any]:
    """Return wins and losses of the learned order, and a p-value that is valid after every visitor."""
    p_value = comparison.p_value_at_any_time
    better = "learned" if comparison.wins > comparison.losses else "engine"
    return {
        "wins": comparison.wins,
        "losses": comparison.losses,
        "ties": comparison.ties,
        "p_value": p_value,
        "verdict": f"{better} order is better" if p_value < MAX_P_VALUE else "open",
    }


def study_rows(records: Iterator[Record]) -> Iterator[dict[str, Any]]:
    """Yield every compared list that has closed, with the clicks that each variant earned."""
    for record, impression in closed_impressions(records):
        ranked = impression.ranked
        if ranked.mixed is None:
            continue
        mixed, feedback = from_plain(ranked.mixed, Mixed, "mixed"), impression.feedback
        items = np.array(feedback.items if feedback else [], dtype=np.int64)
        values = np.array(feedback.values if feedback else [], dtype=np.float64)
        learned, engine = map(float, credit(TEAM_DRAFT, mixed, Clicks(items, values)))
        yield {
            "at": record.at,
            "impression": ranked.impression,
            "visitor": ranked.user,
            "query": ranked.query_id,
            "state": ranked.state_number,
            "learned": learned,
            "engine": engine,
            "winner": "learned" if learned > engine else "engine" if engine > learned else "neither",
        }


def study_parquet(records: Iterator[Record]) -> bytes:
    """Return every compared list that has closed as a Parquet file."""
    sink = io.BytesIO()
    pa, parquet = import_extra("pyarrow"), import_extra("pyarrow.parquet")
    columns = pa.schema([(name, pa.type_for_alias(type_name)) for name, type_name in STUDY_COLUMNS.items()])
    parquet.write_table(pa.Table.from_pylist(list(study_rows(records)), columns), sink)
    return sink.getvalue()

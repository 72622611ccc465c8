"""A study with visitors: half are learned from; half see the learned order interleaved with the engine's."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from rankloop.core.plain_values import from_plain
from rankloop.core.types import Clicks
from rankloop.interleaving import Comparison, Mixed, credit
from rankloop.service.domain.feedback_acceptance import closed_impressions
from rankloop.service.domain.projection import TEAM_DRAFT
from rankloop.service.records import Record

MAX_P_VALUE = 0.05  # a p-value below it, whenever it is looked at, ends the study


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

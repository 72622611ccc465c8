"""Counts and flags of a ranker or an experiment, which follow from its log."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from rankloop.core.plain_values import from_plain
from rankloop.core.types import Clicks
from rankloop.interleaving import Comparison, Mixed, credit
from rankloop.measures.base import parse_measure
from rankloop.measures.formulas import MAX_EXPONENT
from rankloop.service.domain.ab_test import SplitCounts
from rankloop.service.records import FeedbackReceived, Ranked

MAX_POSITIONS_COUNTED = 20
MAX_DECODED = 2_000  # published counts in memory
LOST_TO_BASE = "the ranker lost against its base, and the difference is statistically significant"
RECENT_RATE_STEP, LONG_TERM_RATE_STEP = 1 / 100, 1 / 1000  # of the two exponential averages of the click rate


class OutcomeCounts(msgspec.Struct):
    """Counts of one outcome; wins and losses are those of the first of two interleaved rankings."""

    total: float = 0.0
    impressions: int = 0  # that it was reported of
    wins: int = 0
    losses: int = 0


class Counters(msgspec.Struct):
    """Counts of one ranker or experiment."""

    impressions: int = 0
    closed: int = 0
    with_feedback: int = 0
    default_feedback: int = 0  # closed without feedback and counted as not clicked
    not_learned: int = 0  # closed with feedback while learning was frozen, or not trainable
    evaluated: int = 0  # shown mixed with the base order
    shown_at: list[int] = msgspec.field(default_factory=lambda: [0] * MAX_POSITIONS_COUNTED)
    clicked_at: list[int] = msgspec.field(default_factory=lambda: [0] * MAX_POSITIONS_COUNTED)
    clicked: int = 0  # closed impressions with at least one click
    clickable: int = 0  # closed impressions on which users could click
    recent_click_rate: float = 0.0
    long_term_click_rate: float = 0.0
    ndcg_sum: float = 0.0
    graded: int = 0
    explored_sum: float = 0.0
    explorable: int = 0
    wins: int = 0
    ties: int = 0
    losses: int = 0
    outcomes: dict[str, OutcomeCounts] = {}  # those of closed impressions
    split: SplitCounts | None = None  # of an A/B test

    @property
    def comparison(self) -> Comparison:
        """Wins, ties and losses."""
        return Comparison(self.wins, self.ties, self.losses)

    def close(self, ranked: Ranked, feedback: FeedbackReceived | None, shown: int | None, method: Any) -> None:
        """Count a closed impression."""
        by_item = dict(zip(feedback.items, feedback.values)) if feedback is not None else {}
        self.closed += 1
        if feedback is not None:
            self.with_feedback += 1
            if feedback.feedback_kind == "relevances":
                position_of = {item: i for i, item in enumerate(ranked.order)}
                relevance = np.zeros(len(ranked.order))
                for item, grade in by_item.items():
                    relevance[position_of[item]] = min(grade, MAX_EXPONENT)  # a logged event must never fail to apply
                self.ndcg_sum += float(parse_measure("nDCG@10")(np.arange(len(relevance)), relevance))
                self.graded += 1
        if feedback is None or feedback.feedback_kind == "clicks":
            clicked = set(feedback.items) if feedback is not None else set[int]()
            for position, item in enumerate(ranked.order[:shown][:MAX_POSITIONS_COUNTED]):
                self.shown_at[position] += 1
                self.clicked_at[position] += item in clicked
            any_click = float(bool(clicked))
            self.clicked += bool(clicked)
            self.clickable += 1
            first_step = 1 / self.clickable  # a plain mean, until there are enough impressions
            self.recent_click_rate += max(RECENT_RATE_STEP, first_step) * (any_click - self.recent_click_rate)
            self.long_term_click_rate += max(LONG_TERM_RATE_STEP, first_step) * (any_click - self.long_term_click_rate)
        if ranked.mixed is not None:
            difference = _credit_difference(ranked, by_item, method)
            self.wins += difference > 0
            self.ties += difference == 0
            self.losses += difference < 0

    def count_outcomes(self, ranked: Ranked, values: Mapping[str, Mapping[int, float]], method: Any) -> None:
        """Count outcomes of an impression."""
        for name, by_item in values.items():
            counts = self.outcomes.setdefault(name, OutcomeCounts())
            counts.total += sum(by_item.values())
            counts.impressions += 1
            if ranked.mixed is not None:
                difference = _credit_difference(ranked, by_item, method)
                counts.wins += difference > 0
                counts.losses += difference < 0


def _credit_difference(ranked: Ranked, by_item: Mapping[int, float], method: Any) -> float:
    """Return the credit of the first ranking of an interleaved list minus that of the second."""
    mixed = from_plain(ranked.mixed, Mixed, "mixed")
    number = {item: i for i, item in enumerate(ranked.candidates or range(len(ranked.ids)))}
    pairs = [(number[item], value) for item, value in by_item.items() if item in number]
    items = np.array([i for i, _ in pairs], dtype=np.int64)
    earned = credit(method, mixed, Clicks(items, np.array([value for _, value in pairs], dtype=np.float64)))
    return float(earned[0] - earned[1])


class SavedProjection(msgspec.Struct):
    """Counts and flags of an entity after an event, as snapshots and published states keep them."""

    counters: Counters = msgspec.field(default_factory=Counters)
    frozen: bool = False
    reason: str = ""
    last_good_state: int = 0  # the newest snapshot at which the base did not lead
    updates: int = 0
    generator_state: str = ""  # of the ranker's own random generator after its last ranking
    window: float | None = None  # the feedback window in seconds, if it was changed since the ranker was created
    user_totals: bytes = b""  # of an A/B test, in snapshots only

    @property
    def n_open(self) -> int:
        """The number of impressions that wait for feedback."""
        return self.counters.impressions - self.counters.closed


@lru_cache(MAX_DECODED)
def published_counts(content: bytes) -> SavedProjection:
    """Return the counts and flags of a published state, which must not be changed; empty ones before the first."""
    return saved_projection(content) if content else SavedProjection()


def saved_projection(content: bytes) -> SavedProjection:
    """Decode the bytes of `Projection.saved`."""
    return msgspec.msgpack.decode(content, type=SavedProjection)

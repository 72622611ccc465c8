"""Counts of a ranker or a comparison, the guard that judges by them, and what a snapshot keeps beside the state."""

import math
from typing import Any

import msgspec
import numpy as np

from rankloop.core.serialisation import from_plain
from rankloop.core.types import Clicks
from rankloop.interleaving import Comparison, Mixed, credit
from rankloop.measures.base import parse_measure
from rankloop.measures.formulas import MAX_EXPONENT
from rankloop.service.records import FeedbackReceived, Ranked

MAX_POSITIONS_COUNTED = 20
ERROR_PROBABILITY = 0.05  # the probability, over all tests, that a ranker as good as its base is stopped
FIRST_TEST_AT = 16  # decided comparisons; every later test comes at twice as many
LOST = "the comparison with the base was lost with significance"
FAST, SLOW = 1 / 100, 1 / 1000  # how quickly the two running click rates change


class Counters(msgspec.Struct):
    """Counts of one ranker or comparison."""

    impressions: int = 0
    closed: int = 0
    with_feedback: int = 0
    default_feedback: int = 0  # closed without feedback and counted as not clicked
    not_learned: int = 0  # closed while learning was frozen, or not trainable
    evaluated: int = 0
    shown_at: list[int] = msgspec.field(default_factory=lambda: [0] * MAX_POSITIONS_COUNTED)
    clicked_at: list[int] = msgspec.field(default_factory=lambda: [0] * MAX_POSITIONS_COUNTED)
    clicked: int = 0  # closed impressions with at least one click
    counted: int = 0  # closed impressions on which users could click
    fast: float = 0.0
    slow: float = 0.0
    ndcg: float = 0.0
    graded: int = 0
    explored: float = 0.0
    explorable: int = 0
    wins: int = 0
    ties: int = 0
    losses: int = 0

    @property
    def comparison(self) -> Comparison:
        return Comparison(self.wins, self.ties, self.losses)

    def close(self, ranked: Ranked, feedback: FeedbackReceived | None, shown: int | None, method: Any) -> None:
        """Count an impression that has closed.

        Args:
          ranked: What was shown.
          feedback: All that came back for it.
          shown: How many positions users see.
          method: Of interleaving, where the impression compares two rankings.
        """
        self.closed += 1
        if feedback is not None:
            self.with_feedback += 1
            if feedback.feedback_kind == "relevances":
                self._grade(ranked, feedback)
        if feedback is None or feedback.feedback_kind == "clicks":
            self._count_clicks(ranked, feedback, shown)
        if ranked.mixed is not None:
            self._credit(ranked, feedback, method)

    def click_position(self) -> float | None:
        """Return the mean position of a click, counted from 1; None before the first."""
        clicks = sum(self.clicked_at)
        return sum(position * count for position, count in enumerate(self.clicked_at, 1)) / clicks if clicks else None

    def drift(self) -> float:
        """Return how far the recent click rate lies from the one of longer ago, in standard errors."""
        spread = math.sqrt(max(self.slow * (1 - self.slow), 1e-4) * FAST / (2 - FAST))
        return (self.fast - self.slow) / spread if self.counted else 0.0

    def _credit(self, ranked: Ranked, feedback: FeedbackReceived | None, method: Any) -> None:
        mixed = from_plain(ranked.mixed, Mixed, "mixed")
        number = {item: i for i, item in enumerate(ranked.candidates or range(len(ranked.ids)))}
        pairs = [(number[i], v) for i, v in zip(feedback.items, feedback.values) if i in number] if feedback else []
        items = np.array([i for i, _ in pairs], dtype=np.int64)
        earned = credit(method, mixed, Clicks(items, np.array([value for _, value in pairs], dtype=np.float64)))
        difference = float(earned[0] - earned[1])
        self.wins += difference > 0
        self.ties += difference == 0
        self.losses += difference < 0

    def _grade(self, ranked: Ranked, feedback: FeedbackReceived) -> None:
        position = {item: i for i, item in enumerate(ranked.order)}
        relevance = np.zeros(len(ranked.order))
        for item, grade in zip(feedback.items, feedback.values):
            relevance[position[item]] = min(grade, MAX_EXPONENT)  # what is in the log must always be applicable
        self.ndcg += float(parse_measure("nDCG@10")(np.arange(len(relevance)), relevance))
        self.graded += 1

    def _count_clicks(self, ranked: Ranked, feedback: FeedbackReceived | None, shown: int | None) -> None:
        clicked = set(feedback.items) if feedback is not None else set()
        for position, item in enumerate(ranked.order[:shown][:MAX_POSITIONS_COUNTED]):
            self.shown_at[position] += 1
            self.clicked_at[position] += item in clicked
        any_click = float(bool(clicked))
        self.clicked += bool(clicked)
        self.counted += 1
        self.fast += max(FAST, 1 / self.counted) * (any_click - self.fast)
        self.slow += max(SLOW, 1 / self.counted) * (any_click - self.slow)


class SavedProjection(msgspec.Struct):
    """Counts and flags of an entity after an event, as snapshots and published states keep them."""

    counters: Counters = msgspec.field(default_factory=Counters)
    frozen: bool = False
    reason: str = ""
    good: int = 0  # the newest snapshot at which the base did not lead
    updates: int = 0
    generator_state: str = ""  # of the ranker after its last ranking
    window: float | None = None  # seconds in which feedback may come, where it is no longer that of the beginning

    @property
    def n_open(self) -> int:
        """Impressions that wait for feedback."""
        return self.counters.impressions - self.counters.closed


def saved_projection(content: bytes) -> SavedProjection:
    """Read what `Projection.saved` wrote."""
    return msgspec.msgpack.decode(content, type=SavedProjection)


def is_worse_than_base(comparison: Comparison) -> bool:
    """Losses outweigh wins by more than chance explains.

    Tested at 16, 32, 64, … decided comparisons; the k-th test is at ERROR_PROBABILITY / (k · (k + 1)), and all
    together at ERROR_PROBABILITY.
    """
    decided = comparison.wins + comparison.losses
    test = math.log2(decided / FIRST_TEST_AT) + 1 if decided >= FIRST_TEST_AT else 0.0
    if test < 1 or test != int(test) or comparison.losses <= comparison.wins:
        return False
    return comparison.p_value < ERROR_PROBABILITY / (test * (test + 1))

"""Counts of a ranker or an experiment, and the guard's test whether a ranker is worse than its base."""

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
LOST_TO_BASE = "the ranker lost against its base, and the difference is statistically significant"
RECENT_RATE_STEP, LONG_TERM_RATE_STEP = 1 / 100, 1 / 1000  # of the two exponential averages of the click rate


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

    @property
    def comparison(self) -> Comparison:
        """Wins, ties and losses."""
        return Comparison(self.wins, self.ties, self.losses)

    def close(self, ranked: Ranked, feedback: FeedbackReceived | None, shown: int | None, method: Any) -> None:
        """Count a closed impression.

        Args:
          ranked: The impression.
          feedback: All feedback on it.
          shown: The number of positions that users see.
          method: The interleaving method, if the impression compares two rankings.
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
            relevance[position[item]] = min(grade, MAX_EXPONENT)  # a logged event must never fail to apply
        self.ndcg_sum += float(parse_measure("nDCG@10")(np.arange(len(relevance)), relevance))
        self.graded += 1

    def _count_clicks(self, ranked: Ranked, feedback: FeedbackReceived | None, shown: int | None) -> None:
        clicked = set(feedback.items) if feedback is not None else set()
        for position, item in enumerate(ranked.order[:shown][:MAX_POSITIONS_COUNTED]):
            self.shown_at[position] += 1
            self.clicked_at[position] += item in clicked
        any_click = float(bool(clicked))
        self.clicked += bool(clicked)
        self.clickable += 1
        first_step = 1 / self.clickable  # a plain mean, until there are enough impressions
        self.recent_click_rate += max(RECENT_RATE_STEP, first_step) * (any_click - self.recent_click_rate)
        self.long_term_click_rate += max(LONG_TERM_RATE_STEP, first_step) * (any_click - self.long_term_click_rate)


class SavedProjection(msgspec.Struct):
    """Counts and flags of an entity after an event, as snapshots and published states keep them."""

    counters: Counters = msgspec.field(default_factory=Counters)
    frozen: bool = False
    reason: str = ""
    last_good_state: int = 0  # the newest snapshot at which the base did not lead
    updates: int = 0
    generator_state: str = ""  # of the ranker's own random generator after its last ranking
    window: float | None = None  # the feedback window in seconds, if it was changed since the ranker was created

    @property
    def n_open(self) -> int:
        """The number of impressions that wait for feedback."""
        return self.counters.impressions - self.counters.closed


def saved_projection(content: bytes) -> SavedProjection:
    """Decode the bytes of `Projection.saved`."""
    return msgspec.msgpack.decode(content, type=SavedProjection)


def is_worse_than_base(comparison: Comparison) -> bool:
    """Return True if losses outweigh wins by more than chance explains.

    The sign test runs at 16, 32, 64, … decided comparisons. The k-th test has the level
    ERROR_PROBABILITY / (k · (k + 1)), so all tests together have the level ERROR_PROBABILITY.
    """
    decided = comparison.wins + comparison.losses
    test = math.log2(decided / FIRST_TEST_AT) + 1 if decided >= FIRST_TEST_AT else 0.0
    if test < 1 or test != int(test) or comparison.losses <= comparison.wins:
        return False
    return comparison.p_value < ERROR_PROBABILITY / (test * (test + 1))

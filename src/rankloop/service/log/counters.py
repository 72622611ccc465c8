"""What is counted while impressions come and close: a fold of the log, saved with every snapshot."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np

from rankloop.interleaving import Comparison
from rankloop.measures.base import parse_measure
from rankloop.measures.dcg import MAX_EXPONENT
from rankloop.service.log.events import Fed, Ranked

POSITIONS = 20  # places whose clicks are counted
FAST, SLOW = 1 / 100, 1 / 1000  # how quickly the two running click rates forget


class Tally(msgspec.Struct):
    """Counts of one ranker or experiment."""

    impressions: int = 0
    closed: int = 0
    with_feedback: int = 0
    defaulted: int = 0
    unlearned: int = 0  # closed while frozen, or not meant to teach
    evaluated: int = 0
    shown_at: list[int] = msgspec.field(default_factory=lambda: [0] * POSITIONS)
    clicked_at: list[int] = msgspec.field(default_factory=lambda: [0] * POSITIONS)
    clicked: int = 0  # closed impressions with at least one click
    counted: int = 0  # closed impressions on which people could click
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

    def show(self, ranked: Ranked) -> None:
        self.impressions += 1
        if ranked.mixed is not None:
            self.evaluated += 1
        else:
            self.explored += ranked.explored
            self.explorable += 1

    def close(self, ranked: Ranked, fed: Fed | None, seen: int | None) -> None:
        self.closed += 1
        self.with_feedback += fed is not None
        if fed is not None and fed.what == "relevances":
            self._grade(ranked, fed)
        if fed is None or fed.what == "clicks":
            self._count(ranked, fed, seen)

    def credit(self, earned: Any) -> None:
        difference = float(earned[0] - earned[1])
        self.wins += difference > 0
        self.ties += difference == 0
        self.losses += difference < 0

    def drift(self) -> float:
        """How far the click rate of late lies from the one of longer ago, in standard errors."""
        spread = math.sqrt(max(self.slow * (1 - self.slow), 1e-4) * FAST / (2 - FAST))
        return (self.fast - self.slow) / spread if self.counted else 0.0

    def _grade(self, ranked: Ranked, fed: Fed) -> None:
        position = {item: i for i, item in enumerate(ranked.shown)}
        relevance = np.zeros(len(ranked.shown))
        for item, grade in zip(fed.items, fed.values):
            relevance[position[item]] = min(grade, MAX_EXPONENT)  # what is in the log must always fold
        self.ndcg += float(parse_measure("nDCG@10")(np.arange(len(relevance)), relevance))
        self.graded += 1

    def _count(self, ranked: Ranked, fed: Fed | None, seen: int | None) -> None:
        clicked = set(fed.items) if fed is not None else set()
        for position, item in enumerate(ranked.shown[:seen][:POSITIONS]):
            self.shown_at[position] += 1
            self.clicked_at[position] += item in clicked
        any_click = float(bool(clicked))
        self.clicked += bool(clicked)
        self.counted += 1
        self.fast += max(FAST, 1 / self.counted) * (any_click - self.fast)
        self.slow += max(SLOW, 1 / self.counted) * (any_click - self.slow)

"""What a run writes down: every round is judged, the checkpoints are kept."""

from __future__ import annotations

import numpy as np

from rankloop.core.protocols import Measure
from rankloop.core.types import Floats, Ints, Problem
from rankloop.experiments.run.regret import best_fixed

CHUNK = 1024  # rounds judged in one call


class Judge:
    """One measure of the rankings of a run, round by round; nan where the measure skips a query."""

    def __init__(self, measure: Measure, horizon: int) -> None:
        self.measure = measure
        self.values = np.empty(horizon)
        self.filled = 0

    def add(self, values: Floats) -> None:
        self.values[self.filled : self.filled + len(values)] = values
        self.filled += len(values)

    def averages(self, checkpoints: Ints) -> Floats:
        """The mean over the rounds up to each checkpoint."""
        return self._means(np.zeros_like(checkpoints), checkpoints)

    def recent(self, checkpoints: Ints, window: int) -> Floats:
        """The mean over the last `window` rounds up to each checkpoint, or over all where there are fewer."""
        return self._means(np.maximum(checkpoints - window, 0), checkpoints)

    def total(self) -> float:
        return float(np.nansum(self.values[: self.filled]))

    def _means(self, starts: Ints, ends: Ints) -> Floats:
        means = np.full(len(ends), np.nan)
        for position, (start, end) in enumerate(zip(starts, ends)):
            counted = self.values[start:end][~np.isnan(self.values[start:end])]
            if len(counted):
                means[position] = counted.mean()
        return means


class Rounds:
    """Rankings and their relevance, held until a chunk is full, then judged together."""

    def __init__(self, judges: list[Judge]) -> None:
        self.judges = judges
        self.rankings: list[Ints] = []
        self.relevance: list[Floats] = []

    def add(self, ranking: Ints, relevance: Floats) -> None:
        self.rankings.append(ranking)
        self.relevance.append(relevance)

    def judge(self) -> None:
        """Every held round by every judge; a ranking becomes scores that fall with the position."""
        if not self.rankings:
            return
        lengths = np.array([len(ranking) for ranking in self.rankings])
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        starts = np.repeat(offsets[:-1], lengths)
        scores = np.empty(offsets[-1])
        scores[starts + np.concatenate(self.rankings)] = starts - np.arange(offsets[-1])
        relevance = np.concatenate(self.relevance)
        for judge in self.judges:
            judge.add(judge.measure.of_scores(scores, relevance, offsets))

    def forget(self) -> None:
        self.rankings.clear()
        self.relevance.clear()


class Regrets:
    """The average regret of one measure at every checkpoint, where the best fixed ranking is within reach."""

    def __init__(self, judge: Judge, problem: Problem, factor: float) -> None:
        self.judge = judge
        self.account = best_fixed(judge.measure, problem)
        self.factor = factor
        self.at_checkpoints: list[float] = []

    def add(self, rounds: Rounds) -> None:
        if self.account is not None and rounds.rankings:
            self.account.add(np.array(rounds.rankings), np.array(rounds.relevance))

    def write_down(self) -> None:
        """Against factor · best: gains fall short of it, losses exceed it."""
        if self.account is None:
            return
        lead, total = self.account.lead(), self.judge.total()
        gain = self.judge.measure.higher_is_better
        best = total + lead if gain else total - lead
        regret = self.factor * best - total if gain else total - self.factor * best
        self.at_checkpoints.append((regret if self.factor != 1.0 else lead) / self.judge.filled)

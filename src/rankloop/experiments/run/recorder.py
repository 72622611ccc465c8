"""Record a run: every round is measured, and the checkpoints are kept."""

import math
from operator import attrgetter
from typing import Any

import numpy as np

from rankloop.core.protocols import AnyLearner, Stream
from rankloop.core.registry import build
from rankloop.core.types import Floats, Ints, Query
from rankloop.data.dataset import NO_CONTEXT, Dataset
from rankloop.experiments.run.regret import best_fixed
from rankloop.experiments.run.tasks import checkpoint_rounds, measure_name, window_of
from rankloop.experiments.spec.model import Experiment
from rankloop.measures.base import RankedMeasure
from rankloop.simulate.play import Round

Series = list[float | None]  # one value per checkpoint; None: not a number
MAX_CHUNK_ROUNDS = 1024  # rounds judged in one call


class MeasuredRounds:
    """Value of every measure in every round; nan where a measure skips a query.

    Rankings and their relevance are held until `judge`, which measures them together.
    """

    def __init__(self, experiment: Experiment, n_rounds: int) -> None:
        self.measures = [build(measure, "measure") for measure in experiment.measures]
        self.values = np.empty((len(self.measures), n_rounds))
        self.filled = 0
        self.rankings: list[Ints] = []
        self.relevance: list[Floats] = []

    def add(self, ranking: Ints, relevance: Floats) -> None:
        """Hold a round."""
        self.rankings.append(ranking)
        self.relevance.append(relevance)

    def judge(self) -> None:
        """Measure every held round; for a measure of scores a ranking becomes scores that fall with the position."""
        if not self.rankings:
            return
        offsets = np.concatenate([[0], np.cumsum([len(ranking) for ranking in self.rankings])])
        rankings, relevance = np.concatenate(self.rankings), np.concatenate(self.relevance)
        end = self.filled + len(self.rankings)
        for measure, values in zip(self.measures, self.values):
            if isinstance(measure, RankedMeasure):
                values[self.filled : end] = measure.of_rankings(rankings, relevance, offsets)
            else:
                starts = np.repeat(offsets[:-1], np.diff(offsets))
                scores = np.empty(offsets[-1])
                scores[starts + rankings] = starts - np.arange(offsets[-1])
                values[self.filled : end] = measure.of_scores(scores, relevance, offsets)
        self.filled = end
        self.rankings.clear()
        self.relevance.clear()

    def averages(self, ends: Ints, window: int | None = None) -> list[Series]:
        """Return for each measure its means over the last `window` rounds up to each end, by default over all."""
        starts = np.zeros_like(ends) if window is None else np.maximum(ends - window, 0)
        return [[_mean(values[start:end]) for start, end in zip(starts, ends)] for values in self.values]

    def by_quantity(self, experiment: Experiment) -> dict[str, dict[str, Series]]:
        """Return the quantities that every run has, `average` and `recent`, as measure → quantity → series."""
        checkpoints = checkpoint_rounds(experiment)
        averages, recent = self.averages(checkpoints), self.averages(checkpoints, window_of(experiment))
        names = map(measure_name, experiment.measures)
        return {name: {"average": all, "recent": last} for name, all, last in zip(names, averages, recent)}


class Recorder:
    """Recorder of one run."""

    def __init__(
        self, experiment: Experiment, learner: AnyLearner, stream: Stream, held_out: Dataset | None = None
    ) -> None:
        self.experiment, self.learner, self.held_out = experiment, learner, held_out
        self.checkpoints = checkpoint_rounds(experiment)
        self.due = frozenset(self.checkpoints.tolist())
        self.shown = MeasuredRounds(experiment, experiment.horizon)
        self.predicted = MeasuredRounds(experiment, experiment.horizon) if experiment.predicted else None
        measures = self.shown.measures
        self.best = [best_fixed(measure, stream.problem) if experiment.regret else None for measure in measures]
        self.regrets: list[Series] = [[] for _ in measures]
        self.of_new_queries: list[Series] = [[] for _ in measures]
        self.reports: dict[str, Series] = {path: [] for path in learner.reports}

    def add(self, round: Round) -> None:
        """Record a round."""
        shown, due = self.shown, round.t + 1 in self.due
        shown.add(round.decision.ranking, round.relevance)
        if self.predicted is not None:
            self.predicted.add(self.learner.predict(round.state, round.query), round.relevance)
        if due or len(shown.rankings) == MAX_CHUNK_ROUNDS:
            for best in self.best:
                if best is not None:
                    best.add(np.array(shown.rankings), np.array(shown.relevance))
            shown.judge()
            if self.predicted is not None:
                self.predicted.judge()
        if due:
            self._add_regrets()
            for path, series in self.reports.items():
                number = attrgetter(path)(round.learned)
                series.append(float(number) if np.ndim(number) == 0 and math.isfinite(number) else None)
            if self.held_out is not None:
                judged = round.t + 1 in self.experiment.new_queries
                means = self._means_of(round.learned, self.held_out) if judged else [None] * len(self.of_new_queries)
                for series, mean in zip(self.of_new_queries, means):
                    series.append(mean)

    def values(self) -> dict[str, dict[str, Series]]:
        """Return measure → quantity → series."""
        values = self.shown.by_quantity(self.experiment)
        predicted = [] if self.predicted is None else self.predicted.averages(self.checkpoints)
        further = {"predicted": predicted, "regret": self.regrets, "new_queries": self.of_new_queries}
        for quantity, all_series in further.items():
            for quantities, series in zip(values.values(), all_series):
                if series:
                    quantities[quantity] = series
        return values

    def _add_regrets(self) -> None:
        """Add average regrets against factor · best: gains fall short of it, losses exceed it."""
        factor, n_rounds = self.experiment.regret_factor, self.shown.filled
        for measure, best, row, series in zip(self.shown.measures, self.best, self.shown.values, self.regrets):
            if best is not None:
                lead, total = best.lead(), float(np.nansum(row[:n_rounds]))
                sign = 1.0 if measure.higher_is_better else -1.0
                regret = lead if factor == 1.0 else sign * (factor * (total + sign * lead) - total)
                series.append(regret / n_rounds)

    def _means_of(self, state: Any, dataset: Dataset) -> Series:
        """Return the mean of each measure over the rankings that the learner predicts for all queries of a data set."""
        features, relevance, offsets, names = dataset
        rankings = MeasuredRounds(self.experiment, dataset.n_queries)
        for name, start, end in zip(names, offsets[:-1].tolist(), offsets[1:].tolist()):
            query = Query(name, features[start:end], NO_CONTEXT)
            rankings.add(self.learner.predict(state, query), relevance[start:end])
        rankings.judge()
        return [series[0] for series in rankings.averages(np.array([dataset.n_queries]))]


def _mean(values: Floats) -> float | None:
    counted = values[~np.isnan(values)]
    return float(counted.mean()) if len(counted) else None

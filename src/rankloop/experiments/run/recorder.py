"""What a run writes down: every round is judged by the measures, the checkpoints are kept."""

import math
from typing import Any

import numpy as np

from rankloop.core.protocols import AnyLearner, Measure, Stream
from rankloop.core.registry import build
from rankloop.core.types import Floats, Ints, Problem, Query
from rankloop.data.dataset import NO_CONTEXT, Dataset
from rankloop.experiments.run.regret import best_fixed
from rankloop.experiments.run.tasks import checkpoint_rounds, measure_name, window_of
from rankloop.experiments.spec.model import Experiment
from rankloop.measures.base import RankedMeasure
from rankloop.simulate.play import Round

Series = list[float | None]  # one value per checkpoint; None: not a number
CHUNK = 1024  # rounds judged in one call


class Recorder:
    """All that is recorded of one run."""

    def __init__(
        self, experiment: Experiment, learner: AnyLearner, stream: Stream, held_out: Dataset | None = None
    ) -> None:
        self.experiment, self.learner, self.held_out = experiment, learner, held_out
        self.checkpoints = checkpoint_rounds(experiment)
        self.due = frozenset(self.checkpoints.tolist())
        self.judges = judges_of(experiment)
        self.shown = _Rounds(self.judges)
        self.predicted = _Rounds(judges_of(experiment)) if experiment.predicted else None
        regretted = self.judges if experiment.regret else []
        self.regrets = [_Regret(judge, stream.problem, experiment.regret_factor) for judge in regretted]
        self.reports: dict[str, Series] = {path: [] for path in learner.reports}
        self.of_new_queries: list[Series] = [[] for _ in self.judges]

    def add(self, round: Round) -> None:
        self.shown.add(round.decision.ranking, round.relevance)
        if self.predicted is not None:
            self.predicted.add(self.learner.predict(round.state, round.query), round.relevance)
        if round.t + 1 in self.due:
            self._judge()
            for regret in self.regrets:
                regret.write_down()
            for path, series in self.reports.items():
                series.append(_number_at(round.learned, path))
            if self.held_out is not None:
                self._judge_new_queries(round, self.held_out)
        elif len(self.shown.rankings) == CHUNK:
            self._judge()

    def values(self) -> dict[str, dict[str, Series]]:
        """Measure → quantity → series."""
        values = values_of(self.experiment, self.judges)
        for judge in self.predicted.judges if self.predicted is not None else []:
            values[str(judge.measure)]["predicted"] = _plain(judge.averages(self.checkpoints))
        for regret in self.regrets:
            if regret.best is not None:
                values[str(regret.judge.measure)]["regret"] = _plain(np.array(regret.at_checkpoints))
        for judge, series in zip(self.judges, self.of_new_queries):
            if series:
                values[str(judge.measure)]["new_queries"] = series
        return values

    def _judge_new_queries(self, round: Round, dataset: Dataset) -> None:
        wanted = round.t + 1 in self.experiment.new_queries
        means = means_of(self.learner, round.learned, dataset, self.judges) if wanted else [None] * len(self.judges)
        for series, mean in zip(self.of_new_queries, means):
            series.append(mean)

    def _judge(self) -> None:
        self.shown.judge(self.regrets)
        if self.predicted is not None:
            self.predicted.judge()


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


def judges_of(experiment: Experiment) -> list[Judge]:
    """One for each measure."""
    return [Judge(build(measure, "measure"), experiment.horizon) for measure in experiment.measures]


def means_of(learner: AnyLearner, state: Any, dataset: Dataset, judges: list[Judge]) -> Series:
    """The mean of each measure over the rankings that the learner would predict for all queries of a data set."""
    features, relevance, offsets, names = dataset
    rankings = _Rounds([Judge(judge.measure, dataset.n_queries) for judge in judges])
    for name, start, end in zip(names, offsets[:-1].tolist(), offsets[1:].tolist()):
        rankings.add(learner.predict(state, Query(name, features[start:end], NO_CONTEXT)), relevance[start:end])
    rankings.judge()
    return [value for judge in rankings.judges for value in _plain(judge.averages(np.array([judge.filled])))]


def values_of(experiment: Experiment, judges: list[Judge]) -> dict[str, dict[str, Series]]:
    """What every run has: `average` and `recent` of each measure."""
    checkpoints, window = checkpoint_rounds(experiment), window_of(experiment)
    return {
        measure_name(measure): {
            "average": _plain(judge.averages(checkpoints)),
            "recent": _plain(judge.recent(checkpoints, window)),
        }
        for measure, judge in zip(experiment.measures, judges)
    }


class _Rounds:
    """Rankings and their relevance, held until a chunk is full, then judged together."""

    def __init__(self, judges: list[Judge]) -> None:
        self.judges = judges
        self.rankings: list[Ints] = []
        self.relevance: list[Floats] = []

    def add(self, ranking: Ints, relevance: Floats) -> None:
        self.rankings.append(ranking)
        self.relevance.append(relevance)

    def judge(self, regrets: "list[_Regret] | tuple[()]" = ()) -> None:
        """Every held round by every judge."""
        if not self.rankings:
            return
        offsets = np.concatenate([[0], np.cumsum([len(ranking) for ranking in self.rankings])])
        self.judge_all(np.concatenate(self.rankings), np.concatenate(self.relevance), offsets)
        for regret in regrets:
            if regret.best is not None:
                regret.best.add(np.array(self.rankings), np.array(self.relevance))
        self.rankings.clear()
        self.relevance.clear()

    def judge_all(self, rankings: Ints, relevance: Floats, offsets: Ints) -> None:
        """Rankings one after another; for a measure of scores each becomes some that fall with the position."""
        for judge in self.judges:
            measure = judge.measure
            if isinstance(measure, RankedMeasure):
                judge.add(measure.of_rankings(rankings, relevance, offsets))
            else:
                starts = np.repeat(offsets[:-1], np.diff(offsets))
                scores = np.empty(offsets[-1])
                scores[starts + rankings] = starts - np.arange(offsets[-1])
                judge.add(measure.of_scores(scores, relevance, offsets))


class _Regret:
    """The average regret of one measure at every checkpoint, where the best fixed ranking is within reach."""

    def __init__(self, judge: Judge, problem: Problem, factor: float) -> None:
        self.judge = judge
        self.best = best_fixed(judge.measure, problem)
        self.factor = factor
        self.at_checkpoints: list[float] = []

    def write_down(self) -> None:
        """Against factor · best: gains fall short of it, losses exceed it."""
        if self.best is None:
            return
        lead, total = self.best.lead(), self.judge.total()
        gain = self.judge.measure.higher_is_better
        best = total + lead if gain else total - lead
        regret = self.factor * best - total if gain else total - self.factor * best
        self.at_checkpoints.append((regret if self.factor != 1.0 else lead) / self.judge.filled)


def _number_at(state: Any, path: str) -> float | None:
    """The number at a dotted path into a state; None for what is no finite number."""
    for name in path.split("."):
        state = getattr(state, name)
    if np.ndim(state) != 0 or not math.isfinite(state):
        return None
    return float(state)


def _plain(values: Floats) -> Series:
    return [None if math.isnan(value) else value for value in values.tolist()]

"""One run: an arm plays a stream with a seed, and what the checkpoints say is kept."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from rankloop.core.errors import InvalidInput, RankloopError
from rankloop.core.protocols import AnyLearner, Stream
from rankloop.core.registry import build
from rankloop.core.types import Floats
from rankloop.experiments.run.recorder import CHUNK, Judge, Regrets, Rounds
from rankloop.experiments.run.tasks import (
    VERSION,
    Task,
    checkpoint_rounds,
    fingerprint,
    measure_name,
    window_of,
    with_horizon,
)
from rankloop.experiments.spec.model import CEILING, Arm, Experiment
from rankloop.experiments.spec.plugins import code_key, import_here
from rankloop.simulate.play import Round, play

Series = list[float | None]  # one value per checkpoint; None: not a number


class Run(Struct, frozen=True, kw_only=True):
    """A finished run: one line of the results."""

    format: int = 1
    version: str
    fingerprint: str
    experiment: Experiment
    stream: str
    arm: str
    seed: int
    checkpoints: list[int]
    values: dict[str, dict[str, Series]]  # measure → quantity → series
    reports: dict[str, Series]
    refused: int = 0  # updates that would have been unstable
    seconds: float
    code: str = ""  # which source of the package, and of imported modules, made it

    @property
    def key(self) -> tuple[str, str, int]:
        return self.stream, self.arm, self.seed


def run_one(task: Task) -> Run:
    """Play the task; whatever goes wrong names the arm."""
    started = time.perf_counter()
    import_here(task.modules)
    try:
        values, reports, refused = _play(task)
    except RankloopError as error:
        raise type(error)(f"arm {task.arm!r}, seed {task.seed}: {error}") from error
    return Run(
        version=VERSION,
        code=code_key(task.experiment.imports),
        fingerprint=fingerprint(task.experiment),
        experiment=task.experiment,
        stream=task.stream,
        arm=task.arm,
        seed=task.seed,
        checkpoints=checkpoint_rounds(task.experiment).tolist(),
        values=values,
        reports=reports,
        refused=refused,
        seconds=round(time.perf_counter() - started, 3),
    )


def rehearse(experiment: Experiment) -> None:
    """Play the first round of every arm on every stream: what does not fit is found before anything is written."""
    for table in experiment.all_streams.values():
        stream: Stream = build(with_horizon(table, experiment.horizon), "stream")
        for arm in experiment.all_arms:
            learner: AnyLearner = build(with_horizon(arm.learner, experiment.horizon), "learner")
            try:
                next(_rounds(experiment, arm, learner, stream, seed=0), None)
            except RankloopError as error:
                raise type(error)(f"arm {arm.name!r}: {error}") from error


def _play(task: Task) -> tuple[dict[str, dict[str, Series]], dict[str, Series], int]:
    experiment = task.experiment
    stream: Stream = build(with_horizon(experiment.all_streams[task.stream], experiment.horizon), "stream")
    if task.arm == CEILING:
        return _ceiling(experiment, stream, task.seed), {}, 0
    arm = next(arm for arm in experiment.all_arms if arm.name == task.arm)
    learner: AnyLearner = build(with_horizon(arm.learner, experiment.horizon), "learner")
    book = _Book(experiment, learner, stream)
    rounds = refused = 0
    for round in _rounds(experiment, arm, learner, stream, task.seed):
        book.add(round)
        rounds, refused = round.t + 1, round.refused
    if rounds < experiment.horizon:
        raise InvalidInput(f"the stream ended after {rounds} rounds, before the horizon, {experiment.horizon}")
    return book.values(), book.reports, refused


class _Book:
    """The accounts of one run."""

    def __init__(self, experiment: Experiment, learner: AnyLearner, stream: Stream) -> None:
        self.experiment, self.learner = experiment, learner
        self.checkpoints = checkpoint_rounds(experiment)
        self.due = frozenset(self.checkpoints.tolist())
        self.judges = _judges(experiment)
        self.shown = Rounds(self.judges)
        self.predicted = Rounds(_judges(experiment)) if experiment.predicted else None
        regretted = self.judges if experiment.regret else []
        self.regrets = [Regrets(judge, stream.problem, experiment.regret_factor) for judge in regretted]
        self.reports: dict[str, Series] = {path: [] for path in learner.reports}

    def add(self, round: Round) -> None:
        self.shown.add(round.decision.ranking, round.relevance)
        if self.predicted is not None:
            self.predicted.add(self.learner.predict(round.state, round.query), round.relevance)
        if round.t + 1 in self.due:
            self._judge()
            for regrets in self.regrets:
                regrets.write_down()
            for path, series in self.reports.items():
                series.append(_number_at(round.learned, path))
        elif len(self.shown.rankings) == CHUNK:
            self._judge()

    def _judge(self) -> None:
        self.shown.judge()
        for regrets in self.regrets:
            regrets.add(self.shown)
        self.shown.forget()
        if self.predicted is not None:
            self.predicted.judge()
            self.predicted.forget()

    def values(self) -> dict[str, dict[str, Series]]:
        values = _values(self.experiment, self.judges)
        for judge in self.predicted.judges if self.predicted is not None else []:
            values[str(judge.measure)]["predicted"] = _plain(judge.averages(self.checkpoints))
        for regrets in self.regrets:
            if regrets.account is not None:
                values[str(regrets.judge.measure)]["regret"] = _plain(np.array(regrets.at_checkpoints))
        return values


def _rounds(experiment: Experiment, arm: Arm, learner: AnyLearner, stream: Stream, seed: int) -> Iterator[Round]:
    people = build(with_horizon(arm.feedback, experiment.horizon), "feedback")
    delivery = None if arm.delivery is None else build(with_horizon(arm.delivery, experiment.horizon), "delivery")
    return play(learner, stream, people, horizon=experiment.horizon, seed=seed, delivery=delivery)


def _ceiling(experiment: Experiment, stream: Stream, seed: int) -> dict[str, dict[str, Series]]:
    """What the best ranking of every single query would get, of the same queries that the arms meet."""
    judges = _judges(experiment)
    anyone = Arm(name=CEILING, learner="random_order")
    for round in _rounds(experiment, anyone, build("random_order"), stream, seed):
        for judge in judges:
            judge.add(np.array([judge.measure.best(round.relevance)]))
    return _values(experiment, judges)


def _judges(experiment: Experiment) -> list[Judge]:
    return [Judge(build(measure, "measure"), experiment.horizon) for measure in experiment.measures]


def _values(experiment: Experiment, judges: list[Judge]) -> dict[str, dict[str, Series]]:
    checkpoints, window = checkpoint_rounds(experiment), window_of(experiment)
    return {
        measure_name(measure): {
            "average": _plain(judge.averages(checkpoints)),
            "recent": _plain(judge.recent(checkpoints, window)),
        }
        for measure, judge in zip(experiment.measures, judges)
    }


def _number_at(state: Any, path: str) -> float | None:
    """The number at a dotted path into a state; None for what is no finite number."""
    for name in path.split("."):
        state = getattr(state, name)
    if np.ndim(state) != 0 or not math.isfinite(state):
        return None
    return float(state)


def _plain(values: Floats) -> Series:
    return [None if math.isnan(value) else value for value in values.tolist()]

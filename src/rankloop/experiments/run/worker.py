"""One run: an arm plays a stream with a seed, and what the checkpoints say is kept."""

import time
from collections.abc import Iterator

from msgspec import Struct

from rankloop.core.errors import InvalidInput, RankloopError
from rankloop.core.protocols import AnyLearner, Stream
from rankloop.core.registry import build
from rankloop.core.session import generators
from rankloop.data.dataset import Dataset
from rankloop.experiments.run.recorder import MeasuredRounds, Recorder, Series
from rankloop.experiments.run.tasks import VERSION, Task, checkpoint_rounds, fingerprint, with_horizon
from rankloop.experiments.spec.model import CEILING, Arm, Experiment
from rankloop.experiments.spec.plugins import code_key, import_on_worker
from rankloop.simulate.play import Round, play
from rankloop.simulate.streams.held_out import HeldOut


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
    import_on_worker(task.modules)
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


def dry_run(experiment: Experiment) -> None:
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
    recorder = Recorder(experiment, learner, stream, _held_out(experiment, stream, task.seed))
    rounds = refused = 0
    for round in _rounds(experiment, arm, learner, stream, task.seed):
        recorder.add(round)
        rounds, refused = round.t + 1, round.refused
    if rounds < experiment.horizon:
        raise InvalidInput(f"the stream ended after {rounds} rounds, before the horizon, {experiment.horizon}")
    return recorder.values(), recorder.reports, refused


def _held_out(experiment: Experiment, stream: Stream, seed: int) -> Dataset | None:
    """The queries that `play` with this seed never shows."""
    if not experiment.new_queries:
        return None
    if not isinstance(stream, HeldOut):
        raise InvalidInput("new_queries needs a held_out stream")
    return stream.parts(generators(seed)[0])[1]


def _rounds(experiment: Experiment, arm: Arm, learner: AnyLearner, stream: Stream, seed: int) -> Iterator[Round]:
    people = build(with_horizon(arm.feedback, experiment.horizon), "feedback")
    delivery = None if arm.delivery is None else build(with_horizon(arm.delivery, experiment.horizon), "delivery")
    return play(learner, stream, people, horizon=experiment.horizon, seed=seed, delivery=delivery)


def _ceiling(experiment: Experiment, stream: Stream, seed: int) -> dict[str, dict[str, Series]]:
    """What the best ranking of every single query would get, of the same queries that the arms meet."""
    best = MeasuredRounds(experiment, experiment.horizon)
    anyone = Arm(name=CEILING, learner="random_order")
    for round in _rounds(experiment, anyone, build("random_order"), stream, seed):
        best.add_best(round.relevance)
    return best.by_quantity(experiment)

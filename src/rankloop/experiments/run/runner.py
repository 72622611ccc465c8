"""Run experiments: missing runs are computed on an engine and saved in a folder, one line for each."""

import io
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from rankloop.core.errors import Conflict, InvalidInput, RankloopError
from rankloop.core.extras import import_extra
from rankloop.core.files import atomic_write
from rankloop.core.protocols import Stream
from rankloop.core.session import generators
from rankloop.engine import Engine
from rankloop.experiments.run.recorder import MeasuredRounds, Recorder, Series
from rankloop.experiments.run.tasks import PACKAGE_VERSION, Task, checkpoint_rounds, deciding_fields, tasks_of
from rankloop.experiments.spec.model import CEILING, Arm, Experiment
from rankloop.experiments.spec.plugins import code_key, import_on_worker
from rankloop.simulate.play import Round, play
from rankloop.simulate.streams.pool import HeldOut

try:
    import fcntl
except ImportError:  # Windows: two writers in one folder are not detected
    fcntl = None  # type: ignore[assignment]

RUNS_FILE = "runs.jsonl"
Progress = Callable[[int, int], Any]  # finished, of how many
Values = dict[str, dict[str, Series]]  # measure → quantity → series


class Run(Struct, frozen=True, kw_only=True):
    """Finished run: a line of the results."""

    format: int = 1
    version: str
    experiment: Experiment
    stream: str
    arm: str
    seed: int
    checkpoints: list[int]
    values: Values
    reports: dict[str, Series]
    refused: int = 0  # updates that would have been unstable
    seconds: float
    code: str = ""  # a hash of the package and the imported modules

    @property
    def key(self) -> tuple[str, str, int]:
        """Return the stream, the arm and the seed, which identify a run."""
        return self.stream, self.arm, self.seed


def _run_one(task: Task) -> Run:
    """Play a task; an error names the arm and the seed."""
    started = time.perf_counter()
    import_on_worker(task.modules)
    try:
        values, reports, refused = _play(task)
    except RankloopError as error:
        raise type(error)(f"arm {task.arm!r}, seed {task.seed}: {error}") from error
    return Run(
        version=PACKAGE_VERSION,
        code=code_key(task.experiment.imports),
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


def _play(task: Task) -> tuple[Values, dict[str, Series], int]:
    """Return what a run records: values, reports of the learner, and the number of refused updates."""
    experiment, seed = task.experiment, task.seed
    stream: Stream = experiment.build(experiment.all_streams[task.stream], "stream")
    if task.arm == CEILING:  # the best ranking of every single query, on the queries that the arms play
        best = MeasuredRounds(experiment, experiment.horizon)
        for round in _rounds(experiment, Arm(name=CEILING, learner="random_order"), stream, seed):
            best.values[:, round.t] = [measure.best(round.relevance) for measure in best.measures]
        return best.by_quantity(experiment), {}, 0
    arm = next(arm for arm in experiment.all_arms if arm.name == task.arm)
    if experiment.new_queries and not isinstance(stream, HeldOut):
        raise InvalidInput("new_queries needs held-out queries: use the stream held_out")
    held_out = stream.parts(generators(seed)[0])[1] if experiment.new_queries and isinstance(stream, HeldOut) else None
    recorder = Recorder(experiment, experiment.build(arm.learner, "learner"), stream, held_out)
    rounds = refused = 0
    for round in _rounds(experiment, arm, stream, seed):
        recorder.add(round)
        rounds, refused = round.t + 1, round.refused
    if rounds < experiment.horizon:
        raise InvalidInput(f"the stream ended after {rounds} of {experiment.horizon} rounds: lower the horizon")
    return recorder.values(), recorder.reports, refused


def _rounds(experiment: Experiment, arm: Arm, stream: Stream, seed: int) -> Iterator[Round]:
    learner, users = experiment.build(arm.learner, "learner"), experiment.build(arm.feedback, "feedback")
    delivery = None if arm.delivery is None else experiment.build(arm.delivery, "delivery")
    return play(learner, stream, users, horizon=experiment.horizon, seed=seed, delivery=delivery)


def run_experiment(
    experiment: Experiment, folder: Path, engine: Engine, progress: Progress = lambda finished, of: None
) -> list[Run]:
    """Run an experiment, and return its runs in the order of its tasks.

    Args:
      experiment: The experiment.
      folder: The folder of the results; runs that it has are not repeated.
      engine: The engine that computes.
      progress: Called with the number of finished runs and of all runs.
    """
    if not (folder / RUNS_FILE).exists():
        # The first round of every arm finds errors before anything is written.
        for spec in experiment.all_streams.values():
            stream = experiment.build(spec, "stream")
            for arm in experiment.all_arms:
                try:
                    next(_rounds(experiment, arm, stream, seed=0), None)
                except RankloopError as error:
                    raise type(error)(f"arm {arm.name!r}: {error}") from error
    tasks = tasks_of(experiment)
    with _open_results(folder, experiment) as (file, runs):
        missing = [task for task in tasks if task.key not in runs]
        n_finished = count(len(tasks) - len(missing))

        def keep(index: int, run: Run) -> None:
            """Append a run to its file, and wait until it is on the disk."""
            file.write(msgspec.json.encode(run) + b"\n")
            file.flush()
            os.fsync(file.fileno())
            runs[run.key] = run
            progress(next(n_finished), len(tasks))

        progress(next(n_finished), len(tasks))
        engine.map(missing, _run_one, keep)
        finished_runs = [runs[task.key] for task in tasks]
        _write_parquet(folder / "runs.parquet", finished_runs)
        return finished_runs


@contextmanager
def _open_results(folder: Path, experiment: Experiment) -> Iterator[tuple[BinaryIO, dict[tuple[str, str, int], Run]]]:
    """Open the runs in a folder for more of them; an incomplete last line, left by an interruption, is dropped."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / RUNS_FILE).open("a+b") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(f"another process is writing to {folder}: wait, or choose another with --out") from None
        runs, code = read_runs(folder), code_key(experiment.imports)
        _check_same(runs, experiment, folder)
        others = sum(run.code not in ("", code) for run in runs)
        if others:
            warnings.warn(
                f"{others} of {len(runs)} runs in {folder} were made by other code and are not repeated; "
                "to repeat them delete the folder, or choose another with --out",
                RuntimeWarning,
                stacklevel=2,
            )
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        yield file, {run.key: run for run in runs}


def read_runs(folder: Path) -> list[Run]:
    """Return the finished runs in a folder."""
    path, runs = folder / RUNS_FILE, []
    content = path.read_bytes()
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            runs.append(msgspec.json.decode(line, type=Run))
        except msgspec.DecodeError as error:
            raise InvalidInput(f"{path}, line {number} is damaged ({error}); delete it to repeat the run") from None
    return runs


def _check_same(runs: list[Run], experiment: Experiment, folder: Path) -> None:
    """Raise `Conflict` if runs are of another experiment or of another version."""
    ours, advice = deciding_fields(experiment), "choose another folder with --out, or delete this one"
    for run in runs:
        theirs = deciding_fields(run.experiment)
        names = [name for name in ours if ours[name] != theirs[name]]
        if names:
            differs = f"different: {', '.join(names)}"
            raise Conflict(f"{folder} has results of another experiment {run.experiment.name!r} ({differs}); {advice}")
        if run.version != PACKAGE_VERSION:
            raise Conflict(f"{folder} has results of rankloop {run.version}, but this is {PACKAGE_VERSION}; {advice}")


def _write_parquet(path: Path, runs: list[Run]) -> None:
    """Write runs as a long table; `measure` is empty for what learners report."""
    pa, pq = import_extra("pyarrow"), import_extra("pyarrow.parquet")
    names = ("experiment", "stream", "arm", "seed", "measure", "quantity", "round", "value")
    rows = [
        dict(zip(names, (run.experiment.name, *run.key, measure, quantity, round, value)))
        for run in runs
        for measure, quantities in (run.values | {"": run.reports}).items()
        for quantity, values in quantities.items()
        for round, value in zip(run.checkpoints, values)
    ]
    types = {"seed": pa.int64(), "round": pa.int64(), "value": pa.float64()}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), buffer)
    atomic_write(path, buffer.getvalue())

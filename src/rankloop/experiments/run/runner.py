"""Run experiments: missing runs are computed on an engine and saved in a folder, one line for each."""

import io
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from rankloop.core.errors import Conflict, InvalidInput, RankloopError
from rankloop.core.extras import import_extra
from rankloop.core.files import atomic_write
from rankloop.core.protocols import AnyLearner, Stream
from rankloop.core.registry import build
from rankloop.core.session import generators
from rankloop.data.dataset import Dataset
from rankloop.engine import Engine
from rankloop.experiments.run.recorder import MeasuredRounds, Recorder, Series
from rankloop.experiments.run.tasks import PACKAGE_VERSION, Task, checkpoint_rounds, fingerprint, tasks_of, with_horizon
from rankloop.experiments.spec.model import CEILING, Arm, Experiment
from rankloop.experiments.spec.plugins import code_key, import_on_worker
from rankloop.simulate.play import Round, play
from rankloop.simulate.streams.pool import HeldOut


class Run(Struct, frozen=True, kw_only=True):
    """Finished run: a line of the results."""

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


def _dry_run(experiment: Experiment) -> None:
    """Play the first round of every arm on every stream, to find errors before anything is written."""
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
        raise InvalidInput(
            f"the stream ended after {rounds} rounds, before the horizon of {experiment.horizon}: lower the horizon"
        )
    return recorder.values(), recorder.reports, refused


def _held_out(experiment: Experiment, stream: Stream, seed: int) -> Dataset | None:
    """Return the queries that `play` with this seed never shows."""
    if not experiment.new_queries:
        return None
    if not isinstance(stream, HeldOut):
        raise InvalidInput("new_queries needs held-out queries: use the stream held_out")
    return stream.parts(generators(seed)[0])[1]


def _rounds(experiment: Experiment, arm: Arm, learner: AnyLearner, stream: Stream, seed: int) -> Iterator[Round]:
    users = build(with_horizon(arm.feedback, experiment.horizon), "feedback")
    delivery = None if arm.delivery is None else build(with_horizon(arm.delivery, experiment.horizon), "delivery")
    return play(learner, stream, users, horizon=experiment.horizon, seed=seed, delivery=delivery)


def _ceiling(experiment: Experiment, stream: Stream, seed: int) -> dict[str, dict[str, Series]]:
    """Measure the best ranking of every single query, on the queries that the arms play."""
    best = MeasuredRounds(experiment, experiment.horizon)
    placeholder = Arm(name=CEILING, learner="random_order")
    for round in _rounds(experiment, placeholder, build("random_order"), stream, seed):
        best.add_best(round.relevance)
    return best.by_quantity(experiment)


try:
    import fcntl
except ImportError:  # Windows: two writers in one folder are not detected
    fcntl = None  # type: ignore[assignment]

RUNS_FILE = "runs.jsonl"
Progress = Callable[[int, int], Any]  # finished, of how many


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
    return run_experiments([(experiment, folder)], engine, progress)[0]


def run_experiments(
    experiments: Sequence[tuple[Experiment, Path]], engine: Engine, progress: Progress = lambda finished, of: None
) -> list[list[Run]]:
    """Run several experiments on one engine, whose workers start once.

    Args:
      experiments: The experiments, each with its folder.
      engine: The engine that computes.
      progress: Called with the number of finished runs and of all runs.
    """
    for experiment, folder in experiments:
        if not (folder / RUNS_FILE).exists():
            _dry_run(experiment)
    with ExitStack() as opened:
        stores = [opened.enter_context(_open_results(folder, experiment)) for experiment, folder in experiments]
        missing = [(task, store) for store in stores for task in store.tasks if task.key not in store.runs]
        of = sum(len(store.tasks) for store in stores)
        finished = of - len(missing)

        def keep(index: int, run: Run) -> None:
            nonlocal finished
            missing[index][1].add(run)
            finished += 1
            progress(finished, of)

        progress(finished, of)
        engine.map([task for task, _ in missing], _run_one, keep)
        for (_, folder), store in zip(experiments, stores):
            _write_parquet(folder / "runs.parquet", store.in_order())
        return [store.in_order() for store in stores]


class RunFile:
    """Finished runs of an experiment, and the file for the next ones."""

    def __init__(self, file: BinaryIO, runs: list[Run], tasks: list[Task]) -> None:
        self.file, self.tasks = file, tasks
        self.runs = {run.key: run for run in runs}

    def add(self, run: Run) -> None:
        """Append a run to the file, and wait until it is on the disk."""
        self.file.write(msgspec.json.encode(run) + b"\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.runs[run.key] = run

    def in_order(self) -> list[Run]:
        """Return the runs in the order of the tasks."""
        return [self.runs[task.key] for task in self.tasks]


@contextmanager
def _open_results(folder: Path, experiment: Experiment) -> Iterator[RunFile]:
    """Open the results in a folder; an incomplete last line, left by an interruption, is dropped."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / RUNS_FILE).open("a+b") as file:
        _lock(file, folder)
        file.seek(0)
        content = file.read()
        complete_lines = content[: content.rfind(b"\n") + 1]
        runs = _decoded(complete_lines, folder / RUNS_FILE)
        _check_same(runs, experiment, folder)
        _warn_of_other_code(runs, code_key(experiment.imports), folder)
        if len(complete_lines) < len(content):
            file.truncate(len(complete_lines))
        yield RunFile(file, runs, tasks_of(experiment))


def read_runs(folder: Path) -> list[Run]:
    """Return the finished runs in a folder."""
    content = (folder / RUNS_FILE).read_bytes()
    return _decoded(content[: content.rfind(b"\n") + 1], folder / RUNS_FILE)


def _decoded(content: bytes, path: Path) -> list[Run]:
    runs = []
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            runs.append(msgspec.json.decode(line, type=Run))
        except msgspec.DecodeError as error:
            raise InvalidInput(
                f"{path}, line {number} is damaged ({error}); delete this line to repeat the run"
            ) from None
    return runs


def _check_same(runs: list[Run], experiment: Experiment, folder: Path) -> None:
    """Raise `Conflict` if runs are of another experiment or of another version."""
    ours = fingerprint(experiment)
    for run in runs:
        if fingerprint(run.experiment) != ours:
            fields = run.experiment.__struct_fields__
            names = [name for name in fields if getattr(run.experiment, name) != getattr(experiment, name)]
            differs = f"{', '.join(names)} differ{'s' * (len(names) == 1)}"
            raise Conflict(
                f"{folder} has results of a different experiment {run.experiment.name!r} ({differs}); "
                "choose another folder with --out, or delete this one"
            )
        if run.version != PACKAGE_VERSION:
            raise Conflict(
                f"{folder} has results of rankloop {run.version}, but this is version {PACKAGE_VERSION}; "
                "choose another folder with --out, or delete this one"
            )


def _warn_of_other_code(runs: list[Run], code: str, folder: Path) -> None:
    """Warn if saved runs were made by other code, since they are not repeated."""
    others = sum(run.code not in ("", code) for run in runs)
    if others:
        warnings.warn(
            f"{others} of {len(runs)} runs in {folder} were made by other code and are not repeated; "
            "to repeat them delete the folder, or choose another with --out",
            RuntimeWarning,
            stacklevel=2,
        )


def _lock(file: BinaryIO, folder: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Conflict(
            f"another process is writing to {folder}; wait for it, or choose another folder with --out"
        ) from None


def _write_parquet(path: Path, runs: Iterable[Run]) -> None:
    """Write runs as a long table; `measure` is empty for what learners report."""
    pa = import_extra("pyarrow")
    pq = import_extra("pyarrow.parquet")

    names = ("experiment", "stream", "arm", "seed", "measure", "quantity", "round", "value")
    types = {"seed": pa.int64(), "round": pa.int64(), "value": pa.float64()}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(_rows_of(runs)), schema=schema), buffer)
    atomic_write(path, buffer.getvalue())


def _rows_of(runs: Iterable[Run]) -> Iterator[dict[str, Any]]:
    for run in runs:
        names = {"experiment": run.experiment.name, "stream": run.stream, "arm": run.arm, "seed": run.seed}
        for measure, quantities in (run.values | {"": run.reports}).items():
            for quantity, values in quantities.items():
                for round, value in zip(run.checkpoints, values):
                    yield names | {"measure": measure, "quantity": quantity, "round": round, "value": value}

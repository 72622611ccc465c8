"""Running whole experiments: missing runs are computed on an engine and kept in a folder, one line for each."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from rankloop.core.errors import Conflict, InvalidInput
from rankloop.engine import Engine
from rankloop.experiments.report.export import write_parquet
from rankloop.experiments.run.tasks import VERSION, Task, fingerprint, tasks_of
from rankloop.experiments.run.worker import Run, dry_run, run_one
from rankloop.experiments.spec.model import Experiment
from rankloop.experiments.spec.plugins import code_key

try:
    import fcntl
except ImportError:  # Windows: two writers in one folder are not noticed there
    fcntl = None  # type: ignore[assignment]

LINES = "runs.jsonl"
Progress = Callable[[int, int], Any]  # finished, of how many


def _silent(finished: int, of: int) -> None:
    """Nobody watches."""


def run_experiment(experiment: Experiment, folder: Path, engine: Engine, progress: Progress = _silent) -> list[Run]:
    """Every run of the experiment, in the order of its tasks; those that the folder has are not repeated."""
    return run_experiments([(experiment, folder)], engine, progress)[0]


def run_experiments(
    experiments: Sequence[tuple[Experiment, Path]], engine: Engine, progress: Progress = _silent
) -> list[list[Run]]:
    """The same for several, each in a folder of its own, handed to the engine together: its workers start once."""
    for experiment, folder in experiments:
        if not (folder / LINES).exists():
            dry_run(experiment)
    with ExitStack() as opened:
        stores = [opened.enter_context(open_results(folder, experiment)) for experiment, folder in experiments]
        missing = [(task, store) for store in stores for task in store.tasks if task.key not in store.runs]
        of = sum(len(store.tasks) for store in stores)
        finished = of - len(missing)

        def keep(index: int, run: Run) -> None:
            nonlocal finished
            missing[index][1].add(run)
            finished += 1
            progress(finished, of)

        progress(finished, of)
        engine.map([task for task, _ in missing], run_one, keep)
        for (_, folder), store in zip(experiments, stores):
            write_parquet(folder / "runs.parquet", store.in_order())
        return [store.in_order() for store in stores]


class RunFile:
    """The finished runs of an experiment, and the file where the next one goes."""

    def __init__(self, file: BinaryIO, runs: list[Run], tasks: list[Task]) -> None:
        self.file, self.tasks = file, tasks
        self.runs = {run.key: run for run in runs}

    def add(self, run: Run) -> None:
        """Keep a run, on the disk before anything else happens."""
        self.file.write(msgspec.json.encode(run) + b"\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.runs[run.key] = run

    def in_order(self) -> list[Run]:
        """Return the runs in the order of the tasks."""
        return [self.runs[task.key] for task in self.tasks]


@contextmanager
def open_results(folder: Path, experiment: Experiment) -> Iterator[RunFile]:
    """The results in a folder, to go on with; a last line that was torn by an interruption is dropped."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LINES).open("a+b") as file:
        _lock(file, folder)
        file.seek(0)
        content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        runs = _decoded(whole, folder / LINES)
        _check_same(runs, experiment, folder)
        _warn_of_other_code(runs, code_key(experiment.imports), folder)
        if len(whole) < len(content):
            file.truncate(len(whole))
        yield RunFile(file, runs, tasks_of(experiment))


def read_runs(folder: Path) -> list[Run]:
    """The finished runs in a folder."""
    content = (folder / LINES).read_bytes()
    return _decoded(content[: content.rfind(b"\n") + 1], folder / LINES)


def _decoded(content: bytes, path: Path) -> list[Run]:
    runs = []
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            runs.append(msgspec.json.decode(line, type=Run))
        except msgspec.DecodeError as error:
            raise InvalidInput(
                f"{path}, line {number} is damaged ({error}); delete this line and the run is made again"
            ) from None
    return runs


def _check_same(runs: list[Run], experiment: Experiment, folder: Path) -> None:
    """Runs of another experiment, or of another version, must not be mixed with new ones."""
    ours = fingerprint(experiment)
    for run in runs:
        if fingerprint(run.experiment) != ours:
            differs = _difference(run.experiment, experiment)
            raise Conflict(
                f"{folder} holds results of a different {run.experiment.name!r} ({differs}); "
                "choose another folder with --out, or delete this one"
            )
        if run.version != VERSION:
            raise Conflict(
                f"{folder} holds results of rankloop {run.version}, this is {VERSION}; "
                "choose another folder with --out, or delete this one"
            )


def _warn_of_other_code(runs: list[Run], code: str, folder: Path) -> None:
    """Results stay when a learner's code changes; who changed it should know."""
    others = sum(run.code not in ("", code) for run in runs)
    if others:
        warnings.warn(
            f"{others} of {len(runs)} runs in {folder} are kept from before and were made by other code; "
            "delete the folder, or choose another with --out, to make them again",
            RuntimeWarning,
            stacklevel=2,
        )


def _difference(ours: Experiment, theirs: Experiment) -> str:
    """The fields in which two experiments differ."""
    names = [name for name in ours.__struct_fields__ if getattr(ours, name) != getattr(theirs, name)]
    return f"{', '.join(names)} differ" if len(names) != 1 else f"{names[0]} differs"


def _lock(file: BinaryIO, folder: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Conflict(
            f"another rankloop is writing to {folder}; wait for it, or choose another folder with --out"
        ) from None

"""Running whole experiments: what is missing is computed, on an engine, and kept as it comes."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rankloop.engine import Engine
from rankloop.experiments.report.export import write_parquet
from rankloop.experiments.run.store import LINES, Results, open_results
from rankloop.experiments.run.tasks import Task, tasks_of
from rankloop.experiments.run.worker import Run, dry_run, run_one
from rankloop.experiments.spec.model import Experiment

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
        tasks = [tasks_of(experiment) for experiment, _ in experiments]
        missing = [(task, store) for own, store in zip(tasks, stores) for task in own if task.key not in store.finished]
        of = sum(map(len, tasks))
        finished = of - len(missing)

        def keep(index: int, run: Run) -> None:
            nonlocal finished
            missing[index][1].add(run)
            finished += 1
            progress(finished, of)

        progress(finished, of)
        engine.map([task for task, _ in missing], run_one, keep)
        return [_in_order(folder, own, store) for (_, folder), own, store in zip(experiments, tasks, stores)]


def _in_order(folder: Path, tasks: list[Task], store: Results) -> list[Run]:
    """The runs in the order of the tasks, also as a table for other tools."""
    runs = {run.key: run for run in store.runs}
    ordered = [runs[task.key] for task in tasks]
    write_parquet(folder / "runs.parquet", ordered)
    return ordered

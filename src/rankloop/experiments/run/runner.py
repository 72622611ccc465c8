"""Running whole experiments: what is missing is computed, on an engine, and kept as it comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rankloop.engine import Engine
from rankloop.experiments.report.export import write_parquet
from rankloop.experiments.run.store import LINES, Results, open_results
from rankloop.experiments.run.tasks import Task, tasks_of
from rankloop.experiments.run.worker import Run, rehearse, run_one
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
            rehearse(experiment)
    with ExitStack() as opened:
        books = [opened.enter_context(open_results(folder, experiment)) for experiment, folder in experiments]
        of = sum(len(tasks_of(experiment)) for experiment, _ in experiments)
        missing = [pair for (experiment, _), book in zip(experiments, books) for pair in _missing(experiment, book)]
        kept: list[int] = []

        def keep(index: int, run: Run) -> None:
            missing[index][1].add(run)
            kept.append(index)
            progress(of - len(missing) + len(kept), of)

        progress(of - len(missing), of)
        engine.map([task for task, _ in missing], run_one, keep)
        return [_in_order(*pair, book) for pair, book in zip(experiments, books)]


def _missing(experiment: Experiment, book: Results) -> list[tuple[Task, Results]]:
    have = book.finished
    return [(task, book) for task in tasks_of(experiment) if _key(task) not in have]


def _key(task: Task) -> tuple[str, str, int]:
    return task.stream, task.arm, task.seed


def _in_order(experiment: Experiment, folder: Path, book: Results) -> list[Run]:
    """The runs in the order of the tasks, also as a table for other tools."""
    runs = {run.key: run for run in book.runs}
    ordered = [runs[_key(task)] for task in tasks_of(experiment)]
    write_parquet(folder / "runs.parquet", ordered)
    return ordered

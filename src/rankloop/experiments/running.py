"""Running a whole experiment: what is missing is computed, on an engine, and kept as it comes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rankloop.engine import Engine
from rankloop.experiments.export import write_parquet
from rankloop.experiments.plan import tasks_of
from rankloop.experiments.results import LINES, open_results
from rankloop.experiments.run import Run, rehearse, run_one
from rankloop.experiments.spec import Experiment

Progress = Callable[[int, int], Any]  # finished, of how many


def run_experiment(
    experiment: Experiment, folder: Path, engine: Engine, progress: Progress = lambda finished, of: None
) -> list[Run]:
    """Every run of the experiment, in the order of its tasks; those that the folder has are not repeated."""
    tasks = tasks_of(experiment)
    if not (folder / LINES).exists():
        rehearse(experiment)
    with open_results(folder, experiment) as results:
        have = results.finished
        missing = [task for task in tasks if (task.stream, task.arm, task.seed) not in have]

        def keep(_: int, run: Run) -> None:
            results.add(run)
            progress(len(tasks) - len(missing) + len(results.runs) - len(have), len(tasks))

        progress(len(tasks) - len(missing), len(tasks))
        engine.map(missing, run_one, keep)
        runs = {run.key: run for run in results.runs}
    ordered = [runs[task.stream, task.arm, task.seed] for task in tasks]
    write_parquet(folder / "runs.parquet", ordered)
    return ordered

"""Training from Python: one call for data sets with grades, logs of clicks and logs of single choices."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rankloop.core.errors import InvalidInput
from rankloop.data.dataset import Dataset, normalise_queries
from rankloop.engine import kept
from rankloop.logs.choice_log import ChoiceLog
from rankloop.logs.list_log import ListLog
from rankloop.logs.reader import read_log
from rankloop.training.clicks.result import ClickTraining
from rankloop.training.clicks.train import train_clicks
from rankloop.training.folds import cut_folds, find_folds
from rankloop.training.policy import PolicyTraining, train_policy
from rankloop.training.solution_path import DEFAULT_PATH, DEFAULT_SOLVER, BatchSolver, Progress, SolverSettings
from rankloop.training.validation import DatasetTraining, cross_validate

LOG_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".pq", ".arrow", ".feather", ".db")


def train(
    data: Any,
    loss: str | None = None,
    *,
    tight: bool = False,
    regularisation: Sequence[float] = DEFAULT_PATH,
    measure: str = "nDCG@10",
    folds: int = 5,
    normalise: bool = False,
    seed: int = 0,
    settings: SolverSettings = DEFAULT_SOLVER,
    progress: Progress = lambda finished, of: None,
) -> DatasetTraining | ClickTraining | PolicyTraining:
    """Train a ranker on a data set with grades, or on a log.

    Each fold trains along the path of regularisations, keeps the one that is best on its validation queries, and is
    measured on its test queries. The model is trained on all queries with the one that is best on average. Logs are
    handed to `train_clicks` and `train_policy`, which have further options.

    Args:
      data: A `Dataset`, a LETOR file, a folder with folds.json or Fold1 …, a folder or an address of parts, or a log
        (see `read_log`): a table, an export, or a service.
      loss: A loss of `RankBundle` or the measure that it bounds; `ordinal` unless given.
      tight: Take the tighter, non-convex bound on a measure.
      regularisation: The values that are tried.
      measure: The measure that chooses the regularisation on data sets.
      folds: The number of folds.
      normalise: Scale every feature of a data set from 0 to 1 inside each query.
      seed: Cuts one file into folds, or draws the held-out lists.
      settings: The tolerance of the solver, and the engine that computes its sums.
      progress: Called with the number of fits that are done, and of all.

    Returns:
      The result: it prints as a table, `to_json` is for programs, and it can be saved.

    Raises:
      InvalidInput: If the data cannot be learned from.
      NotFound: If there are no such data.
    """
    if isinstance(data, str | os.PathLike) and Path(data).suffix.lower() in LOG_SUFFIXES:
        data = read_log(Path(data))
    solver = BatchSolver(loss or "ordinal", tight, regularisation, settings)
    if isinstance(data, ListLog):
        is_default = solver == BatchSolver() and loss is None
        return train_clicks(data, solver=None if is_default else solver, seed=seed, progress=progress)
    if isinstance(data, ChoiceLog):
        return train_policy(data, seed=seed)
    if isinstance(data, Dataset):
        cut = cut_folds(normalise_queries(data) if normalise else data, folds, seed)
        return cross_validate(cut, solver, measure=measure, is_normalised=normalise, progress=progress)
    if not isinstance(data, str | os.PathLike):
        raise InvalidInput(f"train takes a Dataset, a path or a log, got {type(data).__name__}")
    with kept(settings.engine) as engine:
        parts = find_folds(os.fspath(data), folds, engine, normalise=normalise, seed=seed)
        solver = solver._replace(settings=settings._replace(engine=engine))
        return cross_validate(parts, solver, measure=measure, is_normalised=normalise, progress=progress)

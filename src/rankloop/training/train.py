"""Training from Python: one call for data sets with grades, logs of clicks and logs of single choices."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rankloop.core.errors import InvalidInput
from rankloop.data.dataset import Dataset, normalise_queries
from rankloop.data.public_sets import public_path
from rankloop.engine import Cluster, SummingEngine, kept
from rankloop.logs.choice_log import ChoiceLog
from rankloop.logs.list_log import ListLog
from rankloop.logs.reader import read_log
from rankloop.training.clicks.result import ClickTraining
from rankloop.training.clicks.train import train_clicks
from rankloop.training.folds import Fold, cut_folds, read_folds
from rankloop.training.policy import PolicyTraining, train_policy
from rankloop.training.solution_path import DEFAULT_PATH, DEFAULT_SOLVER, BatchSolver, SolverSettings
from rankloop.training.stored_folds import stored_address, stored_folds
from rankloop.training.validation import DatasetTraining, cross_validate

LOG_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".pq", ".arrow", ".feather", ".db")
Progress = Callable[[int, int], None]


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
    judged on its test queries. The model is trained on all queries with the one that is best on average.

    A log of lists is handed to `train_clicks` and a log of single choices to `train_policy`, which have further
    options.

    Args:
      data: A `Dataset`, a LETOR file, a folder with folds.json or Fold1 …, a folder or an address of parts, or a log
        (see `read_log`): a table, an export, or a service.
      loss: A loss of `RankBundle` or the measure that it bounds; `ordinal` unless given.
      tight: Take the tighter, non-convex bound on a measure.
      regularisation: The values that are tried.
      measure: What chooses the regularisation on data sets.
      folds: How many folds.
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
        uses_passes = bool(data.schemas) and loss is None
        return train_clicks(data, solver=None if uses_passes else solver, seed=seed, progress=progress)
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


def find_folds(
    data: str,
    n_folds: int,
    engine: SummingEngine,
    *,
    normalise: bool = False,
    stream: bool = False,
    seed: int = 0,
    progress: Progress = lambda finished, of: None,
) -> list[Fold]:
    """Find the folds of a data set: in memory, or on the disks where that is needed or asked for.

    Args:
      data: A file, a folder, an archive or an address.
      n_folds: How many folds.
      engine: Its workers read parts.
      normalise: Scale every feature from 0 to 1 inside each query.
      stream: Read the data from a cache on disk at every pass, even if they fit into memory.
      seed: Cuts one file into folds.
      progress: Called with the number of parts that were read, and of all.

    Returns:
      The folds.
    """
    address = stored_address(data, isinstance(engine, Cluster), stream)
    if address is not None:
        return stored_folds(address, n_folds, engine, normalise=normalise, progress=progress)
    return read_folds(public_path(data), n_folds, seed, normalise)

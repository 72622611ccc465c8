"""Training from Python: one call for data sets with grades, logs of clicks and logs of single choices."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.saved_session import save
from rankloop.core.types import Floats
from rankloop.data.dataset import Dataset, normalise_queries
from rankloop.engine import kept
from rankloop.logs.choice_log import ChoiceLog
from rankloop.logs.list_log import ListLog
from rankloop.logs.reader import read_log
from rankloop.measures.base import parse_measure
from rankloop.training import solution_path
from rankloop.training.clicks.result import ClickTraining
from rankloop.training.clicks.train import train_clicks
from rankloop.training.folds import Fold, cut_folds, everything, find_folds
from rankloop.training.policy import PolicyTraining, train_policy
from rankloop.training.rank_bundle import NORMALISED_NOTE, session_of
from rankloop.training.report import draw_curves, text_table
from rankloop.training.risks.base import risk_of
from rankloop.training.solution_path import BatchSolver, Fit, Progress, SolverSettings

REPORTED_MEASURES = ("nDCG@1", "nDCG@3", "nDCG@5", "nDCG@10", "AP")
SHORT_NAMES = {"AP": "MAP"}


class FoldResult(NamedTuple):
    """The outcome of one fold."""

    fold: str
    regularisation: float
    curve: Floats  # the measure on the validation queries for each regularisation of the path
    test: dict[str, float]
    fit: Fit


class DatasetTraining(NamedTuple):
    """A linear ranker that was trained on a data set; it prints as the table of its folds."""

    path: tuple[float, ...]
    measure: str
    folds: list[FoldResult]
    best: float  # the regularisation that was best on average
    model: Fit  # on all queries
    solver: BatchSolver
    is_normalised: bool = False  # features were scaled from 0 to 1 inside each query

    def mean(self, measure: str) -> float:
        """Return the mean of a measure over the test queries of the folds."""
        return float(np.mean([fold.test[measure] for fold in self.folds]))

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the model."""
        return tuple(self.model.warnings(self.solver.loss, self.solver.tight))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a file that `rankloop evaluate` and the service read."""
        notes = {"loss": self.solver.loss, "tight": self.solver.tight, "regularisation": self.best}
        save(session_of(self.model.weights), path, notes | {NORMALISED_NOTE: self.is_normalised})

    def __str__(self) -> str:
        names = list(self.folds[0].test)
        header = ("fold", "regularisation", *(SHORT_NAMES.get(name, name) for name in names))
        values = [(fold.fold, fold.regularisation, fold.test) for fold in self.folds]
        values.append(("mean", self.best, {name: self.mean(name) for name in names}))
        rows = [(fold, f"{chosen:g}", *(f"{test[name]:.4f}" for name in names)) for fold, chosen, test in values]
        return f"On the test queries of each fold\n{text_table(header, rows)}"

    def to_json(self) -> dict[str, Any]:
        """Return the chosen regularisation and the measures of every fold."""
        folds = []
        for fold, regularisation, curve, test, model in self.folds:
            validation = dict(zip(map(str, self.path), curve.tolist()))
            numbers = {"validation": validation, "test": test, "gap": model.solution.gap}
            folds.append({"fold": fold, "regularisation": regularisation, **numbers})
        mean = {name: self.mean(name) for name in self.folds[0].test}
        return {"regularisation": self.best, "mean": mean, "folds": folds, "notes": list(self.notes)}

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the measure on the validation queries over the regularisation, into a PNG, SVG or PDF file."""
        curves = self.path, [fold.curve.tolist() for fold in self.folds]
        ylabel = f"{self.measure} on the validation queries"
        draw_curves(path, curves, self.best, xlabel="regularisation", ylabel=ylabel)


def cross_validate(
    folds: Sequence[Fold],
    solver: BatchSolver,
    *,
    measure: str = "nDCG@10",
    is_normalised: bool = False,
    progress: Progress = lambda finished, of: None,
) -> DatasetTraining:
    """Train along the path on every fold, choose on its validation part, and measure on its test part.

    Args:
      folds: The queries, in memory or on disk.
      solver: The loss, the regularisations and the settings.
      measure: The measure that chooses the regularisation.
      is_normalised: Features were scaled inside each query, which the saved model remembers.
      progress: Called with the number of fits that are done, and of all.
    """
    risk, path = risk_of(solver.loss), solver.checked_path()
    best_of, engine = np.argmax if parse_measure(measure).higher_is_better else np.argmin, solver.settings.engine
    total, finished, results = len(folds) * len(path) + 1, 0, []
    for fold in folds:
        fits = []
        for fit in solution_path.fit_path(fold.train, risk, path, tight=solver.tight, settings=solver.settings):
            fits.append(fit)
            finished += 1
            progress(finished, total)
        curve = np.array(solution_path.mean_measures([(fit.weights, measure) for fit in fits], fold.validation, engine))
        best_fit, names = fits[best_of(curve)], list(dict.fromkeys([*REPORTED_MEASURES, measure]))
        test = solution_path.mean_measures([(best_fit.weights, name) for name in names], fold.test, engine)
        results.append(FoldResult(fold.name, best_fit.regularisation, curve, dict(zip(names, test)), best_fit))
    best = path[best_of(np.mean([result.curve for result in results], axis=0))]
    model = solution_path.fit(everything(folds), risk, best, tight=solver.tight, settings=solver.settings)
    progress(total, total)
    return DatasetTraining(tuple(path), measure, results, best, model, solver, is_normalised)


LOG_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".pq", ".arrow", ".feather", ".db")


def train(
    data: Any,
    loss: str | None = None,
    *,
    tight: bool = False,
    regularisation: Sequence[float] = solution_path.DEFAULT_PATH,
    measure: str = "nDCG@10",
    folds: int = 5,
    normalise: bool = False,
    seed: int = 0,
    settings: SolverSettings = solution_path.DEFAULT_SOLVER,
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

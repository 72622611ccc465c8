"""The regularisation chosen on held-out queries, fold by fold, and what it is worth on others."""

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.kernels import scores_of
from rankloop.core.saved_session import save
from rankloop.core.types import Floats
from rankloop.data.dataset import Dataset
from rankloop.engine import SummingEngine
from rankloop.measures.base import mean_of, parse_measure
from rankloop.training.folds import Fold, everything
from rankloop.training.rank_bundle import NORMALISED_NOTE, session_of
from rankloop.training.report import draw_curves, text_table
from rankloop.training.risks.base import risk_of
from rankloop.training.risks.pairwise import Ordinal
from rankloop.training.solution_path import BatchSolver, Fit, InMemory, Part, Progress, Queries, fit, fit_path, parts_of

WeightsAndMeasure = tuple[Floats, str]
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
    """A linear ranker that was trained on a data set; it prints as the table of its folds.

    The model is trained on all queries with the regularisation that was best on average.
    """

    path: tuple[float, ...]
    measure: str
    folds: list[FoldResult]
    best: float
    model: Fit
    solver: BatchSolver
    is_normalised: bool = False  # features were scaled from 0 to 1 inside each query

    def mean(self, measure: str) -> float:
        """Return the mean of a measure over the test queries of the folds."""
        return float(np.mean([fold.test[measure] for fold in self.folds]))

    @property
    def reported(self) -> list[str]:
        """The measures of every fold."""
        return list(self.folds[0].test)

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the result, a sentence each."""
        return tuple(self.model.warnings(self.solver.loss, self.solver.tight))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a file that `rankloop evaluate` and the service read."""
        notes = {"loss": self.solver.loss, "tight": self.solver.tight, "regularisation": self.best}
        save(session_of(self.model.weights), path, notes | {NORMALISED_NOTE: self.is_normalised})

    def __str__(self) -> str:
        names = self.reported
        header = ("fold", "regularisation", *(SHORT_NAMES.get(name, name) for name in names))
        values = [(fold.fold, fold.regularisation, fold.test) for fold in self.folds]
        values.append(("mean", self.best, {name: self.mean(name) for name in names}))
        rows = [(fold, f"{chosen:g}", *(f"{test[name]:.4f}" for name in names)) for fold, chosen, test in values]
        return f"On the test queries of each fold\n{text_table(header, rows)}"

    def to_json(self) -> dict[str, Any]:
        """Return the numbers and notes for programs."""
        folds = [
            {
                "fold": fold.fold,
                "regularisation": fold.regularisation,
                "validation": dict(zip(map(str, self.path), fold.curve.tolist())),
                "test": fold.test,
                "gap": fold.fit.solution.gap,
            }
            for fold in self.folds
        ]
        mean = {name: self.mean(name) for name in self.reported}
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
    report: Sequence[str] = REPORTED_MEASURES,
    is_normalised: bool = False,
    progress: Progress = lambda finished, of: None,
) -> DatasetTraining:
    """Train along the path on every fold, choose on its validation part, and measure on its test part.

    Args:
      folds: The queries, in memory or on disk.
      solver: The loss, the regularisations and the settings.
      measure: The measure that chooses the regularisation.
      report: Measures on the test queries.
      is_normalised: Features were scaled inside each query, which the saved model remembers.
      progress: Called with the number of fits that are done, and of all.
    """
    risk, path = risk_of(solver.loss), solver.checked_path()
    best_of, engine = np.argmax if parse_measure(measure).higher_is_better else np.argmin, solver.settings.engine
    total, finished, results = len(folds) * len(path) + 1, 0, []
    for fold in folds:
        fits = []
        for model in fit_path(fold.train, risk, path, tight=solver.tight, settings=solver.settings):
            fits.append(model)
            finished += 1
            progress(finished, total)
        curve = np.array(mean_measures([(model.weights, measure) for model in fits], fold.validation, engine))
        best_fit, names = fits[best_of(curve)], list(dict.fromkeys([*report, measure]))
        test = mean_measures([(best_fit.weights, name) for name in names], fold.test, engine)
        results.append(FoldResult(fold.name, best_fit.regularisation, curve, dict(zip(names, test)), best_fit))
    best = path[best_of(np.mean([result.curve for result in results], axis=0))]
    model = fit(everything(folds), risk, best, tight=solver.tight, settings=solver.settings)
    progress(total, total)
    return DatasetTraining(tuple(path), measure, results, best, model, solver, is_normalised)


def mean_measures(pairs: Sequence[WeightsAndMeasure], dataset: Queries, engine: SummingEngine) -> list[float]:
    """Return the means of several measures; of data on disk, by the workers that read them.

    Args:
      pairs: Weights and the measure of their ranking.
      dataset: In memory or on disk.
      engine: Reads data on disk.
    """
    if isinstance(dataset, Dataset):
        return [mean_of(_values(dataset, *pair)) for pair in pairs]
    with engine.sum_over(parts_of(dataset, Ordinal()), _measure_part) as total:
        sums, counts = total(list(pairs))
    return [float(value / count) if count else math.nan for value, count in zip(sums, counts)]


def _measure_part(part: Part, pairs: Sequence[WeightsAndMeasure]) -> Floats:
    """Return the sum of each measure over the queries of a part, and their number; queries with NaN are left out."""
    values = [_values(part.dataset, weights, measure) for weights, measure in pairs]
    return np.array([[np.nansum(each) for each in values], [np.count_nonzero(~np.isnan(each)) for each in values]])


def _values(dataset: InMemory, weights: Floats, measure: str) -> Floats:
    scores = scores_of(dataset.features, weights)
    return parse_measure(measure).of_scores(scores, dataset.relevance, dataset.offsets)

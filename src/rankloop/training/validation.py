"""The regularisation chosen on held-out queries, fold by fold, and what it is worth on others."""

import io
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of
from rankloop.core.types import Floats
from rankloop.data.dataset import Dataset
from rankloop.engine import SummingEngine
from rankloop.measures.base import mean_of, parse_measure
from rankloop.training.folds import Fold, everything
from rankloop.training.objective import InMemory, Part, Queries, parts_of
from rankloop.training.risks.base import Risk
from rankloop.training.risks.pairwise import Ordinal
from rankloop.training.solution_path import DEFAULT_SOLVER, Fit, SolverSettings, fit, fit_path

Progress = Callable[[int, int], None]
Asked = tuple[Floats, str]  # weights, and the measure of the rankings by them


class FoldResult(NamedTuple):
    """What one fold gave."""

    fold: str
    regularisation: float
    curve: Floats  # the measure on the validation queries for each regularisation of the path
    test: dict[str, float]
    fit: Fit


class Validated(NamedTuple):
    """All folds, and the model trained on all queries with the regularisation that was best on average."""

    path: tuple[float, ...]
    measure: str
    folds: list[FoldResult]
    best: float
    model: Fit

    def mean(self, measure: str) -> float:
        return float(np.mean([fold.test[measure] for fold in self.folds]))


def cross_validate(
    folds: Sequence[Fold],
    risk: Risk,
    path: Sequence[float],
    *,
    measure: str = "nDCG@10",
    report: Sequence[str] = ("nDCG@10",),
    tight: bool = False,
    settings: SolverSettings = DEFAULT_SOLVER,
    progress: Progress = lambda finished, of: None,
) -> Validated:
    """Train along the path on every fold, choose by `measure` on its validation part, judge on its test part."""
    strong_to_weak = sorted(set(path), reverse=True)
    if not strong_to_weak or strong_to_weak[-1] <= 0.0:
        raise InvalidInput(f"the regularisation must be above 0, got {list(path)}")
    total, finished, results = len(folds) * len(strong_to_weak) + 1, 0, []
    for fold in folds:
        fits = []
        for found in fit_path(fold.train, risk, strong_to_weak, tight=tight, settings=settings):
            fits.append(found)
            finished += 1
            progress(finished, total)
        results.append(_fold_result(fold, fits, measure, report, settings.engine))
    best = strong_to_weak[_best(np.mean([result.curve for result in results], axis=0), measure)]
    model = fit(everything(folds), risk, best, tight=tight, settings=settings)
    progress(total, total)
    return Validated(tuple(strong_to_weak), measure, results, best, model)


def mean_measure(weights: Floats, dataset: Dataset, measure: str) -> float:
    """The mean of the measure over the queries ranked by these weights."""
    return mean_of(_values(weights, dataset, measure))


def mean_measures(asked: Sequence[Asked], dataset: Queries, engine: SummingEngine) -> list[float]:
    """The means of several, each with weights of its own; where the data stay on disks, computed by who reads them."""
    if isinstance(dataset, Dataset):
        return [mean_measure(weights, dataset, measure) for weights, measure in asked]
    with engine.sum_over(parts_of(dataset, Ordinal()), judged) as total:
        sums, counts = total(list(asked))
    return [float(value / count) if count else math.nan for value, count in zip(sums, counts)]


def judged(part: Part, asked: Sequence[Asked]) -> Floats:
    """Of each measure the sum over the queries of the part, and over how many; skipped ones (nan) are left out."""
    values = [_values(weights, part.dataset, measure) for weights, measure in asked]
    return np.array([[np.nansum(each) for each in values], [np.count_nonzero(~np.isnan(each)) for each in values]])


def _values(weights: Floats, dataset: InMemory, measure: str) -> Floats:
    scores = scores_of(dataset.features, weights)
    return parse_measure(measure).of_scores(scores, dataset.relevance, dataset.offsets)


def _best(curve: Floats, measure: str) -> int:
    """The index of the best value: the largest, or of a loss the least."""
    return int(np.argmax(curve) if parse_measure(measure).higher_is_better else np.argmin(curve))


def _fold_result(fold: Fold, fits: list[Fit], measure: str, report: Sequence[str], engine: SummingEngine) -> FoldResult:
    curve = np.array(mean_measures([(found.weights, measure) for found in fits], fold.validation, engine))
    best = fits[_best(curve, measure)]
    names = list(dict.fromkeys([*report, measure]))
    test = mean_measures([(best.weights, name) for name in names], fold.test, engine)
    return FoldResult(fold.name, best.regularisation, curve, dict(zip(names, test)), best)


def validation_curve(result: Validated) -> bytes:
    """A PNG: the measure on the validation queries over the regularisation, each fold and their mean."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.9))
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for fold in result.folds:
        axes.plot(result.path, fold.curve, color="#8a8f98", linewidth=0.8)
        best = fold.curve[result.path.index(fold.regularisation)]
        axes.plot(fold.regularisation, best, "o", color="#8a8f98", markersize=4)
    mean = np.mean([fold.curve for fold in result.folds], axis=0)
    axes.plot(result.path, mean, color="#2f7ed8", linewidth=2.0, label="mean of the folds")
    axes.axvline(result.best, color="#2f7ed8", linewidth=0.8, linestyle="dashed", label=f"chosen: {result.best:g}")
    axes.set(xlabel="regularisation", ylabel=f"{result.measure} on the validation queries", xscale="log")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, bbox_inches="tight", facecolor="white")
    return buffer.getvalue()

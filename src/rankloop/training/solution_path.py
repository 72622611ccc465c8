"""Weights that minimise a risk on a data set: one solution, a path of them, and the tighter, non-convex form."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of, weighted_rows
from rankloop.core.types import Floats
from rankloop.data.dataset import Dataset, SparseDataset
from rankloop.data.parts.catalogue import StoredDataset
from rankloop.engine import SummingEngine, Threads
from rankloop.measures.base import mean_of, parse_measure
from rankloop.training.bundle import Solution, Step, minimise
from rankloop.training.risks.base import Risk, StructuredRisk
from rankloop.training.risks.pairwise import Ordinal

ROWS_PER_PART, MAX_PARTS = 4096, 64
PART_BYTES = 64 << 20  # more parts than MAX_PARTS where they would be larger than this
MAX_ANSWER_NUMBERS = 4_000_000  # in the answers of all parts together, over hashed columns
MAX_TIGHTENINGS = 20  # convex bounds, one after the other
NO_IMPROVEMENT_SHARE = 1e-6  # of the objective at w = 0
DEFAULT_PATH = tuple(10.0**power for power in (1, 0, -1, -2, -3, -4, -5))  # each fit starts from the last one
InMemory = Dataset | SparseDataset
Progress = Callable[[int, int], None]  # called with the number of steps that are done, and of all
Queries = InMemory | StoredDataset


def _answer(risk: Risk, part: InMemory, question: tuple[str, Floats]) -> Floats:
    """Return the loss of a part with its slope in the weights, or ("shift") the distance of its anchors from ideal."""
    quantity, weights = question
    scores = scores_of(part.features, weights)
    if isinstance(part, SparseDataset):
        scores += part.base
    if quantity == "loss":
        value, grad = risk.of_lists(scores, part.relevance, part.offsets)
        return np.append(weighted_rows(part.features, grad), value)
    structured = cast(StructuredRisk, risk)
    ideal = structured.ideal_anchors(part.relevance, part.offsets)
    return weighted_rows(part.features, ideal - structured.anchors(scores, part.relevance, part.offsets))


def parts_of(dataset: Queries) -> Sequence[Queries]:
    """Cut a data set into parts of consecutive queries with about equally many rows, by the data alone."""
    cuts = itertools.pairwise(_borders_of(dataset))
    if isinstance(dataset, StoredDataset):
        return [dataset.between(first, end) for first, end in cuts]
    return [dataset.subset(range(first, end)) for first, end in cuts]


def _borders_of(dataset: Queries) -> list[int]:
    """Return the queries at which parts begin, and their end; no part is much larger than PART_BYTES."""
    n_rows = int(dataset.offsets[-1])
    n_parts = min(n_rows // ROWS_PER_PART, MAX_PARTS)
    if isinstance(dataset, SparseDataset):
        n_entries = len(dataset.features.values) + dataset.features.dense.size
        n_parts = min(n_parts, MAX_ANSWER_NUMBERS // dataset.n_features, n_entries // (2 * dataset.n_features))
    else:
        n_parts = max(n_parts, 8 * n_rows * dataset.n_features // PART_BYTES)
    n_parts = max(1, min(n_parts, dataset.n_queries))
    cuts = np.searchsorted(dataset.offsets, np.arange(1, n_parts) * (n_rows / n_parts))
    return list(map(int, np.unique(np.concatenate(([0], cuts, [dataset.n_queries])))))


@dataclass(frozen=True)
class Objective:
    """The function weights ↦ (1/Q) Σ_q loss with its slope, Q being the number of queries or another divisor."""

    total: Callable[[tuple[str, Floats]], Floats]
    n_queries: float
    shift: Floats | None = None  # a linear function that is added

    def __call__(self, weights: Floats) -> tuple[float, Floats]:
        """Return the mean loss and its slope."""
        total = self.total(("loss", weights)) / self.n_queries
        value, slope = float(total[-1]), total[:-1]
        if self.shift is not None:
            value += float(np.sum(self.shift * weights))
            slope = slope + self.shift
        return value, slope

    def shifted(self, weights: Floats) -> "Objective":
        """Return the convex bound on the tighter loss that touches it at these weights.

        max_π F(π), which the tighter loss subtracts, is at least the F of the ranking that these weights predict.
        That is linear in the weights, with the slope Σ_q Xᵀ(ideal anchors − predicted anchors).
        """
        return replace(self, shift=self.total(("shift", weights)) / self.n_queries)


@contextmanager
def objective_on(dataset: Queries, risk: Risk, engine: SummingEngine, per: float | None = None) -> Iterator[Objective]:
    """Yield the objective, while the workers of the engine keep the parts of the data.

    Args:
      dataset: In memory or on disk.
      risk: The loss of a list.
      engine: Computes the sums.
      per: Q; the number of queries unless given.
    """
    if dataset.n_queries == 0 or dataset.n_features == 0:
        raise InvalidInput(f"nothing to train on: {dataset.n_queries} queries, {dataset.n_features} features")
    with engine.sum_over(parts_of(dataset), partial(_answer, risk)) as total:
        yield Objective(total, per or dataset.n_queries)


class SolverSettings(NamedTuple):
    """The precision of the solver, and the engine that computes its sums."""

    tolerance: float = 1e-4  # the share of the possible improvement over w = 0 that may be missing
    max_iterations: int = 1000
    engine: SummingEngine = Threads()
    callback: Callable[[Step], None] | None = None


DEFAULT_SOLVER = SolverSettings()


class BatchSolver(NamedTuple):
    """The batch solver: one loss over all queries or lists, and the regularisations of which one is chosen.

    Losses are those of `RankBundle`. On logs of clicks, `ordinal` is the weighted ranking SVM; `clicked_items` is the
    logistic loss of every shown position, with an offset for each unless the position bias is given; for other
    losses (`list_net`, `nDCG@10`) all lists of a query are merged first.
    """

    loss: str = "ordinal"
    tight: bool = False  # the tighter, non-convex bound on a measure
    regularisation: Sequence[float] = DEFAULT_PATH
    settings: SolverSettings = DEFAULT_SOLVER

    def checked_path(self) -> list[float]:
        """Return the regularisations from strong to weak."""
        path = sorted(set(self.regularisation), reverse=True)
        if not path or path[-1] <= 0.0:
            raise InvalidInput(f"the regularisation must be above 0, got {list(self.regularisation)}")
        return path


class Fit(NamedTuple):
    """A solution for one regularisation."""

    regularisation: float
    solution: Solution
    at_zero: float  # the objective of w = 0, which ranks by item number

    @property
    def weights(self) -> Floats:
        """The weights of the solution."""
        return self.solution.weights

    def warnings(self, loss: str, tight: bool) -> list[str]:
        """Return what is wrong with a solution, a sentence each."""
        messages, solution = [], self.solution
        if not solution.converged:
            fault = f"stopped after {solution.iterations} iterations, at most {solution.gap:.2g} above the optimum"
            messages.append(f"{fault}: raise the regularisation or max_iterations, or scale the features")
        if self.at_zero - solution.objective <= NO_IMPROVEMENT_SHARE * self.at_zero:
            instead = "a smaller regularisation" if loss == "ordinal" else "the loss ordinal"
            instead += "" if tight or loss == "ordinal" else ", or the tight bound of a measure"
            messages.append(f"the optimum of {loss} is no better than w = 0, so nothing was learned; try {instead}")
        return messages


def fit(dataset: Queries, risk: Risk, regularisation: float, **options: Any) -> Fit:
    """Minimise regularisation/2 · ‖w‖² + (1/Q) Σ_q risk(features · w).

    Args:
      dataset: The queries, in memory or on disk.
      risk: The loss of a list.
      regularisation: λ.
      **options: Those of `fit_path`.
    """
    return next(fit_path(dataset, risk, [regularisation], **options))


def fit_path(
    dataset: Queries,
    risk: Risk,
    regularisations: Sequence[float],
    *,
    tight: bool = False,
    start: Floats | None = None,
    settings: SolverSettings = DEFAULT_SOLVER,
    per: float | None = None,
) -> Iterator[Fit]:
    """Fit one regularisation after the other, each started from the last one; with `tight`, from the ordinal solution.

    Args:
      dataset: The queries, in memory or on disk.
      risk: The loss of a list.
      regularisations: The values of λ, best from strong to weak.
      tight: Take the tighter, non-convex form of a structured loss.
      start: The first weights; 0 unless given.
      settings: The precision, and the engine that computes the sums.
      per: What the sum of the losses is divided by; the number of queries unless given.
    """
    if not tight:
        weights = np.zeros(dataset.n_features) if start is None else start
        with objective_on(dataset, risk, settings.engine, per) as objective:
            for regularisation in regularisations:
                solution = _solve(objective, weights, regularisation, settings)
                weights = solution.weights
                yield Fit(regularisation, solution, solution.at_zero)
        return
    if not isinstance(risk, StructuredRisk):
        raise InvalidInput("tight applies to losses that are a maximum over rankings: ndcg, precision, eru and neru")
    if start is None:
        starts = [model.weights for model in fit_path(dataset, Ordinal(), regularisations, settings=settings)]
    else:
        starts = [start] * len(regularisations)
    with objective_on(dataset, risk, settings.engine) as objective:
        for regularisation, first in zip(regularisations, starts):
            yield _minimise_tight(objective, regularisation, first, settings)


def _minimise_tight(objective: Objective, regularisation: float, weights: Floats, settings: SolverSettings) -> Fit:
    """Minimise max_π[Δ + F(π)] − max_π F(π) by the concave–convex procedure.

    Each step minimises a convex bound that touches the loss at the last weights, so that the loss never rises.
    """
    zero = np.zeros(len(weights))
    at_zero = objective.shifted(zero)(zero)[0]  # by which is judged if anything was learned
    best: Solution | None = None
    for _ in range(MAX_TIGHTENINGS):
        bound = objective.shifted(weights)
        last_objective = bound(weights)[0] + 0.5 * regularisation * float(weights @ weights)
        solution = _solve(bound, weights, regularisation, settings)
        if best is not None and solution.objective > best.objective:
            break
        best, weights = solution, solution.weights
        if last_objective - solution.objective <= settings.tolerance * abs(at_zero - solution.objective):
            break
    return Fit(regularisation, best or solution, at_zero)


def _solve(objective: Objective, start: Floats, regularisation: float, settings: SolverSettings) -> Solution:
    limits: Any = {"tolerance": settings.tolerance, "max_iterations": settings.max_iterations}
    return minimise(objective, start, regularisation=regularisation, callback=settings.callback, **limits)


def mean_measures(pairs: Sequence[tuple[Floats, str]], dataset: Queries, engine: SummingEngine) -> list[float]:
    """Return the means of several measures; of data on disk, by the workers that read them.

    Args:
      pairs: Weights and the measure of their ranking.
      dataset: In memory or on disk.
      engine: Reads data on disk.
    """
    if isinstance(dataset, Dataset):
        return [mean_of(_values(dataset, weights, measure)) for weights, measure in pairs]
    with engine.sum_over(parts_of(dataset), _measure_part) as total:
        sums, counts = total(list(pairs))
    return [float(value / count) if count else math.nan for value, count in zip(sums, counts)]


def _measure_part(part: InMemory, pairs: Sequence[tuple[Floats, str]]) -> Floats:
    """Return the sum of each measure over the queries of a part, and their number; queries with NaN are left out."""
    values = [_values(part, weights, measure) for weights, measure in pairs]
    return np.array([[np.nansum(each) for each in values], [np.count_nonzero(~np.isnan(each)) for each in values]])


def _values(dataset: InMemory, weights: Floats, measure: str) -> Floats:
    return parse_measure(measure).of_scores(scores_of(dataset.features, weights), dataset.relevance, dataset.offsets)

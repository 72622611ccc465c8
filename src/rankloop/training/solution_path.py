"""Weights that minimise a risk on a data set: one solution, a path of them, and the tighter, non-convex form."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats
from rankloop.engine import SummingEngine, Threads
from rankloop.training.bundle import Solution, Step, minimise
from rankloop.training.objective import Objective, Queries, objective_on
from rankloop.training.risks.base import Risk, StructuredRisk
from rankloop.training.risks.pairwise import Ordinal

TIGHTENINGS = 20  # at most so many convex bounds, one after the other
# Regularisations from strong to weak: each fit starts from the one before.
DEFAULT_PATH = tuple(10.0**power for power in (1, 0, -1, -2, -3, -4, -5))


class SolverSettings(NamedTuple):
    """How closely the optimum is wanted, and where the sums are computed."""

    tolerance: float = 1e-4
    max_iterations: int = 1000
    engine: SummingEngine = Threads()
    callback: Callable[[Step], None] | None = None


DEFAULT_SOLVER = SolverSettings()


class BatchSolver(NamedTuple):
    """Minimises a loss over all queries or lists at once, for several regularisations of which one is chosen.

    Losses are those of `RankBundle`. On logs of clicks, `ordinal` is the weighted ranking SVM; `clicked_items` is the
    logistic loss of every position that was seen, with an offset for each unless the position bias is given; for other
    losses (`list_net`, `nDCG@10`) all lists of a query are merged first.
    """

    loss: str = "ordinal"
    tight: bool = False  # the tighter, non-convex bound on a measure
    regularisation: Sequence[float] = DEFAULT_PATH
    settings: SolverSettings = DEFAULT_SOLVER

    def checked_path(self) -> list[float]:
        """Return the regularisations from strong to weak.

        Raises:
          InvalidInput: If there is none, or one is not above 0.
        """
        path = sorted(set(self.regularisation), reverse=True)
        if not path or path[-1] <= 0.0:
            raise InvalidInput(f"the regularisation must be above 0, got {list(self.regularisation)}")
        return path


class Fit(NamedTuple):
    """What training gave; `at_zero` is the objective of w = 0, which ranks by item number."""

    regularisation: float
    solution: Solution
    at_zero: float

    @property
    def weights(self) -> Floats:
        return self.solution.weights

    def no_better_than_zero(self, tolerance: float) -> bool:
        return self.at_zero - self.solution.objective <= tolerance


def fit(
    dataset: Queries,
    risk: Risk,
    regularisation: float,
    *,
    tight: bool = False,
    start: Floats | None = None,
    settings: SolverSettings = DEFAULT_SOLVER,
    per: float | None = None,
) -> Fit:
    """The minimiser of regularisation/2 · ‖w‖² + (1/Q) Σ_q risk(features · w); Q is the number of queries, or `per`."""
    return next(fit_path(dataset, risk, [regularisation], tight=tight, start=start, settings=settings, per=per))


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
    """One fit after the other, each started from the one before; with `tight`, from the ordinal solution."""
    if not tight:
        with objective_on(dataset, risk, settings.engine, per) as objective:
            yield from _convex_path(objective, dataset.n_features, regularisations, start, settings)
        return
    if not isinstance(risk, StructuredRisk):
        raise InvalidInput("tight is for losses that are a maximum over rankings: ndcg, precision, eru and neru")
    if start is None:
        starts = [found.weights for found in fit_path(dataset, Ordinal(), regularisations, settings=settings)]
    else:
        starts = [start] * len(regularisations)
    with objective_on(dataset, risk, settings.engine) as objective:
        for regularisation, first in zip(regularisations, starts):
            yield _tightened(objective, regularisation, first, settings)


def _convex_path(
    objective: Objective,
    n_features: int,
    regularisations: Sequence[float],
    start: Floats | None,
    settings: SolverSettings,
) -> Iterator[Fit]:
    zero = np.zeros(n_features)
    weights, at_zero = zero if start is None else start, objective(zero)[0]
    for regularisation in regularisations:
        solution = _solve(objective, weights, regularisation, settings)
        weights = solution.weights
        yield Fit(regularisation, solution, at_zero)


def _tightened(objective: Objective, regularisation: float, start: Floats, settings: SolverSettings) -> Fit:
    """The concave–convex procedure: the loss max_π[Δ + F(π)] − max_π F(π), bounded anew where the last bound led.

    Every bound touches the loss where it is taken, so that the loss never rises. At w = 0 it is that of the ranking by
    item number, which is the reference for whether anything was learned.
    """
    zero = np.zeros(len(start))
    at_zero = objective.shifted(zero)(zero)[0]
    best: Solution | None = None
    weights = start
    for _ in range(TIGHTENINGS):
        bound = objective.shifted(weights)
        before = bound(weights)[0] + 0.5 * regularisation * float(weights @ weights)
        solution = _solve(bound, weights, regularisation, settings)
        if best is not None and solution.objective > best.objective:
            break
        best, weights = solution, solution.weights
        if before - solution.objective <= settings.tolerance:
            break
    return Fit(regularisation, best or solution, at_zero)


def _solve(objective: Objective, start: Floats, regularisation: float, settings: SolverSettings) -> Solution:
    return minimise(
        objective,
        start,
        regularisation=regularisation,
        tolerance=settings.tolerance,
        max_iterations=settings.max_iterations,
        callback=settings.callback,
    )

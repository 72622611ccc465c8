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

MAX_TIGHTENINGS = 20  # convex bounds, one after the other
NO_IMPROVEMENT_SHARE = 1e-6  # of the objective at w = 0
# Regularisations from strong to weak: each fit starts from the last one.
DEFAULT_PATH = tuple(10.0**power for power in (1, 0, -1, -2, -3, -4, -5))


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
        """Return the regularisations from strong to weak.

        Raises:
          InvalidInput: If there is none, or one is not above 0.
        """
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
        """Return what is wrong with a solution, a sentence each.

        Args:
          loss: The loss that was minimised.
          tight: True for its tighter bound.
        """
        messages, solution = [], self.solution
        if not solution.converged:
            messages.append(
                f"stopped after {solution.iterations} iterations, at most {solution.gap:.2g} above the optimum: raise "
                "the regularisation or max_iterations, or scale the features"
            )
        if self.at_zero - solution.objective <= NO_IMPROVEMENT_SHARE * self.at_zero:
            instead = "a smaller regularisation" if loss == "ordinal" else "the loss ordinal"
            instead += "" if tight or loss == "ordinal" else ", or the tight bound of a measure"
            messages.append(f"the optimum of {loss} is no better than w = 0, so nothing was learned; try {instead}")
        return messages


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
    """Minimise regularisation/2 · ‖w‖² + (1/Q) Σ_q risk(features · w).

    Args:
      dataset: The queries, in memory or on disk.
      risk: The loss of a list.
      regularisation: λ.
      tight: Take the tighter, non-convex form of a structured loss, from the ordinal solution on.
      start: The first weights; 0 unless given.
      settings: The precision, and the engine that computes the sums.
      per: Q; the number of queries unless given.

    Returns:
      The solution, and the objective of w = 0.

    Raises:
      InvalidInput: If there is no query or no feature, or if `tight` does not apply to the loss.
    """
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
    """Fit one regularisation after the other, each started from the last one; with `tight`, from the ordinal solution.

    Args:
      dataset: The queries, in memory or on disk.
      risk: The loss of a list.
      regularisations: The values of λ, best from strong to weak.
      tight: Take the tighter, non-convex form of a structured loss.
      start: The first weights; 0 unless given.
      settings: The precision, and the engine that computes the sums.
      per: What the sum of the losses is divided by; the number of queries unless given.

    Yields:
      A fit for each regularisation.
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
            yield _tightened(objective, regularisation, first, settings)


def _tightened(objective: Objective, regularisation: float, start: Floats, settings: SolverSettings) -> Fit:
    """Minimise max_π[Δ + F(π)] − max_π F(π) by the concave–convex procedure.

    Each step minimises a convex bound that touches the loss at the last weights, so that the loss never rises. The
    reference for whether anything was learned is the loss at w = 0, that of the ranking by item number.
    """
    zero = np.zeros(len(start))
    at_zero = objective.shifted(zero)(zero)[0]
    best: Solution | None = None
    weights = start
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
    return minimise(
        objective,
        start,
        regularisation=regularisation,
        tolerance=settings.tolerance,
        max_iterations=settings.max_iterations,
        callback=settings.callback,
    )

"""Linear rankers trained on graded queries."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of, weighted_rows
from rankloop.core.types import Floats, finite_floats, item_indices
from rankloop.data.dataset import Dataset
from rankloop.engine import Threads
from rankloop.training.bundle import Solution, minimise
from rankloop.training.estimator import Groups, LinearRanker, as_dataset, matrix_of
from rankloop.training.risks.base import risk_of
from rankloop.training.risks.pairwise import hinge_of_pairs
from rankloop.training.solution_path import Fit, SolverSettings, fit


class RankBundle(LinearRanker):
    """A linear ranker, trained by the bundle method: min over w of λ/2 ‖w‖² + (1/Q) Σ_q loss(X_q · w, y_q).

    `loss` is a risk (`ordinal`, `least_squares`, `preferences`, `list_net`, `slam`) or the measure that it bounds
    (`nDCG@10`, `P@5`, `ERU`, `NERU`); `tight` takes the tighter, non-convex bound of the latter, from the ordinal
    solution on. λ is `regularisation`. `n_jobs` threads compute the loss (None or −1: one per core). `measure` is what
    `score` means. Features should be of about the same scale.

    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], [1, 1, 2, 2]
    >>> RankBundle(regularisation=0.1).fit(X, y, qid=qid).score(X, y, qid=qid)
    1.0
    """

    solution_: Solution

    def __init__(
        self,
        loss: str = "ordinal",
        regularisation: float = 1e-3,
        *,
        tight: bool = False,
        tolerance: float = 1e-4,
        max_iterations: int = 1000,
        warm_start: bool = False,
        n_jobs: int | None = None,
        measure: str = "nDCG@10",
    ) -> None:
        self.loss = loss
        self.regularisation = regularisation
        self.tight = tight
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.measure = measure

    def fit(self, X: ArrayLike, y: ArrayLike, qid: Groups | None = None) -> "RankBundle":
        """Train on rows with grades `y`, each belonging to the query `qid`."""
        dataset = as_dataset(X, y, qid)
        settings = SolverSettings(self.tolerance, self.max_iterations, _threads(self.n_jobs))
        start = self._start(dataset)
        found = fit(dataset, risk_of(self.loss), self.regularisation, tight=self.tight, start=start, settings=settings)
        self._keep(found.weights, dataset)
        self.solution_ = found.solution
        self.n_iter_ = found.solution.iterations
        warn_about(found, self.loss, self.tight, self.tolerance)
        return self

    def fit_pairs(self, X: ArrayLike, pairs: ArrayLike, costs: ArrayLike | None = None) -> "RankBundle":
        """Train on preferences: for each (i, j) of `pairs`, row j of X should stand above row i."""
        if self.loss != "preferences":
            raise InvalidInput(f'pairs are for loss="preferences", this one is {self.loss!r}')
        features = matrix_of(X)
        rows, prices = _checked_pairs(pairs, costs, len(features))

        def risk(weights: Floats) -> tuple[float, Floats]:
            value, grad = hinge_of_pairs(scores_of(features, weights), rows, prices)
            return value, weighted_rows(features, grad)

        zero = np.zeros(features.shape[1])
        options: Any = {"tolerance": self.tolerance, "max_iterations": self.max_iterations}
        self.solution_ = minimise(risk, zero, regularisation=self.regularisation, **options)
        self._keep(self.solution_.weights, Dataset.of(features, np.zeros(len(features)), [0, len(features)]))
        self.n_iter_ = self.solution_.iterations
        warn_about(Fit(self.regularisation, self.solution_, risk(zero)[0]), self.loss, False, self.tolerance)
        return self

    def _start(self, dataset: Dataset) -> Floats | None:
        usable = self.warm_start and hasattr(self, "coef_") and len(self.coef_) == dataset.n_features
        return self.coef_ if usable else None


def _threads(n_jobs: int | None) -> Threads:
    if n_jobs is None or n_jobs == -1:
        return Threads()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs < 1:
        raise InvalidInput(f"n_jobs = {n_jobs!r} must be a whole number from 1; None or -1 is one per core")
    return Threads(workers=int(n_jobs))


def warn_about(found: Fit, loss: str, tight: bool, tolerance: float) -> None:
    """Say when the optimum was not reached, or is no better than knowing nothing."""
    if not found.solution.converged:
        warnings.warn(
            f"stopped after {found.solution.iterations} iterations at a gap of {found.solution.gap:.2g}: raise "
            "max_iterations or the regularisation, or scale the features",
            RuntimeWarning,
            stacklevel=3,
        )
    if found.no_better_than_zero(tolerance):
        instead = "a smaller regularisation"
        if loss != "ordinal":
            instead = 'loss="ordinal"' if tight else f'loss="ordinal", or tight=True where {loss} allows it,'
        warnings.warn(
            f"the optimum of {loss} is no better than w = 0, so nothing was learned; try {instead} instead",
            RuntimeWarning,
            stacklevel=3,
        )


def _checked_pairs(pairs: ArrayLike, costs: ArrayLike | None, n_rows: int) -> tuple[Any, Floats]:
    table = np.asarray(pairs)
    if table.ndim != 2 or table.shape[1] != 2 or len(table) == 0:
        raise InvalidInput(f"pairs must be rows of two row numbers of X, got shape {table.shape}")
    rows = item_indices(table.ravel(), "pairs").reshape(-1, 2)
    if rows.min() < 0 or rows.max() >= n_rows:
        raise InvalidInput(f"pairs name rows from {rows.min()} to {rows.max()}; X has rows 0 to {n_rows - 1}")
    prices = finite_floats(np.ones(len(rows)) if costs is None else costs, 1, "costs")
    if len(prices) != len(rows) or prices.min() < 0.0:
        raise InvalidInput(f"costs must be {len(rows)} numbers from 0, one for each pair")
    return rows, prices

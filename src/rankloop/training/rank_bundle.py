"""Linear rankers trained on graded queries: by a regularised loss, with a proved guarantee, or by averaging."""

import math
import warnings
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of, weighted_rows
from rankloop.core.registry import build
from rankloop.core.session import Session
from rankloop.core.types import Floats, Problem, Relevances, finite_floats, item_indices, whole_number
from rankloop.data.dataset import Dataset
from rankloop.engine import Threads
from rankloop.learners.baseline import FixedWeights
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
        warn_about(found, self.loss, self.tight)
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
        warn_about(Fit(self.regularisation, self.solution_, self.solution_.at_zero), self.loss, False)
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


def warn_about(found: Fit, loss: str, tight: bool) -> None:
    """Say when the optimum was not reached, or is no better than knowing nothing."""
    if not found.solution.converged:
        warnings.warn(
            f"stopped after {found.solution.iterations} iterations at a gap of {found.solution.gap:.2g}: raise "
            "max_iterations or the regularisation, or scale the features",
            RuntimeWarning,
            stacklevel=3,
        )
    if found.is_no_better_than_zero:
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


def online_to_batch(learner: Any, dataset: Dataset, *, passes: int = 1, seed: int = 0) -> Session:
    """The average of the weights that an online learner used on each query, as a ranker that stays as it is.

    ŵ = (1/n) Σ_i w_i over `passes` times all queries in random order, w_i before query i is learned. For a convex
    surrogate and one pass its expected excess risk is at most G · W₂ · R_X · √(2/n): Theorem 35 of Chaudhuri (2016).
    `learner` is one with `weights` in its state that learns from full relevance, such as
    `online_gradient(surrogate="list_net")`.
    """
    recipe = build(learner, "learner")
    whole_number(passes, "passes", 1)
    if Relevances not in recipe.accepts or dataset.n_queries == 0:
        raise InvalidInput("online_to_batch needs a learner that learns from grades, and a query")
    problem = Problem(dataset.n_features, max_grade=max(1, math.ceil(dataset.relevance.max(initial=0.0))))
    session = Session(recipe, problem, seed)
    rng = Generator(np.random.PCG64(SeedSequence(seed).spawn(5)[4]))
    total: Floats = np.zeros(dataset.n_features)
    for _ in range(passes):
        for index in np.argsort(rng.random(dataset.n_queries), kind="stable"):
            query, relevance = dataset.query(int(index))
            total += _weights_of(session)
            decision = session.rank(query)
            session.learn(query, decision, Relevances(decision.ranking, relevance[decision.ranking]))
    average = total / (passes * dataset.n_queries)
    return Session(FixedWeights(weights=tuple(average.tolist())), problem)


def _weights_of(session: Session) -> Floats:
    weights = getattr(session.state, "weights", None)
    if weights is None:
        raise InvalidInput("the learner's state has no weights to average; use a linear one, such as online_gradient")
    average: Floats = weights
    return average


def rerm_regularisation(lipschitz: float, radius: float, longest: float, n_queries: int) -> float:
    """The λ of Theorem 36: √(4 (G·R_X)²/n / (W₂²/2 + 4 W₂²/n))."""
    slope = lipschitz * longest
    return math.sqrt(4.0 * slope**2 / n_queries / (radius**2 / 2.0 + 4.0 * radius**2 / n_queries))


class RERM(LinearRanker):
    """Regularised empirical risk minimisation in a ball: the λ that has a proved guarantee, instead of a search.

    min over ‖w‖₂ ≤ `radius` of λ/2 ‖w‖² + (1/n) Σ_q loss, with λ from the radius W₂, the longest row of X and
    `lipschitz`, the largest sum of absolute slopes of the loss in the scores (2 for ListNet, for lists of any length).
    In expectation its risk is within 2 · G · R_X · W₂ · (8/n + √(2/n)) of the best in the ball.
    Reference: Chaudhuri (2016), Learning to Rank, Theorem 36.
    """

    def __init__(
        self,
        loss: str = "list_net",
        radius: float = 1.0,
        *,
        lipschitz: float = 2.0,
        tolerance: float = 1e-4,
        measure: str = "nDCG@10",
    ) -> None:
        self.loss = loss
        self.radius = radius
        self.lipschitz = lipschitz
        self.tolerance = tolerance
        self.measure = measure

    def fit(self, X: ArrayLike, y: ArrayLike, qid: Groups | None = None) -> "RERM":
        """Train on rows with grades `y`, each belonging to the query `qid`."""
        if not (self.radius > 0.0 and self.lipschitz > 0.0):
            raise InvalidInput(f"radius and lipschitz must be above 0, got {self.radius} and {self.lipschitz}")
        dataset = as_dataset(X, y, qid)
        longest = float(np.sqrt((dataset.features**2).sum(axis=1).max()))
        self.regularisation_ = rerm_regularisation(self.lipschitz, self.radius, longest or 1.0, dataset.n_queries)
        found = self._in_the_ball(dataset)
        self._keep(found.weights, dataset)
        self.solution_ = found.solution
        warn_about(found, self.loss, False)
        return self

    def _in_the_ball(self, dataset: Dataset) -> Fit:
        """Where the ball holds the weights back, its multiplier acts as more regularisation: found by bisection."""
        risk, settings = risk_of(self.loss), SolverSettings(tolerance=self.tolerance)
        low = high = self.regularisation_
        found = fit(dataset, risk, low, settings=settings)
        if np.linalg.norm(found.weights) <= self.radius:
            return found
        while np.linalg.norm(found.weights) > self.radius:
            low, high = high, 4.0 * high
            found = fit(dataset, risk, high, start=found.weights, settings=settings)
        while high / low > 1.01:
            middle = math.sqrt(low * high)
            tried = fit(dataset, risk, middle, start=found.weights, settings=settings)
            if np.linalg.norm(tried.weights) > self.radius:
                low = middle
            else:
                high, found = middle, tried
        return found

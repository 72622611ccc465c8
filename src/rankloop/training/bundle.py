"""A bundle method that minimises λ/2 ‖w‖² + risk(w) for any convex risk that is never negative.

Every evaluation of the risk gives a plane below it, a cut. The minimum of the cuts' maximum bounds the optimum from
below and proposes the next point; it is a quadratic program over the simplex.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from rankloop.core.checks import check_positive
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import all_finite, kernel, weighted_rows
from rankloop.core.types import Floats, Ints, whole_number
from rankloop.learners._shared.precision import dot, shifted_solution, times

RiskFunction = Callable[[Floats], tuple[float, Floats]]  # weights to value and sub-gradient
LEVEL_SHARE = 0.5  # of the gap: the height that the next point is aimed at
LEVEL_PRECISION = 0.1  # of the gap: how closely that height is met
MAX_LINE_EVALUATIONS = 3  # in one line search
FLAT_SLOPE_SHARE = 0.1  # a line search ends where the slope is this share of the steepest that it met
MAX_IDLE_MINIMISATIONS = 50  # after which a cut that carries no weight is dropped
MAX_SIMPLEX_STEPS = 10_000
MAX_PROXIMITY_TRIALS = 12  # for one level
MAX_CUT_NUMBERS, MIN_CUTS = 64_000_000, 16  # numbers in all cuts together; cuts that are kept at least
ROUNDING_SHARE = 1e-12  # of the objective at 0: a smaller gap cannot be told from rounding


@kernel
def _minimise_on_simplex(gram: Floats, offsets: Floats, start: Floats, tolerance: float) -> Floats:
    """Minimise ½ α·gram·α − offsets·α over α ≥ 0 with Σα = 1 by an active set that begins with the start's cuts.

    Each step solves for the cuts in use, drops the one that would turn negative, or else takes in the one of the
    smallest slope. α is feasible whenever the method stops.
    """
    alpha, is_free, shift = start / start.sum(), start > 0.0, gram.max() or 1.0
    for _ in range(MAX_SIMPLEX_STEPS):
        free = np.flatnonzero(is_free)
        n_free, matrix, zeros = len(free), np.empty((len(free), len(free))), np.zeros(len(free))
        # The shift changes no minimum under Σα = 1, and keeps cuts without slope from making the matrix singular.
        for i in range(n_free):
            for j in range(n_free):
                matrix[i, j] = gram[free[i], free[j]] + shift
        ones, target = shifted_solution(matrix, zeros + 1.0, zeros), shifted_solution(matrix, offsets[free], zeros)
        target += (1.0 - target.sum()) / ones.sum() * ones
        if not all_finite(target):
            break
        # α moves towards the target until an entry would turn negative.
        reach, blocking = 1.0, -1
        for i in range(n_free):
            if target[i] < 0.0 and (blocking < 0 or alpha[free[i]] < reach * (alpha[free[i]] - target[i])):
                reach, blocking = alpha[free[i]] / (alpha[free[i]] - target[i]), i
        for i in range(n_free):
            alpha[free[i]] += reach * (target[i] - alpha[free[i]])
        if blocking >= 0:
            alpha[free[blocking]], is_free[free[blocking]] = 0.0, False
            continue
        slope = times(gram, alpha) - offsets
        lowest = np.argmin(slope)
        if is_free[lowest] or slope[lowest] >= dot(alpha, slope) - tolerance:
            break
        is_free[lowest] = True
    return alpha / alpha.sum()  # type: ignore[no-any-return]


class RidgeModel:
    """The cuts under λ/2 ‖w‖², beginning with risk(w) ≥ 0; its dual is a quadratic program over the simplex.

    α says how much each cut carries. There are at most `max_cuts`: when one more comes, all are merged by α into one
    that carries the bound so far, and half of the others are dropped. So memory is bounded and the bound never falls.

    References:
      Kiwiel (1983), An Aggregate Subgradient Method for Nonsmooth Convex Minimization.
    """

    def __init__(self, n_features: int, regularisation: float, max_cuts: int | None = None) -> None:
        self.regularisation = regularisation
        self.proximity = 10.0 * regularisation  # the weight of ‖w − centre‖²/2; each search begins with the last one
        self.max_cuts = max_cuts or max(MIN_CUTS, MAX_CUT_NUMBERS // n_features)
        self._table = np.zeros((min(self.max_cuts, MIN_CUTS), n_features))  # grows as cuts are added
        self.offsets, self.gram, self.idle = np.zeros(1), np.zeros((1, 1)), np.zeros(1, np.int64)
        self.alpha, self.near_alpha = np.ones(1), np.ones(1)

    @property
    def slopes(self) -> Floats:
        """The slopes of the cuts, one per row."""
        return self._table[: len(self.offsets)]

    def add(self, value: float, slope: Floats, at: Floats) -> None:
        """Add the cut risk(w) ≥ value + slope · (w − at)."""
        if len(self.offsets) == self.max_cuts:
            products, offset = self.gram @ self.alpha, float(self.offsets @ self.alpha)
            merged, square = weighted_rows(self.slopes, self.alpha), float(self.alpha @ products)
            latest = np.lexsort((np.arange(len(self.idle)), -self.idle))[-(self.max_cuts // 2) :]
            kept = np.union1d([0], latest)
            self._keep(kept)
            self.alpha, self.near_alpha = np.zeros(len(kept)), np.zeros(len(kept))
            self._append(merged, offset, products[kept], square)
            self.alpha[-1] = self.near_alpha[-1] = 1.0
        self._append(slope, value - float(slope @ at), self.slopes @ slope, float(slope @ slope))

    def lowest(self, tolerance: float) -> float:
        """Return the least value of the model: a lower bound of the objective."""
        self.alpha = _minimise_on_simplex(self.gram / self.regularisation, self.offsets, self.alpha, tolerance)
        self.idle = np.where((self.alpha > 0.0) | (self.near_alpha > 0.0), 0, self.idle + 1)
        self.idle[0] = 0  # risk(w) ≥ 0 stays
        if self.idle.max() >= MAX_IDLE_MINIMISATIONS:
            self._keep(np.flatnonzero(self.idle < MAX_IDLE_MINIMISATIONS))
        steepness = weighted_rows(self.slopes, self.alpha)  # few cuts carry weight, the others are skipped
        return float(self.offsets @ self.alpha - 0.5 * steepness @ steepness / self.regularisation)

    def near(self, centre: Floats, level: float, gap: float, tolerance: float) -> Floats:
        """Return the minimiser of model + proximity/2 ‖w − centre‖², with the proximity at which it meets the level."""
        products, centre_square = self.slopes @ centre, float(centre @ centre)
        weakest, strongest = 0.0, np.inf
        for _ in range(MAX_PROXIMITY_TRIALS):
            proximity, total = self.proximity, self.regularisation + self.proximity
            gram, offsets = self.gram / total, self.offsets + proximity / total * products
            self.near_alpha = _minimise_on_simplex(gram, offsets, self.near_alpha, tolerance)
            # The height of the model there, from products of the cuts with themselves and the centre.
            steps = self.gram @ self.near_alpha
            square = proximity * (proximity * centre_square - 2.0 * float(self.near_alpha @ products))
            square += float(self.near_alpha @ steps)
            height = float(np.max((proximity * products - steps) / total + self.offsets))
            height += 0.5 * self.regularisation * square / total**2
            if abs(height - level) <= LEVEL_PRECISION * gap:
                break
            if height > level:
                strongest = proximity
                self.proximity = np.sqrt(weakest * strongest) if weakest > 0.0 else strongest / 4.0
            else:
                weakest = proximity
                self.proximity = np.sqrt(weakest * strongest) if strongest < np.inf else weakest * 4.0
        steepness = weighted_rows(self.slopes, self.near_alpha)
        return (proximity * centre - steepness) / (self.regularisation + proximity)

    def _append(self, slope: Floats, offset: float, products: Floats, square: float) -> None:
        n_cuts = len(self.offsets)
        if n_cuts == len(self._table):
            table = np.empty((min(2 * n_cuts, self.max_cuts), len(slope)))  # memory is taken when a row is written
            table[:n_cuts] = self._table
            self._table = table
        self._table[n_cuts] = slope
        gram = np.empty((n_cuts + 1, n_cuts + 1))
        gram[:-1, :-1], gram[:-1, -1], gram[-1, :-1], gram[-1, -1] = self.gram, products, products, square
        self.gram, self.offsets, self.idle = gram, np.append(self.offsets, offset), np.append(self.idle, 0)
        self.alpha, self.near_alpha = np.append(self.alpha, 0.0), np.append(self.near_alpha, 0.0)

    def _keep(self, cuts: Ints) -> None:
        # Rows move upwards, so that none is written over before it was moved.
        for new, old in enumerate(cuts.tolist()):
            if new != old:
                self._table[new] = self._table[old]
        self.offsets, self.idle, self.gram = self.offsets[cuts], self.idle[cuts], self.gram[np.ix_(cuts, cuts)]
        self.alpha, self.near_alpha = self.alpha[cuts], self.near_alpha[cuts]


class Step(NamedTuple):
    """The progress of the method after one iteration."""

    iterations: int
    evaluations: int
    objective: float  # the best so far
    bound: float  # no weights reach less

    @property
    def gap(self) -> float:
        """The distance between the best objective and the bound."""
        return self.objective - self.bound


class Solution(NamedTuple):
    """The best weights, and the proof of how good they are: the optimum is at most `gap` below `objective`."""

    weights: Floats
    objective: float
    gap: float
    at_zero: float  # the objective of w = 0
    iterations: int  # minimisations of the cuts
    evaluations: int  # evaluations of the risk
    converged: bool
    history: list[Step]


def minimise(
    risk: RiskFunction,
    start: Floats,
    *,
    regularisation: float,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    callback: Callable[[Step], None] | None = None,
) -> Solution:
    """Minimise J(w) = regularisation/2 · ‖w‖² + risk(w).

    The method stops when gap ≤ tolerance · (J(0) − bound): the share of the possible improvement over w = 0 that may be
    missing. An absolute tolerance would call w = 0 solved where the regularisation is so large that no weights gain
    more than it. If w = 0 is the optimum, the gap falls to the rounding error of J(0).

    Args:
      risk: Returns the value and a sub-gradient at some weights; convex, never negative.
      start: The first weights.
      regularisation: λ, above 0.
      tolerance: The relative tolerance, above 0.
      max_iterations: Stop after this many minimisations of the cuts.
      callback: Called after every iteration.

    Returns:
      The best weights; not converged where λ is so small that numbers cannot tell the cuts apart.

    References:
      Teo, Vishwanathan, Smola and Le (2010), Bundle Methods for Regularized Risk Minimization; Franc and Sonnenburg
      (2009), Optimized Cutting Plane Algorithm for Large-Scale Risk Minimization; Lemaréchal, Nemirovskii and Nesterov
      (1995), New Variants of Bundle Methods.
    """
    whole_number(max_iterations, "max_iterations", 1)
    first = np.array(start, dtype=np.float64)
    check_positive(tolerance=tolerance, regularisation=regularisation)
    search = _Search(risk, RidgeModel(len(first), float(regularisation)), tolerance, callback)
    with np.errstate(over="ignore", invalid="ignore"), suppress(_NotFinite):
        search.begin(first)
        while not search.converged and search.iterations < max_iterations:
            search.raise_bound()
            if not search.converged:
                search.search_line()
    return Solution(**{name: getattr(search, name) for name in Solution._fields})


class _NotFinite(ArithmeticError):
    """A number became too large to compute with."""


class _Search:
    """The best weights so far, the cuts, the bound and the history."""

    def __init__(
        self, risk: RiskFunction, model: RidgeModel, tolerance: float, callback: Callable[[Step], None] | None
    ) -> None:
        self.risk, self.model, self.tolerance, self.callback = risk, model, tolerance, callback
        self.objective, self.bound, self.at_zero = np.inf, 0.0, np.inf
        self.iterations, self.evaluations = 0, 0
        self.history: list[Step] = []

    @property
    def gap(self) -> float:
        return self.objective - self.bound

    @property
    def max_gap(self) -> float:
        """The largest gap at which the search may stop."""
        return max(self.tolerance * (self.at_zero - self.bound), ROUNDING_SHARE * self.at_zero)

    @property
    def converged(self) -> bool:
        return self.gap <= self.max_gap

    def begin(self, start: Floats) -> None:
        """Evaluate the start and w = 0, the reference of the tolerance."""
        self.at_zero, _ = self.evaluate(start)
        if start.any():
            self.at_zero, _ = self.evaluate(np.zeros(len(start)))

    def evaluate(self, weights: Floats) -> tuple[float, Floats]:
        """Evaluate the risk, keep the cut, and return the objective and its sub-gradient."""
        value, slope = self.risk(weights)
        objective = value + 0.5 * self.model.regularisation * float(weights @ weights)
        if not np.isfinite(objective) or not np.isfinite(slope @ slope):
            problem = "the risk is not finite: scale the features, or use more regularisation"
            raise _NotFinite(problem) if self.evaluations else InvalidInput(problem)
        self.evaluations += 1
        self.model.add(value, slope, weights)
        gradient = slope + self.model.regularisation * weights
        if objective < self.objective:
            self.objective, self.weights, self.gradient = objective, weights, gradient
        return objective, gradient

    def raise_bound(self) -> None:
        """Raise the bound by the minimum of the cuts."""
        bound = self.model.lowest(self.max_gap / 10)
        if not bound <= self.objective + self.tolerance * self.at_zero:
            raise _NotFinite(f"a bound of {bound} on an objective of {self.objective}")
        self.bound, self.iterations = max(self.bound, bound), self.iterations + 1
        self.history.append(Step(self.iterations, self.evaluations, self.objective, self.bound))
        if self.callback:
            self.callback(self.history[-1])

    def search_line(self) -> None:
        """Go from where the cuts meet the level back to the best weights, to where the nearest tangents meet."""
        end = self.model.near(self.weights, self.bound + LEVEL_SHARE * self.gap, self.gap, self.max_gap / 100)
        origin, direction = self.weights, end - self.weights
        height, slope = self.objective, float(self.gradient @ direction)
        step, steepest = 1.0, 0.0
        for _ in range(MAX_LINE_EVALUATIONS):
            objective, gradient = self.evaluate(origin + step * direction)
            rise = float(gradient @ direction)
            steepest = max(steepest, rise)
            if rise <= FLAT_SLOPE_SHARE * steepest:
                return
            meeting = (objective - height - rise * step) / (slope - rise) if slope < rise else 0.5 * step
            step = min(max(meeting, 0.1 * step), 0.9 * step)

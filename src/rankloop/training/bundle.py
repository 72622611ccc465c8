"""A bundle method that knows no loss: minimises λ/2 ‖w‖² + risk(w) for any convex risk that is never negative.

What it knows of a risk are planes below it (cuts), and where their maximum is least, by a QP on the simplex.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol

import numpy as np

from rankloop.core.checks import check_positive
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints, whole_number

RiskFunction = Callable[[Floats], tuple[float, Floats]]  # weights to value and sub-gradient
LEVEL = 0.5  # how far up the gap the next point is aimed at
MAX_LINE_EVALUATIONS = 3  # evaluations of one line search
FLAT = 0.1  # a line search ends where it rises this much less than at its end
FORGET_AFTER = 50  # minimisations during which a cut was of no use
CLOSE = 0.1  # of the gap: how near the level has to be met
MAX_STEPS = 10_000
MAX_PULLS = 12  # that are tried for one level
WIDE = 10_000  # columns from which on the cuts are large
MAX_NUMBERS, MIN_CUTS = 64_000_000, 16  # of all wide cuts together; how many there are at least
RIDGE = 1e-13  # relative to the largest diagonal entry: keeps cuts that depend on each other apart


@kernel
def _on_free(gram: Floats, offsets: Floats, free: Ints, ridge: float) -> Floats:
    """The best α on these cuts with Σα = 1, whatever its signs."""
    n = len(free)
    system, right = np.zeros((n + 1, n + 1)), np.ones(n + 1)
    for a in range(n):
        for b in range(n):
            system[a, b] = gram[free[a], free[b]]
        system[a, a] += ridge
        system[a, n] = 1.0
        system[n, a] = 1.0
        right[a] = offsets[free[a]]
    solved: Floats = np.linalg.solve(system, right).astype(np.float64)
    return solved[:n]


@kernel
def _walk(alpha: Floats, free: Ints, target: Floats) -> int:
    """Move α towards the target until an entry would turn negative; the number of that entry, or −1."""
    share, blocking = 1.0, -1
    for a in range(len(free)):
        if target[a] < 0.0:
            reach = alpha[free[a]] / (alpha[free[a]] - target[a])
            if reach < share:
                share, blocking = reach, a
    for a in range(len(free)):
        alpha[free[a]] += share * (target[a] - alpha[free[a]])
    if blocking >= 0:
        alpha[free[blocking]] = 0.0
    return blocking


@kernel
def minimise_on_simplex(gram: Floats, offsets: Floats, start: Floats, tolerance: float, max_steps: int) -> Floats:
    """α ≥ 0 with Σα = 1 that minimises ½ α·gram·α − offsets·α, by an active set that begins with the used cuts.

    Each step solves for the cuts in use, drops the one that would turn negative, or else takes in the one of the
    smallest slope; it stops when none is smaller than their common slope by more than `tolerance`. Whenever it stops, α
    is feasible.
    """
    alpha, n = start.copy(), len(start)
    alpha /= alpha.sum()
    free, n_free, largest = np.empty(n, np.int64), 0, 0.0
    for i in range(n):
        largest = max(largest, gram[i, i])
        if alpha[i] > 0.0:
            free[n_free] = i
            n_free += 1
    ridge = RIDGE * largest if largest > 0.0 else 1.0
    for _ in range(max_steps):
        target = _on_free(gram, offsets, free[:n_free], ridge)
        if not np.all(np.isfinite(target)):
            break
        blocking = _walk(alpha, free[:n_free], target)
        if blocking >= 0:
            n_free -= 1
            free[blocking] = free[n_free]
            continue
        slope = gram @ alpha - offsets
        lowest = np.argmin(slope)
        if alpha[lowest] > 0.0 or slope[lowest] >= np.sum(alpha * slope) - tolerance or n_free == n:
            break
        free[n_free] = lowest
        n_free += 1
    alpha /= alpha.sum()
    return alpha


class CutModel(Protocol):
    """The maximum of all cuts, beginning with risk(w) ≥ 0."""

    def add(self, value: float, slope: Floats, at: Floats) -> None:
        """The cut risk(w) ≥ value + slope · (w − at)."""

    def lowest(self, tolerance: float) -> tuple[Floats, float]:
        """The weights at which the model is least, and a lower bound of the whole objective."""

    def near(self, centre: Floats, level: float, gap: float, tolerance: float) -> Floats:
        """Weights near the centre at which the model comes down to about this level."""


class RidgeModel:
    """Cuts under λ/2 ‖w‖²: its dual is a quadratic over the simplex, α saying how much each cut carries."""

    def __init__(self, n_features: int, regularisation: float) -> None:
        self.regularisation = regularisation
        self.pull = 10.0 * regularisation  # towards the centre, found anew each time beginning with the last
        self.slopes = np.zeros((1, n_features))
        self.offsets = np.zeros(1)
        self.gram = np.zeros((1, 1))
        self.alpha = np.ones(1)
        self.near_alpha = np.ones(1)
        self.idle = np.zeros(1, np.int64)

    def add(self, value: float, slope: Floats, at: Floats) -> None:
        products = self.slopes @ slope
        self.gram = np.block([[self.gram, products[:, None]], [products[None, :], np.array([[slope @ slope]])]])
        self.slopes = np.vstack([self.slopes, slope])
        self.offsets = np.append(self.offsets, value - slope @ at)
        self.alpha, self.near_alpha = np.append(self.alpha, 0.0), np.append(self.near_alpha, 0.0)
        self.idle = np.append(self.idle, 0)

    def lowest(self, tolerance: float) -> tuple[Floats, float]:
        gram = self.gram / self.regularisation
        self.alpha = minimise_on_simplex(gram, self.offsets, self.alpha, tolerance, MAX_STEPS)
        self._forget()
        steepness = self.alpha @ self.slopes
        bound = self.offsets @ self.alpha - 0.5 * steepness @ steepness / self.regularisation
        return -steepness / self.regularisation, float(bound)

    def near(self, centre: Floats, level: float, gap: float, tolerance: float) -> Floats:
        """The minimiser of model + pull/2 ‖w − centre‖², with the pull at which the model there is the level."""
        products = self.slopes @ centre
        weak, strong = 0.0, np.inf
        for _ in range(MAX_PULLS):
            pull, total = self.pull, self.regularisation + self.pull
            offsets = self.offsets + pull / total * products
            self.near_alpha = minimise_on_simplex(self.gram / total, offsets, self.near_alpha, tolerance, MAX_STEPS)
            height = self._height(centre, products, pull)
            if abs(height - level) <= CLOSE * gap:
                break
            if height > level:
                strong = pull
                self.pull = np.sqrt(weak * strong) if weak > 0.0 else strong / 4.0
            else:
                weak = pull
                self.pull = np.sqrt(weak * strong) if strong < np.inf else weak * 4.0
        return self._pulled(centre, pull)

    def _pulled(self, centre: Floats, pull: float) -> Floats:
        """The weights that `near_alpha` stands for."""
        weights: Floats = (pull * centre - self.near_alpha @ self.slopes) / (self.regularisation + pull)
        return weights

    def _height(self, centre: Floats, products: Floats, pull: float) -> float:
        """The model at those weights; `products` are those of the cuts with the centre."""
        weights = self._pulled(centre, pull)
        height = float(np.max(self.slopes @ weights + self.offsets))
        return height + 0.5 * self.regularisation * float(weights @ weights)

    def _forget(self) -> None:
        used = (self.alpha > 0.0) | (self.near_alpha > 0.0)
        self.idle = np.where(used, 0, self.idle + 1)
        self.idle[0] = 0  # risk(w) ≥ 0 stays
        recent = self.idle < FORGET_AFTER
        if not recent.all():
            self._keep(np.flatnonzero(recent))

    def _keep(self, cuts: Ints) -> None:
        self.slopes, self.offsets, self.idle = self.slopes[cuts], self.offsets[cuts], self.idle[cuts]
        self.gram = self.gram[np.ix_(cuts, cuts)]
        self.alpha, self.near_alpha = self.alpha[cuts], self.near_alpha[cuts]


class WideModel(RidgeModel):
    """The same over very many columns: the products of the cuts stand for the cuts themselves wherever they can.

    There are at most `max_cuts`. One more, and all of them are merged by α into a single one, which carries the bound
    that was reached; of the others half are forgotten. So memory is bounded, and the bound never falls.
    Reference: Kiwiel (1983), An Aggregate Subgradient Method for Nonsmooth Convex Minimization.
    """

    def __init__(self, n_features: int, regularisation: float, max_cuts: int | None = None) -> None:
        super().__init__(n_features, regularisation)
        self.max_cuts = max_cuts or max(MIN_CUTS, MAX_NUMBERS // n_features)
        self._table = np.empty((self.max_cuts, n_features))  # memory is taken when a row is written
        self._table[0] = 0.0
        self.slopes = self._table[:1]

    def add(self, value: float, slope: Floats, at: Floats) -> None:
        if len(self.offsets) == self.max_cuts:
            self._merge()
        self._append(slope, value - float(slope @ at), self.slopes @ slope, float(slope @ slope))

    def lowest(self, tolerance: float) -> tuple[Floats, float]:
        weights, _ = super().lowest(tolerance)
        square = self.alpha @ self.gram @ self.alpha
        return weights, float(self.offsets @ self.alpha - 0.5 * square / self.regularisation)

    def _height(self, centre: Floats, products: Floats, pull: float) -> float:
        total, steps = self.regularisation + pull, self.gram @ self.near_alpha
        size = pull * (pull * float(centre @ centre) - 2.0 * float(self.near_alpha @ products))
        size += float(self.near_alpha @ steps)
        height = float(np.max((pull * products - steps) / total + self.offsets))
        return height + 0.5 * self.regularisation * size / total**2

    def _merge(self) -> None:
        products, offset = self.gram @ self.alpha, float(self.offsets @ self.alpha)
        merged, square = self.alpha @ self.slopes, float(self.alpha @ products)
        latest = np.lexsort((np.arange(len(self.idle)), -self.idle))[-(self.max_cuts // 2) :]
        kept = np.union1d([0], latest)
        self._keep(kept)
        self.alpha, self.near_alpha = np.zeros(len(kept)), np.zeros(len(kept))
        self._append(merged, offset, products[kept], square)
        self.alpha[-1] = self.near_alpha[-1] = 1.0

    def _append(self, slope: Floats, offset: float, products: Floats, square: float) -> None:
        self.gram = np.block([[self.gram, products[:, None]], [products[None, :], np.array([[square]])]])
        self._table[len(self.offsets)] = slope
        self.offsets = np.append(self.offsets, offset)
        self.slopes = self._table[: len(self.offsets)]
        self.alpha, self.near_alpha = np.append(self.alpha, 0.0), np.append(self.near_alpha, 0.0)
        self.idle = np.append(self.idle, 0)

    def _keep(self, cuts: Ints) -> None:
        for new, old in enumerate(cuts.tolist()):  # upwards, so that nothing is written over before it was moved
            if new != old:
                self._table[new] = self._table[old]
        self.slopes, self.offsets, self.idle = self._table[: len(cuts)], self.offsets[cuts], self.idle[cuts]
        self.gram = self.gram[np.ix_(cuts, cuts)]
        self.alpha, self.near_alpha = self.alpha[cuts], self.near_alpha[cuts]


class BallModel:
    """Cuts over ‖w‖₁ ≤ radius: a linear program in w⁺, w⁻ ≥ 0 and the height of the cuts."""

    def __init__(self, n_features: int, radius: float) -> None:
        self.radius = radius
        self.slopes = np.empty((0, n_features))
        self.offsets = np.empty(0)

    def add(self, value: float, slope: Floats, at: Floats) -> None:
        self.slopes = np.vstack([self.slopes, slope])
        self.offsets = np.append(self.offsets, value - slope @ at)

    def lowest(self, tolerance: float) -> tuple[Floats, float]:
        n_cuts, n_features = self.slopes.shape
        ball = np.append(np.ones(2 * n_features), 0.0)
        rows = np.vstack([np.hstack([self.slopes, -self.slopes, -np.ones((n_cuts, 1))]), ball])
        cost = np.append(np.zeros(2 * n_features), 1.0)
        from scipy.optimize import linprog  # takes half a second, for which nobody else should wait

        found = linprog(cost, A_ub=rows, b_ub=np.append(-self.offsets, self.radius), method="highs")
        weights: Floats = found.x[:n_features] - found.x[n_features:-1]
        return weights, float(found.fun)

    def near(self, centre: Floats, level: float, gap: float, tolerance: float) -> Floats:
        """Half the way to where the model is least: inside the ball, and by convexity no higher than the level."""
        return 0.5 * (centre + self.lowest(tolerance)[0])


class Step(NamedTuple):
    """Where the method stands."""

    iterations: int
    evaluations: int
    objective: float  # the best so far
    bound: float  # no weights reach less

    @property
    def gap(self) -> float:
        return self.objective - self.bound


class Solution(NamedTuple):
    """The best weights found, with the proof of how good they are: the optimum is at most `gap` below `objective`."""

    weights: Floats
    objective: float
    gap: float
    iterations: int  # how often the cuts were minimised
    evaluations: int  # how often the risk was computed
    converged: bool
    history: list[Step]


def minimise(
    risk: RiskFunction,
    start: Floats,
    *,
    regularisation: float,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    line_search: bool = True,
    l1_radius: float | None = None,
    callback: Callable[[Step], None] | None = None,
) -> Solution:
    """The weights that minimise regularisation/2 · ‖w‖² + risk(w), to within `tolerance` of the best objective.

    Every evaluation of the risk adds a cut; where the cuts are least is the next point to evaluate. With `line_search`
    that point is held near the best weights so far (a level in the middle of the gap), and the risk is evaluated where
    it is least on the line between the two: five to eight times fewer iterations when the regularisation is small.
    With `l1_radius` the weights are kept in ‖w‖₁ ≤ l1_radius instead, and the regularisation is 0.
    Where the regularisation is so small that the numbers cannot tell the cuts apart, the best so far stands, with the
    gap that is proved.
    References: Teo, Vishwanathan, Smola and Le (2010), Bundle Methods for Regularized Risk Minimization; Franc and
    Sonnenburg (2009), Optimized Cutting Plane Algorithm for Large-Scale Risk Minimization; Lemaréchal, Nemirovskii and
    Nesterov (1995), New Variants of Bundle Methods.
    """
    whole_number(max_iterations, "max_iterations", 1)
    first = np.array(start, dtype=np.float64)
    model = _model(first, regularisation, tolerance, l1_radius)
    search = _Search(risk, model, float(regularisation), tolerance, callback)
    search.evaluate(first)
    with np.errstate(over="ignore", invalid="ignore"), suppress(np.linalg.LinAlgError, _BeyondNumbers):
        while search.gap > tolerance and search.iterations < max_iterations:
            candidate = search.lower_bound()
            if search.gap <= tolerance:
                break
            if line_search:
                search.line_search(search.stabilised())
            else:
                search.evaluate(candidate)
    return search.solution()


def _model(start: Floats, regularisation: float, tolerance: float, l1_radius: float | None) -> CutModel:
    check_positive("tolerance", tolerance)
    if l1_radius is None:
        check_positive("regularisation", regularisation)
        cuts = RidgeModel if len(start) < WIDE else WideModel
        return cuts(len(start), float(regularisation))
    check_positive("l1_radius", l1_radius)
    if regularisation != 0.0:
        raise InvalidInput(f"with l1_radius the regularisation is 0, got {regularisation!r:.60}")
    if np.abs(start).sum() > l1_radius:
        raise InvalidInput(f"the start is outside the ball: ‖start‖₁ = {np.abs(start).sum()}, l1_radius = {l1_radius}")
    return BallModel(len(start), l1_radius)


class _BeyondNumbers(ArithmeticError):
    """What the cuts lead to is too large to be computed with."""


class _Search:
    """The best weights so far, the cuts, the bound and the history."""

    def __init__(
        self,
        risk: RiskFunction,
        model: CutModel,
        regularisation: float,
        tolerance: float,
        callback: Callable[[Step], None] | None,
    ) -> None:
        self.risk, self.model, self.callback = risk, model, callback
        self.regularisation, self.tolerance = regularisation, tolerance
        self.objective, self.bound = np.inf, 0.0
        self.iterations, self.evaluations = 0, 0
        self.history: list[Step] = []

    @property
    def gap(self) -> float:
        return self.objective - self.bound

    def evaluate(self, weights: Floats) -> tuple[float, Floats]:
        """Evaluate the risk, keep the cut, and return objective and its sub-gradient."""
        value, slope = self.risk(weights)
        with np.errstate(over="ignore"):
            size = slope @ slope
            objective = value + 0.5 * self.regularisation * float(weights @ weights)
        if not np.isfinite(objective) or not np.isfinite(size):
            said = "the risk is not finite; are the features scaled?"
            raise _BeyondNumbers(said) if self.evaluations else InvalidInput(said)
        self.evaluations += 1
        self.model.add(value, slope, weights)
        gradient = slope + self.regularisation * weights
        if objective < self.objective:
            self.objective, self.weights, self.gradient = objective, weights, gradient
        return objective, gradient

    def lower_bound(self) -> Floats:
        """Raise the bound by the minimum of the cuts; where that is."""
        candidate, bound = self.model.lowest(self.tolerance / 10)
        if not bound <= self.objective + self.tolerance:
            raise _BeyondNumbers(f"a bound of {bound} on an objective of {self.objective}")
        self.bound = max(self.bound, bound)
        self.iterations += 1
        self.history.append(Step(self.iterations, self.evaluations, self.objective, self.bound))
        if self.callback:
            self.callback(self.history[-1])
        return candidate

    def stabilised(self) -> Floats:
        return self.model.near(self.weights, self.bound + LEVEL * self.gap, self.gap, self.tolerance / 100)

    def line_search(self, end: Floats) -> None:
        """From the end back towards the best weights, to where the two nearest tangents of the line meet."""
        origin, direction = self.weights, end - self.weights
        height, slope = self.objective, float(self.gradient @ direction)
        step, steepest = 1.0, 0.0
        for _ in range(MAX_LINE_EVALUATIONS):
            objective, gradient = self.evaluate(origin + step * direction)
            rise = float(gradient @ direction)
            steepest = max(steepest, rise)
            if rise <= FLAT * steepest:
                return
            meeting = (objective - height - rise * step) / (slope - rise) if slope < rise else 0.5 * step
            step = min(max(meeting, 0.1 * step), 0.9 * step)

    def solution(self) -> Solution:
        converged = self.gap <= self.tolerance
        return Solution(
            weights=self.weights,
            objective=self.objective,
            gap=self.gap,
            iterations=self.iterations,
            evaluations=self.evaluations,
            converged=converged,
            history=self.history,
        )

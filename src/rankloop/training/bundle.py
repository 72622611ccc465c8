"""A bundle method that knows no loss: minimises λ/2 ‖w‖² + risk(w) for any convex risk that is never negative."""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from rankloop.core.checks import check_positive
from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, whole_number
from rankloop.training.cutting_planes import WIDE, BallModel, Model, RidgeModel, WideModel

RiskFunction = Callable[[Floats], tuple[float, Floats]]  # weights to value and sub-gradient
LEVEL = 0.5  # how far up the gap the next point is aimed at
MAX_LINE_EVALUATIONS = 3  # evaluations of one line search
FLAT = 0.1  # a line search ends where it rises this much less than at its end


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


def _model(start: Floats, regularisation: float, tolerance: float, l1_radius: float | None) -> Model:
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
        model: Model,
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
        counts = (self.iterations, self.evaluations)
        return Solution(self.weights, self.objective, self.gap, *counts, converged, self.history)

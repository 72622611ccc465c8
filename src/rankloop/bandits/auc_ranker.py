"""The AUC ranker: a linear model that puts visitors who click above those who do not, also where clicks are rare."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import ArrayLike, NDArray

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.kernels import add_row, kernel, reassociated, scores_of, weighted_rows
from rankloop.core.registry.specs import Estimator
from rankloop.core.types import Floats, Ints, finite_floats, whole_number

Loss = Literal["logistic", "hinge", "squared_hinge"]
BLOCK_SIZE = 1024  # examples that stay in the processor's cache
CELLS_PER_SCORE = 16  # few enough scores in a cell that most searches end at once
MAX_DRAWS_IN_MEMORY = 100_000


class SortedScores(NamedTuple):
    """Scores in ascending order, with sums that replace a sum over pairs; k is the number of the first scores."""

    scores: Floats
    middle: float  # subtracted in the sums: sums of numbers near 0 lose the fewest digits
    sums: Floats  # by k
    squares: Floats  # sums of squares, by k
    starts: NDArray[np.int32]  # the number of scores below each cell of a grid from the least to the largest score


@reassociated
def _cells(values: Floats, scores: Floats) -> Ints:
    """Return the cell of each value in the grid of ascending scores: monotone, and 0 for NaN."""
    last, width = CELLS_PER_SCORE * len(scores) - 1.0, scores[-1] - scores[0]
    scale, cells = (last / width if width > 0.0 else 0.0), np.empty(len(values), np.int64)
    for i in range(len(values)):  # without branches, so that it is vectorised
        place = (values[i] - scores[0]) * scale
        place = place if place > 0.0 else 0.0
        cells[i] = int(place if place < last else last)
    return cells


@kernel
def _sorted_scores(scores: Floats, middle: float) -> SortedScores:
    """Return the sums and the grid of scores that ascend."""
    n, n_cells = len(scores), CELLS_PER_SCORE * len(scores)
    sums, squares, starts = np.zeros(n + 1), np.zeros(n + 1), np.zeros(n_cells + 1, np.int32)
    for i, cell in enumerate(_cells(scores, scores)):
        sums[i + 1] = sums[i] + (scores[i] - middle)
        squares[i + 1] = squares[i] + (scores[i] - middle) ** 2
        starts[cell + 1] += 1
    for cell in range(n_cells):
        starts[cell + 1] += starts[cell]
    return SortedScores(scores, middle, sums, squares, starts)


@reassociated
def _hinge(features: Floats, weights: Floats, lower: SortedScores, squared: bool) -> tuple[float, Floats, Floats]:
    """Return Σ over pairs of max(0, 1 + other − score) or its square, its slope in the scores and in the weights."""
    # The others are features · weights. An other has a positive loss with the first k scores, those below 1 + other.
    # Its row is read once, for its score and for the gradient.
    scores, sums, n = lower.scores, lower.sums, len(lower.scores)
    value, grad = 0.0, np.zeros(len(weights))
    reached, limit_sums = np.zeros(n + 1), np.zeros(n + 1)  # by k: how many others, and the sum of their limits
    for start in range(0, len(features), BLOCK_SIZE):
        block = features[start : start + BLOCK_SIZE]
        factors = scores_of(block, weights) + 1.0
        cells = _cells(factors, scores)
        for row in range(len(block)):
            limit, k, end = factors[row], lower.starts[cells[row]], lower.starts[cells[row] + 1]
            while k < end:  # bisect the scores of the cell
                half = (k + end) >> 1
                if scores[half] < limit:
                    k = half + 1
                else:
                    end = half
            limit -= lower.middle
            gap = k * limit - sums[k]
            value += k * limit**2 - 2.0 * limit * sums[k] + lower.squares[k] if squared else gap
            factors[row] = 2.0 * gap if squared else float(k)
            reached[k] += 1.0
            limit_sums[k] += limit
        for row in range(len(block)):
            add_row(grad, block, row, factors[row])
    slope, above, limit_sum = np.empty(n), 0.0, 0.0
    for i in range(n - 1, -1, -1):
        above += reached[i + 1]
        limit_sum += limit_sums[i + 1]
        slope[i] = -2.0 * (limit_sum - above * (scores[i] - lower.middle)) if squared else -above
    return value, slope, grad


@kernel
def _logistic(clicked: Floats, unclicked: Floats) -> tuple[float, Floats, Floats]:
    """Return Σ over pairs of ln(1 + exp(unclicked − clicked)), and its slope in both."""
    value, slope, slope_others = 0.0, np.zeros(len(clicked)), np.zeros(len(unclicked))
    for start in range(0, len(unclicked), BLOCK_SIZE):
        for i in range(len(clicked)):
            for j in range(start, min(start + BLOCK_SIZE, len(unclicked))):
                t = unclicked[j] - clicked[i]
                small = np.exp(-abs(t))
                value += max(t, 0.0) + np.log1p(small)
                share = 1.0 / (1.0 + small) if t >= 0.0 else small / (1.0 + small)
                slope[i] -= share
                slope_others[j] += share
    return value, slope, slope_others


def _hinge_loss(clicked: Floats, unclicked: Floats, weights: Floats, squared: bool) -> tuple[float, Floats]:
    """Return Σ over all pairs of the hinge or its square, and its gradient."""
    # Takes O(n + m) lookups in a grid and one sort of the smaller side.
    if len(clicked) > len(unclicked):  # clicked − unclicked = (−unclicked) − (−clicked): the sides swapped
        value, grad = _hinge_loss(unclicked, clicked, -weights, squared)
        return value, -grad
    scores = scores_of(clicked, weights)
    order = np.argsort(scores, kind="stable")
    lower = _sorted_scores(scores[order], float(scores.mean()))
    value, slope, grad = _hinge(unclicked, weights, lower, squared)
    return value, grad + weighted_rows(clicked[order], slope)


LOSSES: dict[Loss, int] = {"logistic": 0, "hinge": 1, "squared_hinge": 2}


@reassociated
def _steepness(margin: float, loss: int) -> float:
    """Return −ℓ′(margin)."""
    if loss == 0:
        small: float = np.exp(-abs(margin))
        return small / (1.0 + small) if margin >= 0.0 else 1.0 / (1.0 + small)
    if margin >= 1.0:
        return 0.0
    return 1.0 if loss == 1 else 2.0 * (1.0 - margin)


class StepSize(NamedTuple):
    """The parameters of a descent on pairs."""

    rate: float
    ridge: float
    loss: int  # its number in `LOSSES`


@reassociated
def _descend(
    clicked: Floats, unclicked: Floats, draws: Floats, weights: Floats, total: Floats, start: int, size: StepSize
) -> None:
    """Take one step per row of draws; the penalty acts by its proximal map, so that no rate is too large."""
    n_features, rate, ridge = len(weights), size.rate, size.ridge
    for row in range(len(draws)):
        hit = clicked[int(draws[row, 0] * len(clicked))]
        other = unclicked[int(draws[row, 1] * len(unclicked))]
        eta = rate / (1.0 + 2.0 * ridge * rate * (start + row)) if ridge > 0.0 else rate / np.sqrt(1.0 + start + row)
        margin = 0.0
        for j in range(n_features):
            margin += weights[j] * (hit[j] - other[j])
        push, shrink = eta * _steepness(margin, size.loss), 1.0 / (1.0 + 2.0 * ridge * eta)
        for j in range(n_features):
            weights[j] = (weights[j] + push * (hit[j] - other[j])) * shrink
            if len(total):
                total[j] += weights[j]


def sampled_weights(
    clicked: Floats, unclicked: Floats, *, loss: Loss, ridge: float, n_pairs: int, rng: Generator
) -> Floats:
    """Return the mean of the second half of `n_pairs` stochastic gradient steps from 0.

    w ← (w − η_t ℓ′(w · (x⁺ − x⁻)) · (x⁺ − x⁻)) / (1 + 2 ridge η_t), η_t = η / (1 + 2 ridge η t), or η / √t without a
    ridge; η is 1 over the mean squared length of a difference.

    Args:
      clicked: The features of clicked examples.
      unclicked: The features of the others.
      loss: The loss of a pair.
      ridge: The weight of the penalty ‖w‖².
      n_pairs: The number of steps.
      rng: Draws the pairs.

    References:
      Shamir and Zhang (2013), Stochastic Gradient Descent for Non-smooth Optimization.
    """
    weights, total = np.zeros(clicked.shape[1]), np.zeros(clicked.shape[1])
    length = float((clicked.var(0) + unclicked.var(0) + (clicked.mean(0) - unclicked.mean(0)) ** 2).sum())
    size, averaged = StepSize(1.0 / max(length, 1e-12), ridge, LOSSES[loss]), 0
    for start in range(0, n_pairs, MAX_DRAWS_IN_MEMORY):
        draws = rng.random((min(MAX_DRAWS_IN_MEMORY, n_pairs - start), 2))
        late = start + len(draws) > n_pairs // 2
        _descend(clicked, unclicked, draws, weights, total if late else total[:0], start, size)
        averaged += late * len(draws)
    return total / averaged


MAX_EXACT_PAIRS = 1_000_000  # visiting so many pairs takes less time than a descent by samples


@dataclass(kw_only=True)
class AUCRanker(Estimator):
    """A linear ranker that minimises (1/|S⁺||S⁻|) Σ_(x⁺, x⁻) ℓ(w·x⁺ − w·x⁻) + `regularisation` · ‖w‖².

    The mean, (5.1) of Chaudhuri (2016), is over all pairs of a clicked example x⁺ and an unclicked one x⁻, so rare
    clicks weigh as much as frequent ones. Features are centred; `coef_` and `intercept_` are in the units of the data.

    Args:
      loss: ℓ(t): `logistic` is ln(1 + e^−t), `hinge` max(0, 1 − t), `squared_hinge` its square.
      regularisation: The weight of the penalty ‖w‖².
      solver: `full` uses exact gradients over all pairs (L-BFGS), `sgd` samples pairs, `auto` takes the faster one.
      n_pairs: The number of sampled pairs.
      scale: Divide features by their standard deviation before the penalty is computed.
      seed: Of the sampled pairs.

    Examples:
      >>> ranker = AUCRanker().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
      >>> int(ranker.decision_function([[0.0], [3.0]]).argmax())
      1

    References:
      Chaudhuri, Theocharous and Ghavamzadeh (2016), Personalized Advertisement Recommendation: A Ranking Approach to
      Address the Ubiquitous Click Sparsity Problem.
    """

    loss: Loss = "logistic"
    regularisation: float = 0.01
    solver: Literal["auto", "full", "sgd"] = "auto"
    n_pairs: int = 1_000_000
    scale: bool = True
    seed: int = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> "AUCRanker":
        """Learn from examples.

        Args:
          X: One row of features per example.
          y: 1 for a clicked example, 0 for an unclicked one; there must be both.
        """
        features, clicked = self._checked(X, y)
        centre, spread = _moments(features)
        spread = np.where(self.scale & (spread > 0.0), spread, 1.0)
        rows = (features - centre) / spread
        sides = np.ascontiguousarray(rows[clicked]), np.ascontiguousarray(rows[~clicked])
        few = self.loss != "logistic" or len(sides[0]) * len(sides[1]) <= MAX_EXACT_PAIRS
        ridge = float(self.regularisation)
        if self.solver == "full" or (self.solver == "auto" and few):
            value_and_gradient = objective(sides[0], sides[1], self.loss, ridge)
            minimize, start = import_extra("scipy.optimize").minimize, np.zeros(rows.shape[1])
            weights = np.asarray(minimize(value_and_gradient, start, jac=True, method="L-BFGS-B").x, np.float64)
        else:
            rng, n_pairs = default_rng(self.seed), self.n_pairs
            weights = sampled_weights(sides[0], sides[1], loss=self.loss, ridge=ridge, n_pairs=n_pairs, rng=rng)
        self.coef_: Floats = weights / spread
        self.intercept_ = -float(np.sum(self.coef_ * centre))
        self.n_features_in_ = features.shape[1]
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return one score per row of features; only their order means something."""
        if not hasattr(self, "coef_"):
            raise InvalidInput("this ranker has learned nothing yet: call fit first")
        features = finite_floats(X, 2, "X")
        if features.shape[1] != self.n_features_in_:
            raise InvalidInput(f"X has {features.shape[1]} features, the ranker learned from {self.n_features_in_}")
        return scores_of(features, self.coef_) + self.intercept_

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Floats, Any]:
        for name, choices in (("loss", get_args(Loss)), ("solver", ("auto", "full", "sgd"))):
            if getattr(self, name) not in choices:
                raise InvalidInput(f"{name} = {getattr(self, name)!r} must be one of {', '.join(choices)}")
        whole_number(self.n_pairs, "n_pairs", 2)
        if not 0.0 <= self.regularisation < np.inf:
            raise InvalidInput(f"regularisation = {self.regularisation} must be a finite number from 0")
        features, clicked = finite_floats(X, 2, "X"), finite_floats(y, 1, "y") > 0
        if clicked.shape != (len(features),):
            raise InvalidInput(f"y has shape {clicked.shape} for {len(features)} rows of X")
        if clicked.all() or not clicked.any():
            raise InvalidInput("y must hold both clicked (1) and unclicked (0) examples: there is no pair to rank")
        return features, clicked


def _moments(features: Floats) -> tuple[Floats, Floats]:
    with np.errstate(over="ignore", invalid="ignore"):
        centre, spread = features.mean(axis=0), features.std(axis=0)
    if not np.isfinite(spread).all():
        column = int(np.argmax(~np.isfinite(spread)))
        largest = np.abs(features[:, column]).max()
        raise InvalidInput(f"column {column} of X holds numbers up to {largest:.3g}, too large to learn from: scale it")
    return centre, spread


def objective(clicked: Floats, unclicked: Floats, loss: Loss, ridge: float) -> Callable[[Floats], tuple[float, Floats]]:
    """Return AUC loss + ridge · ‖w‖² as a function of the weights, with its gradient.

    Args:
      clicked: The features of clicked examples.
      unclicked: The features of the others.
      loss: The loss of a pair.
      ridge: The weight of the penalty.
    """
    if not len(clicked) or not len(unclicked):
        raise InvalidInput("there must be at least one clicked and one unclicked example")
    n_pairs = float(len(clicked)) * float(len(unclicked))

    def of(weights: Floats) -> tuple[float, Floats]:
        if loss == "logistic":
            value, slope, slope_others = _logistic(scores_of(clicked, weights), scores_of(unclicked, weights))
            grad = weighted_rows(clicked, slope) + weighted_rows(unclicked, slope_others)
        else:
            value, grad = _hinge_loss(clicked, unclicked, weights, loss == "squared_hinge")
        return value / n_pairs + ridge * float(np.sum(weights**2)), grad / n_pairs + 2.0 * ridge * weights

    return of


NOT_SAMPLED = -1


@reassociated
def stepped(weights: Floats, example: Floats, others: Floats, sign: float, size: StepSize) -> Floats:
    """Return the weights after one step on the mean loss of the pairs (example, other).

    Args:
      weights: The weights before the step.
      example: The features of the new example.
      others: The features of examples of the other kind.
      sign: 1 if the new example was clicked, else −1.
      size: The step size and the loss.
    """
    n_features, moved = len(weights), weights.copy()
    if len(others) == 0:
        return moved
    push = np.zeros(n_features)
    for row in range(len(others)):
        margin = 0.0
        for j in range(n_features):
            margin += weights[j] * (example[j] - others[row, j])
        steep = _steepness(sign * margin, size.loss)
        for j in range(n_features):
            push[j] += steep * (example[j] - others[row, j])
    scale = sign * size.rate / len(others)
    for j in range(n_features):
        moved[j] = (weights[j] + scale * push[j]) / (1.0 + 2.0 * size.ridge * size.rate)
    return moved

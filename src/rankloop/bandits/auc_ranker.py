"""The AUC ranker: a linear model that puts visitors who click above those who do not, also where clicks are rare."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.random import default_rng
from numpy.typing import ArrayLike

from rankloop.bandits.auc_loss import Loss, StepSize, auc_loss, sampled_weights, steepness
from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.kernels import kernel, reassociated, scores_of, weighted_rows
from rankloop.core.registry.estimator import Estimator
from rankloop.core.types import Floats, finite_floats, whole_number

MAX_EXACT_PAIRS = 1_000_000  # visiting so many pairs takes less time than a descent by samples


@dataclass(kw_only=True)
class AUCRanker(Estimator):
    """A linear ranker that minimises (1/|S⁺||S⁻|) Σ_(x⁺, x⁻) ℓ(w·x⁺ − w·x⁻) + `regularisation` · ‖w‖².

    The mean is over all pairs of a clicked example x⁺ and an unclicked one x⁻, so rare clicks weigh as much as frequent
    ones. Features are centred. After `fit`, `coef_` and `intercept_` are in the units of the data.

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

        Raises:
          InvalidInput: If shapes differ, a number is not finite, or all examples have the same label.
        """
        features, clicked = self._checked(X, y)
        centre, spread = _moments(features)
        spread = np.where(self.scale & (spread > 0.0), spread, 1.0)
        rows = (features - centre) / spread
        weights = self._weights(np.ascontiguousarray(rows[clicked]), np.ascontiguousarray(rows[~clicked]))
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

    def _weights(self, clicked: Floats, unclicked: Floats) -> Floats:
        ridge = float(self.regularisation)
        few = self.loss != "logistic" or len(clicked) * len(unclicked) <= MAX_EXACT_PAIRS
        if self.solver == "full" or (self.solver == "auto" and few):
            return minimised(clicked, unclicked, self.loss, ridge)
        rng = default_rng(self.seed)
        return sampled_weights(clicked, unclicked, loss=self.loss, ridge=ridge, n_pairs=self.n_pairs, rng=rng)

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Floats, Any]:
        for name, choices in (
            ("loss", Loss),
            ("solver", Literal["auto", "full", "sgd"]),
        ):
            if getattr(self, name) not in get_args(choices):
                raise InvalidInput(f"{name} = {getattr(self, name)!r} must be one of {', '.join(get_args(choices))}")
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
    """Return the mean and the standard deviation of every column."""
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

    def of(weights: Floats) -> tuple[float, Floats]:
        value, slope, slope_others = auc_loss(scores_of(clicked, weights), scores_of(unclicked, weights), loss)
        grad = weighted_rows(clicked, slope) + weighted_rows(unclicked, slope_others) + 2.0 * ridge * weights
        return value + ridge * float(np.sum(weights**2)), grad

    return of


def minimised(clicked: Floats, unclicked: Floats, loss: Loss, ridge: float) -> Floats:
    """Return the weights that minimise `objective`, by L-BFGS.

    Args:
      clicked: The features of clicked examples.
      unclicked: The features of the others.
      loss: The loss of a pair.
      ridge: The weight of the penalty.
    """
    minimize = import_extra("scipy.optimize").minimize

    start = np.zeros(clicked.shape[1])
    solution = minimize(objective(clicked, unclicked, loss, ridge), start, jac=True, method="L-BFGS-B").x
    return np.asarray(solution, dtype=np.float64)


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
        steep = steepness(sign * margin, size.loss)
        for j in range(n_features):
            push[j] += steep * (example[j] - others[row, j])
    scale = sign * size.rate / len(others)
    for j in range(n_features):
        moved[j] = (weights[j] + scale * push[j]) / (1.0 + 2.0 * size.ridge * size.rate)
    return moved


@kernel
def reservoir_position(n_earlier: int, size: int, draw: float) -> int:
    """Return the place of the next example in a reservoir sample, or NOT_SAMPLED.

    Args:
      n_earlier: The number of earlier examples.
      size: The size of the reservoir.
      draw: A uniform random number from 0 to 1.
    """
    if n_earlier < size:
        return n_earlier
    position = int(draw * (n_earlier + 1))
    return position if position < size else NOT_SAMPLED

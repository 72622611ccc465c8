"""A linear ranker that puts the people who click above those who do not, however few they are."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.random import default_rng
from numpy.typing import ArrayLike

from rankloop.bandits.auc_loss import Loss, auc_loss, sampled_weights
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of, weighted_rows
from rankloop.core.registry.estimator import Estimator
from rankloop.core.types import Floats, finite_floats, whole_number

FEW_PAIRS = 1_000_000  # so many pairs are visited one and all in less time than a descent takes


@dataclass(kw_only=True)
class AUCRanker(Estimator):
    """Minimises (1/|S⁺||S⁻|) Σ_(x⁺, x⁻) ℓ(w·x⁺ − w·x⁻) + `regularisation` · penalty(w).

    The mean runs over all pairs of a clicked and an unclicked example, so rare clicks weigh as much as frequent ones.
    `loss` is logistic, hinge or squared_hinge; `penalty` l2 (‖w‖²) or l1 (‖w‖₁). Features are centred, and with
    `scale` divided by their standard deviation, which is what the penalty sees. `solver`: "full" uses exact gradients
    over all pairs (quasi-Newton), "sgd" samples `n_pairs` pairs, "auto" takes the faster. After `fit`, `coef_` and
    `intercept_` are in the units of the data.
    Reference: Chaudhuri, Theocharous and Ghavamzadeh (2016), Personalized Advertisement Recommendation: A Ranking
    Approach to Address the Ubiquitous Click Sparsity Problem.
    """

    loss: Loss = "logistic"
    regularisation: float = 0.01
    penalty: Literal["l1", "l2"] = "l2"
    solver: Literal["auto", "full", "sgd"] = "auto"
    n_pairs: int = 1_000_000
    scale: bool = True
    seed: int = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> "AUCRanker":
        """Learn from rows of features and whether each was clicked; both kinds are needed."""
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
        """The scores; only their order means something."""
        if not hasattr(self, "coef_"):
            raise InvalidInput("this ranker has learned nothing yet: call fit first")
        features = finite_floats(X, 2, "X")
        if features.shape[1] != self.n_features_in_:
            raise InvalidInput(f"X has {features.shape[1]} features, the ranker learned from {self.n_features_in_}")
        return scores_of(features, self.coef_) + self.intercept_

    def _weights(self, clicked: Floats, unclicked: Floats) -> Floats:
        strength = float(self.regularisation)
        ridge, lasso = (strength, 0.0) if self.penalty == "l2" else (0.0, strength)
        few = self.loss != "logistic" or len(clicked) * len(unclicked) <= FEW_PAIRS
        if self.solver == "full" or (self.solver == "auto" and few):
            return minimised(clicked, unclicked, self.loss, ridge, lasso)
        options: dict[str, Any] = {"loss": self.loss, "ridge": ridge, "lasso": lasso, "n_pairs": self.n_pairs}
        return sampled_weights(clicked, unclicked, **options, rng=default_rng(self.seed))

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Floats, Any]:
        for name, choices in (
            ("loss", Loss),
            ("penalty", Literal["l1", "l2"]),
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
    """Mean and standard deviation of every column."""
    with np.errstate(over="ignore", invalid="ignore"):
        centre, spread = features.mean(axis=0), features.std(axis=0)
    if not np.isfinite(spread).all():
        column = int(np.argmax(~np.isfinite(spread)))
        largest = np.abs(features[:, column]).max()
        raise InvalidInput(f"column {column} of X holds numbers up to {largest:.3g}, too large to learn from: scale it")
    return centre, spread


def objective(clicked: Floats, unclicked: Floats, loss: Loss, ridge: float) -> Callable[[Floats], tuple[float, Floats]]:
    """AUC loss + ridge · ‖w‖² as a function of the weights, with its gradient: two passes over the data and a sort."""

    def of(weights: Floats) -> tuple[float, Floats]:
        value, slope, slope_others = auc_loss(scores_of(clicked, weights), scores_of(unclicked, weights), loss)
        grad = weighted_rows(clicked, slope) + weighted_rows(unclicked, slope_others) + 2.0 * ridge * weights
        return value + ridge * float(np.sum(weights**2)), grad

    return of


def minimised(clicked: Floats, unclicked: Floats, loss: Loss, ridge: float, lasso: float) -> Floats:
    """The minimiser by L-BFGS; with the l1 penalty over w = u − v with u, v ≥ 0, which makes it smooth."""
    from scipy.optimize import minimize

    of, n = objective(clicked, unclicked, loss, ridge), clicked.shape[1]
    if lasso == 0.0:
        return np.asarray(minimize(of, np.zeros(n), jac=True, method="L-BFGS-B").x, dtype=np.float64)

    def split(parts: Floats) -> tuple[float, Floats]:
        value, grad = of(parts[:n] - parts[n:])
        return value + lasso * float(parts.sum()), np.concatenate([grad, -grad]) + lasso

    found = minimize(split, np.zeros(2 * n), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * (2 * n)).x
    return np.asarray(found[:n] - found[n:], dtype=np.float64)

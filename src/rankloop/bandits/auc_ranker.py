"""Linear rankers that put visitors who click above those who do not, however few they are; from tables or streams."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import ArrayLike

from rankloop.bandits.auc_loss import LOSSES, Loss, StepSize, auc_loss, sampled_weights, steepness
from rankloop.core.errors import InvalidInput, UnstableUpdate
from rankloop.core.kernels import kernel, reassociated, scores_of, weighted_rows
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
        rng = default_rng(self.seed)
        return sampled_weights(
            clicked, unclicked, loss=self.loss, ridge=ridge, lasso=lasso, n_pairs=self.n_pairs, rng=rng
        )

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

    parts = minimize(split, np.zeros(2 * n), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * (2 * n)).x
    return np.asarray(parts[:n] - parts[n:], dtype=np.float64)


NOT_SAMPLED = -1


@reassociated
def stepped(weights: Floats, example: Floats, others: Floats, sign: float, size: StepSize) -> Floats:
    """w after one step on the mean loss of the pairs (example, other); `sign` is 1 for a clicked example, else −1."""
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
def position_for(n_seen: int, size: int, draw: float) -> int:
    """Where in a reservoir of this size the next example goes, when n_seen came before; NOT_SAMPLED is possible."""
    if n_seen < size:
        return n_seen
    position = int(draw * (n_seen + 1))
    return position if position < size else NOT_SAMPLED


class Sample(NamedTuple):
    """What a streaming ranker has learned: weights, and reservoirs of unclicked (0) and clicked (1) examples."""

    weights: Floats
    examples: Floats  # (2, buffer, n_features)
    counts: Floats  # how many of either kind came


@kernel
def _absorb(features: Floats, clicked: Floats, draws: Floats, sample: Sample, size: StepSize) -> None:
    """Row after row, in place."""
    weights, examples, counts = sample.weights, sample.examples, sample.counts
    buffer = examples.shape[1]
    for row in range(len(features)):
        kind = 1 if clicked[row] > 0.0 else 0
        n_others = min(int(counts[1 - kind]), buffer)
        sign = 2.0 * kind - 1.0
        weights[:] = stepped(weights, features[row], examples[1 - kind, :n_others], sign, size)
        position = position_for(int(counts[kind]), buffer, draws[row])
        if position != NOT_SAMPLED:
            examples[kind, position] = features[row]
        counts[kind] += 1.0


@dataclass(kw_only=True)
class StreamingAUCRanker(Estimator):
    """Learns as `AUCRanker` does from batches that are seen once, keeping `buffer` examples of each kind.

    Each example takes a step on its mean loss against the kept ones of the other kind, w ← (w − η ∇) / (1 + 2 η λ),
    and then enters the reservoir of its own kind, so that at any time the kept ones are a uniform sample.
    Reference: Zhao, Hoi, Jin and Yang (2011), Online AUC Maximization.
    """

    loss: Loss = "logistic"
    regularisation: float = 1e-4
    learning_rate: float = 0.05
    buffer: int = 128
    seed: int = 0

    def _start(self, n_features: int) -> None:
        whole_number(self.buffer, "buffer", 1)
        if not 0.0 < self.learning_rate < np.inf or not 0.0 <= self.regularisation < np.inf or self.loss not in LOSSES:
            raise InvalidInput(
                "learning_rate must be a finite number above 0, regularisation one from 0, "
                f"loss one of {', '.join(LOSSES)}"
            )
        self.coef_: Floats = np.zeros(n_features)
        self._sample = Sample(self.coef_, np.zeros((2, self.buffer, n_features)), np.zeros(2))
        self._rng: Generator = default_rng(self.seed)

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> "StreamingAUCRanker":
        """Take in the next batch."""
        features, clicked = finite_floats(X, 2, "X"), finite_floats(y, 1, "y")
        if len(features) != len(clicked):
            raise InvalidInput(f"{len(clicked)} labels for {len(features)} rows")
        if not hasattr(self, "coef_"):
            self._start(features.shape[1])
        if features.shape[1] != len(self.coef_):
            raise InvalidInput(f"X has {features.shape[1]} features, earlier batches had {len(self.coef_)}")
        size = StepSize(self.learning_rate, self.regularisation, 0.0, LOSSES[self.loss])
        rng, sample = deepcopy(self._rng), deepcopy(self._sample)
        _absorb(features, clicked, rng.random(len(features)), sample, size)
        if not np.isfinite(sample.weights).all():
            raise UnstableUpdate(
                "the weights would grow without end on this batch, which is refused: scale the features to about 1, or "
                "lower the learning_rate"
            )
        self._rng, self._sample, self.coef_ = rng, sample, sample.weights
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """The scores; only their order means something."""
        if not hasattr(self, "coef_"):
            raise InvalidInput("this ranker has learned nothing yet: call partial_fit first")
        features = finite_floats(X, 2, "X")
        if features.shape[1] != len(self.coef_):
            raise InvalidInput(f"X has {features.shape[1]} features, the ranker learned from {len(self.coef_)}")
        return scores_of(features, self.coef_)

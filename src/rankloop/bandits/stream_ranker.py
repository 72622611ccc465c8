"""The AUC ranker for logs that never end: every example meets a sample of the other kind, and is perhaps kept."""

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import ArrayLike

from rankloop.bandits.auc_loss import LOSSES, Loss, steepness
from rankloop.core.errors import InvalidInput, UnstableUpdate
from rankloop.core.kernels import kernel, reassociated, scores_of
from rankloop.core.registry.estimator import Estimator
from rankloop.core.types import Floats, finite_floats, whole_number

NOT_SAMPLED = -1


@reassociated
def stepped(
    weights: Floats, example: Floats, others: Floats, sign: float, rate: float, ridge: float, loss: int
) -> Floats:
    """w after one step on the mean loss of the pairs (example, other); `sign` is 1 for a clicked example, else −1."""
    n_features, moved = len(weights), weights.copy()
    if len(others) == 0:
        return moved
    push = np.zeros(n_features)
    for row in range(len(others)):
        margin = 0.0
        for j in range(n_features):
            margin += weights[j] * (example[j] - others[row, j])
        steep = steepness(sign * margin, loss)
        for j in range(n_features):
            push[j] += steep * (example[j] - others[row, j])
    scale = sign * rate / len(others)
    for j in range(n_features):
        moved[j] = (weights[j] + scale * push[j]) / (1.0 + 2.0 * ridge * rate)
    return moved


@kernel
def position_for(n_seen: int, size: int, draw: float) -> int:
    """Where in a reservoir of this size the next example goes, when n_seen came before; NOT_SAMPLED is possible."""
    if n_seen < size:
        return n_seen
    position = int(draw * (n_seen + 1))
    return position if position < size else NOT_SAMPLED


@kernel
def _absorb(
    features: Floats,
    clicked: Floats,
    draws: Floats,
    weights: Floats,
    samples: Floats,
    counts: Floats,
    rate: float,
    ridge: float,
    loss: int,
) -> None:
    """Row after row, in place; samples[1] holds clicked examples, samples[0] unclicked ones."""
    size = samples.shape[1]
    for row in range(len(features)):
        kind = 1 if clicked[row] > 0.0 else 0
        n_others = min(int(counts[1 - kind]), size)
        sign = 2.0 * kind - 1.0
        weights[:] = stepped(weights, features[row], samples[1 - kind, :n_others], sign, rate, ridge, loss)
        position = position_for(int(counts[kind]), size, draws[row])
        if position != NOT_SAMPLED:
            samples[kind, position] = features[row]
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
        self._samples: Floats = np.zeros((2, self.buffer, n_features))
        self._counts: Floats = np.zeros(2)
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
        sizes = self.learning_rate, self.regularisation, LOSSES[self.loss]
        rng, learned = deepcopy(self._rng), (self.coef_.copy(), self._samples.copy(), self._counts.copy())
        _absorb(features, clicked, rng.random(len(features)), *learned, *sizes)
        if not np.isfinite(learned[0]).all():
            raise UnstableUpdate(
                "the weights would grow without end on this batch, which is refused: scale the features to about 1, or "
                "lower the learning_rate"
            )
        self._rng, (self.coef_, self._samples, self._counts) = rng, learned
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """The scores; only their order means something."""
        if not hasattr(self, "coef_"):
            raise InvalidInput("this ranker has learned nothing yet: call partial_fit first")
        features = finite_floats(X, 2, "X")
        if features.shape[1] != len(self.coef_):
            raise InvalidInput(f"X has {features.shape[1]} features, the ranker learned from {len(self.coef_)}")
        return scores_of(features, self.coef_)

"""How much coactive learning can lose on average, and the quantities of the bounds measured from simulated users.

Throughout, `radius` is R ≥ ‖φ(x, y)‖ of the joint features φ(x, y) = Σ_p φ(x, y[p]) / log₂(p + 2), `norm` is ‖w*‖ of
the utility U(x, y) = w* · φ(x, y), `alpha` in (0, 1] says how informative the feedback is, and `slack` is the mean of
the ξ_t that this leaves unexplained. All bound REG_T = (1/T) Σ (U(x, best) − U(x, shown)).
Reference: Raman, Joachims, Shivaswamy and Schnabel (2013), Stable Coactive Learning via Perturbation. Three of its
statements are corrected here: in Corollary 4 and Proposition 5 the radius stands outside the root, and in Proposition
6 the last term stands under the outer root with a factor 2.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import discount, discounts, ranking_of, scores_of
from rankloop.core.types import Floats, Ints, Query

FIRST_DROP = discount(0) - discount(1)  # γ₁ − γ₂ of the paper, which is also 1 − γ₂ / γ₁ as γ₁ = 1


def preference_perceptron_regret(horizon: int, radius: float, norm: float, alpha: float, slack: float = 0.0) -> float:
    """Theorem 1: slack / α + 2 R ‖w*‖ / (α √T), without perturbation."""
    return perturbed_regret(horizon, radius, norm, alpha, slack, score_agreement=0.0)


def perturbed_regret(
    horizon: int, radius: float, norm: float, alpha: float, slack: float = 0.0, *, score_agreement: float
) -> float:
    """Theorem 2: slack / α + √(4 R² + 2 Δ) ‖w*‖ / (α √T), Δ being a bound of the mean score agreement.

    Corollary 3 is the same with Ω ≥ the mean of w_t · (φ(x, predicted) − φ(x, shown)) in place of Δ. A negative mean
    score agreement makes the bound better, down to the slack alone.
    """
    _check(horizon, radius, norm, alpha)
    root = math.sqrt(max(0.0, 4 * radius**2 + 2 * score_agreement))
    return slack / alpha + root * norm / (alpha * math.sqrt(horizon))


def approximate_regret(
    horizon: int, radius: float, norm: float, alpha: float, slack: float = 0.0, *, beta: float
) -> float:
    """Corollary 4: slack / α + β R ‖w*‖ / α + √(4 − β²) R ‖w*‖ / (α √T); the paper has a needless 2 under the root.

    For perturbations that keep, in expectation, at least 1 − β of the utility in each round.
    """
    _check(horizon, radius, norm, alpha)
    if not 0 <= beta <= 1:
        raise InvalidInput(f"beta = {beta} is a share of the utility from 0 to 1")
    transient = math.sqrt(4 - beta**2) * radius * norm / (alpha * math.sqrt(horizon))
    return slack / alpha + beta * radius * norm / alpha + transient


def three_pr_regret(
    horizon: int, radius: float, norm: float, alpha: float, slack: float = 0.0, *, swap: float
) -> float:
    """Proposition 5: Corollary 4 with β = p (1 − γ₂ / γ₁), for `3pr` with a fixed swap probability p.

    It holds where all scores w_t · φ(x, d) are non-negative.
    """
    if not 0 <= swap <= 1:
        raise InvalidInput(f"swap = {swap} is a probability from 0 to 1")
    return approximate_regret(horizon, radius, norm, alpha, slack, beta=swap * FIRST_DROP)


def dynamic_regret(
    horizon: int,
    radius: float,
    norm: float,
    alpha: float,
    slack: float = 0.0,
    *,
    budget: float = 0.0,
    non_negative: bool = True,
) -> float:
    """Propositions 6 and 7: slack / α + ‖w*‖ / (α √T) · √(4 R² + 2 Δ + 2 Γ √((4 R² + 2 Δ) / T)), for dynamic swaps.

    Δ is the `budget`, and Γ = (γ₁ − γ₂) R where the features are non-negative, 2 R otherwise. R has
    to come from `radius_of`: Γ can be too small for the least possible R.
    """
    _check(horizon, radius, norm, alpha)
    if budget < 0:
        raise InvalidInput(f"budget = {budget} must not be negative")
    change = (FIRST_DROP if non_negative else 2.0) * radius
    excess = change * math.sqrt((4 * radius**2 + 2 * budget) / horizon)
    return perturbed_regret(horizon, radius, norm, alpha, slack, score_agreement=budget + excess)


class Feedback(NamedTuple):
    """One round in the true utility: of the best ranking, of what was shown, and of the better one that came back."""

    best: float
    shown: float
    better: float


def utilities(true_weights: Floats, query: Query, shown: Ints, better: Ints) -> Feedback:
    """U(x, best), U(x, shown) and U(x, better) for U = w* · φ."""
    scores = scores_of(query.features, true_weights)
    values = [float(np.sum(discounts(len(y)) * scores[y])) for y in (ranking_of(scores), shown, better)]
    return Feedback(*values)


def slacks(rounds: Sequence[Feedback], alpha: float) -> Floats:
    """ξ_t ≥ 0 that make α-informative: U(better) = U(shown) + α (U(best) − U(shown)) − ξ_t, or more without slack."""
    best, shown, better = np.array(rounds, dtype=np.float64).reshape(-1, 3).T
    return np.maximum(0.0, alpha * (best - shown) - (better - shown))


def informativeness(rounds: Sequence[Feedback]) -> float:
    """The α for which the mean gain of the feedback is α times the mean possible gain: no slack on average."""
    best, shown, better = np.array(rounds, dtype=np.float64).reshape(-1, 3).T
    possible = float(np.sum(best - shown))
    return float(np.sum(better - shown)) / possible if possible > 0 else 1.0


def utility_regret(rounds: Sequence[Feedback]) -> float:
    """REG_T: the mean of U(best) − U(shown)."""
    return float(np.mean([turn.best - turn.shown for turn in rounds]))


def radius_of(query: Query) -> float:
    """A bound of ‖φ(x, y)‖ over all rankings: the longest rows with the largest discounts."""
    lengths = np.sort(np.sqrt(np.sum(query.features**2, axis=1)))[::-1]
    return float(np.sum(lengths * discounts(len(lengths))))


def _check(horizon: int, radius: float, norm: float, alpha: float) -> None:
    if horizon < 1 or radius < 0 or norm < 0:
        raise InvalidInput(f"horizon = {horizon} counts from 1; radius = {radius} and norm = {norm} are lengths")
    if not 0 < alpha <= 1:
        raise InvalidInput(f"alpha = {alpha} must be above 0 and at most 1")

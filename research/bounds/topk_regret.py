"""The surrogate regret of `topk_gradient`: what the theory promises, and the best weights in hindsight to compare with.

`longest` is the largest length of a feature vector (R_D), `radius` the bound U on ‖w‖, `n_items` the longest list.
Reference: Chaudhuri and Tewari (2017), Online Learning to Rank with Top-k Feedback.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of, weighted_rows
from rankloop.core.protocols import Surrogate
from rankloop.core.types import Floats
from rankloop.surrogates.pairwise import RankSVM
from rankloop.surrogates.pointwise import KL, Squared


def second_moment(surrogate: str, n_items: int, longest: float, radius: float, max_grade: float) -> float:
    """C with E‖gradient estimate‖² ≤ C / γ at floor 0 and the least depth (Lemma 29, its constants corrected).

    The printed constants of squared and kl are too small: for small weights they vanish while the grades remain.
    """
    if surrogate == "squared":
        return 4.0 * longest**2 * (n_items * longest * radius + max_grade) ** 2 * n_items**2
    if surrogate == "kl":
        return longest**2 * n_items**2 * math.exp(2.0 * max(longest * radius, max_grade))
    if surrogate == "rank_svm":
        return (longest * n_items * (n_items - 1)) ** 2
    raise InvalidInput(f"no second moment is known for {surrogate!r}; there are squared, kl and rank_svm")


class Promise(NamedTuple):
    """A bound on the expected regret, and the constant settings that keep it."""

    regret: float
    learning_rate: float
    exploration: float


def topk_gradient_regret(horizon: int, radius: float, moment: float, largest_loss: float) -> Promise:
    """Theorem 30: min over η, γ ≤ ½ of U²/(2η) + η·C·T/(2γ) + γ·B·T, which grows as T^⅔.

    `moment` is C, and `largest_loss` B the most that one exploring round can cost in surrogate loss.
    """
    gamma = min(0.5, (radius * math.sqrt(moment) / (2.0 * math.sqrt(horizon) * largest_loss)) ** (2.0 / 3.0))
    rate = radius * math.sqrt(gamma / (moment * horizon))
    descent = radius**2 / (2.0 * rate) + rate * moment * horizon / (2.0 * gamma)
    return Promise(descent + gamma * largest_loss * horizon, rate, gamma)


Round = tuple[Floats, Floats, Floats] | tuple[Floats, Floats, Floats, float]


def surrogate_regret(surrogate: Surrogate, rounds: Sequence[Round], radius: float) -> float:
    """Measured: the summed surrogate of (features, relevance, weights then, γ then) less that of the best ‖w‖ ≤ radius.

    With probability γ a round explores and plays random scores, and Theorem 30 counts what those cost; here their mean,
    `explored_value`, enters with the weight γ. Without γ nothing is explored.
    """
    total = 0.0
    for features, relevance, weights, *explored in rounds:
        gamma = explored[0] if explored else 0.0
        value = surrogate.value_and_grad(scores_of(features, weights), relevance)[0]
        total += value if gamma == 0.0 else (1.0 - gamma) * value + gamma * explored_value(surrogate, relevance)
    _, least = best_in_hindsight(surrogate, [(x, relevance) for x, relevance, *_ in rounds], radius)
    return total - least


def explored_value(surrogate: Surrogate, relevance: Floats) -> float:
    """The mean of squared, kl or rank_svm over scores that are uniform in [0, 1], as Algorithm 5 draws them."""
    if isinstance(surrogate, Squared):
        return float(np.sum(1.0 / 3.0 - relevance + relevance**2))
    if isinstance(surrogate, KL):
        return float(np.sum(np.exp(relevance) * (relevance - 1.5)) + len(relevance) * (math.e - 1.0))
    if isinstance(surrogate, RankSVM):  # 1 + s_j − s_i is never below 0 there, and 1 on average
        return float(np.sum(relevance[:, None] > relevance[None, :]))
    raise InvalidInput("the mean over random scores is known for squared, kl and rank_svm")


def best_in_hindsight(
    surrogate: Surrogate, queries: Sequence[tuple[Floats, Floats]], radius: float
) -> tuple[Floats, float]:
    """Weights with ‖w‖ ≤ radius whose summed surrogate over (features, relevance) is least, and that sum.

    For convex surrogates, by sequential quadratic programming from zero; the sum is that of the weights returned.
    """

    def loss_and_slope(weights: Floats) -> tuple[float, Floats]:
        total, slope = 0.0, np.zeros(len(weights))
        for features, relevance in queries:
            value, grad = surrogate.value_and_grad(scores_of(features, weights), relevance)
            total += value
            slope += weighted_rows(features, grad)
        return total / len(queries), slope / len(queries)

    ball = {"type": "ineq", "fun": lambda w: radius**2 - np.sum(w * w), "jac": lambda w: -2.0 * w}
    start = np.zeros(queries[0][0].shape[1])
    solution = minimize(loss_and_slope, start, jac=True, method="SLSQP", constraints=ball, options={"maxiter": 500})
    weights = np.asarray(solution.x, dtype=np.float64)
    weights *= min(1.0, radius / max(float(np.linalg.norm(weights)), 1e-300))
    return weights, loss_and_slope(weights)[0] * len(queries)

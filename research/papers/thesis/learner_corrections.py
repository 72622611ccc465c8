"""Statements on learning that cannot hold as printed: chapters II and III of Chaudhuri (2016), "Learning to rank".

Each function takes what is printed as its default, so that a corrected version can be tried in its place.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rankloop.core.registry import build
from rankloop.core.types import Floats, Ints
from rankloop.experiments.analysis.curves import number
from rankloop.experiments.analysis.verdicts import Verdict
from rankloop.measures import parse_measure
from research.bounds.fixed_items import constants
from research.bounds.perceptrons import slam_weights
from research.verdicts import MAYBE_A_SLIP, refutable

Moment = Callable[[int, float, float, float], float]
LEMMA_29 = {
    "squared": (
        "m⁴·R_D⁴·U²·R_max²",
        "A sum is bounded by a product (a + b ≤ a·b): for small weights that vanishes while the grades do not.",
    ),
    "kl": ("m²·R_D²·exp(2·R_D·U)", "|eˢ − eᴿ| is bounded by exp(R_D·U), which leaves out the grades."),
}


def lemma_29_squared(n_items: int, longest: float, radius: float, max_grade: float) -> float:
    """Return the bound of Lemma 29 for the squared loss.

    Args:
      n_items: The number of items.
      longest: The largest norm of a feature vector.
      radius: The radius of the weights.
      max_grade: The highest grade.
    """
    return n_items**4 * longest**4 * radius**2 * max_grade**2


def lemma_29_kl(n_items: int, longest: float, radius: float, max_grade: float) -> float:
    """Return the bound of Lemma 29 for the KL loss.

    Args:
      n_items: The number of items.
      longest: The largest norm of a feature vector.
      radius: The radius of the weights.
      max_grade: The highest grade.
    """
    return n_items**2 * longest**2 * math.exp(2.0 * longest * radius)


def claims() -> tuple[Verdict, ...]:
    """All of them, in the order of the thesis."""
    return (
        missing_ratio(),
        ties_by_score(),
        lower_bound(),
        yahoo(),
        perturbation(),
        stray_factor(),
        second_moment("squared", lemma_29_squared),
        second_moment("kl", lemma_29_kl),
    )


def missing_ratio(ratio_under_root: float = 1.0, comparator_loss: float = 1000.0) -> Verdict:
    """Equation 2.19 against the largest F that its proof allows, F = L + ‖w‖·√(C·F) with C = 4·m·R²·v_max."""
    weights = slam_weights(np.repeat(np.arange(5.0), 4))
    constant = 4.0 * weights.positive * weights.ratio
    allowed = ((math.sqrt(constant) + math.sqrt(constant + 4.0 * comparator_loss)) / 2.0) ** 2
    middle = math.sqrt(4.0 * weights.positive * ratio_under_root * comparator_loss)
    printed = comparator_loss + middle + constant
    return refutable(
        "The loss bound of Algorithm 2 follows from its Lemma 5",
        printed < allowed,
        f"20 items of five grades, v_max = {number(weights.ratio)}, comparator loss {number(comparator_loss)}: Lemma 5 "
        f"allows a loss of {number(allowed)}, the printed bound is {number(printed)}",
        paper="equation 2.19: the second term is √(4‖w‖²mR²)·√(Σf)",
        argument="Lemma 5 has v_max in its constant, so v_max stands under the root of the second term as well.",
    )


def ties_by_score(order: Callable[[Floats], Ints] = lambda scores: np.argsort(-scores, kind="stable")) -> Verdict:
    """SLAM's weights handed out by score inside a grade: the value at a midpoint against the mean of the ends."""
    slam = build({"kind": "slam", "within": "item_order"}, "surrogate")
    relevance, ends = np.array([1.0, 1.0, 0.0]), np.array([[2.0, 0.0, 1.5], [0.0, 2.0, 1.5]])

    def value(scores: Floats) -> float:
        items = order(scores)
        return float(slam.value_and_grad(scores[items], relevance[items])[0])

    mean, middle = (value(ends[0]) + value(ends[1])) / 2.0, value(ends.mean(axis=0))
    return refutable(
        "SLAM is convex when items of equal grade are sorted by their scores",
        middle > mean + 1e-12,
        f"grades 1, 1, 0: at scores (2, 0, 1.5) and (0, 2, 1.5) the mean is {number(mean)}, half-way it is "
        f"{number(middle)}",
        paper="proof of Theorem 8: items of the same grade are sorted according to score",
        argument="The larger weight then goes to the item with the smaller hinge, whichever it is: a maximum of the "
        "scores with a minus sign. The upper bound holds for any order that is fixed before, or for the mean weight.",
    )


def lower_bound(relevance_of_first: Callable[[Ints], int] = lambda ranking: int(ranking[0] == 0)) -> Verdict:
    """The adversary of Theorem 9: the relevance that is printed for each of the two possible rankings."""
    measure, losses = parse_measure("nDCG"), []
    for ranking in (np.array([0, 1]), np.array([1, 0])):
        first = relevance_of_first(ranking)
        losses.append(1.0 - measure(ranking, np.array([float(first), float(1 - first)])))
    return refutable(
        "The adversary of Theorem 9 makes every deterministic learner err in every round",
        min(losses) <= 0.0,
        f"loss per round {number(losses[0])} or {number(losses[1])}, by the ranking that is shown",
        paper='proof of Theorem 9: "if A ranks 1st document above 2nd, then R₁ = 1, R₂ = 0, else reversed"',
        argument="That relevance agrees with what was shown. Reversed it does not, and the theorem is right: the "
        "stream `lower_bound` plays it so.",
    )


def yahoo(ours: float = 0.75, list_net: float = 0.74) -> Verdict:
    """The sentence and its numbers."""
    return refutable(
        "On the Yahoo data Algorithm 2 performs slightly worse than ListNet",
        ours >= list_net,
        f"by the printed numbers it is {number(ours - list_net)} better",
        paper="section 2.8: slightly worse, average nDCG@10 over the last ten iterations 0.75 against 0.74",
        argument="The two numbers, or the word, are exchanged: on MSLR 0.25 against 0.22 is called slightly better.",
    )


def perturbation(power: int = 2) -> Verdict:
    """Corollary 21: how ε·R·A·K + D/ε grows with the largest gain 2ⁿ − 1 at ε = 1 / ((2ⁿ − 1)^power · √(m·K))."""
    n_items, blocks, grades = 20, 200, (7, 8)

    def bound(grade: int) -> float:
        sizes, gain = constants("DCG", n_items, grade), 2.0**grade - 1.0
        epsilon = 1.0 / (gain**power * math.sqrt(n_items * blocks))
        return epsilon * sizes.loss * sizes.gains * blocks + sizes.diameter / epsilon

    growth = math.log(bound(grades[1]) / bound(grades[0])) / math.log((2.0 ** grades[1] - 1) / (2.0 ** grades[0] - 1))
    return refutable(
        "With the printed ε the regret of DCG grows as 2ⁿ − 1 with the highest grade n",
        growth > 1.5,
        f"its bound grows as (2ⁿ − 1)^{growth:.2f}",
        paper="Corollary 21: ε = O(1 / ((2ⁿ − 1)²·√(mK))), regret O((2ⁿ − 1)·m^(4/3)·⌈m/k⌉^(1/3)·T^(2/3))",
        argument="ε = √(D / (R·A·K)) with D = m and R = A = (2ⁿ − 1)·m has 2ⁿ − 1 without the square.",
    )


def _probabilities(n_items: int, exploration: float) -> Floats:
    """The probability of each item to be first, item 0 having the highest score."""
    probabilities = np.full(n_items, exploration / n_items)
    probabilities[0] += 1.0 - exploration
    return probabilities


def _shares(kind: str | dict[str, Any], scores: Floats, relevance: Floats) -> Floats:
    """The share of the gradient that each item's grade decides, a row per item."""
    surrogate = build(kind, "surrogate")
    return np.array([surrogate.terms(scores, np.array([i]), relevance[[i]]) for i in range(len(scores))])


def _off(estimate: Floats, gradient: Floats) -> float:
    """The relative distance of an expected estimate from the gradient."""
    return float(np.linalg.norm(estimate - gradient) / np.linalg.norm(gradient))


def stray_factor(divisor: Callable[[Floats], Floats] = lambda scores: scores) -> Verdict:
    """The estimator of SmoothDCG's gradient, its expectation by enumeration of the first item."""
    scores, relevance = np.array([1.0, 0.5, 0.3, -0.2]), np.array([2.0, 1.0, 1.0, 0.0])
    probabilities = _probabilities(4, 0.5)[:, None]
    shares = _shares({"kind": "smooth_dcg", "smoothing": 1.0}, scores, relevance)
    expected = (probabilities * shares / probabilities / np.broadcast_to(divisor(scores), 4)[:, None]).sum(axis=0)
    error = _off(expected, shares.sum(axis=0))
    return refutable(
        "The printed estimator of SmoothDCG's gradient is unbiased",
        error > 1e-9,
        f"4 items, every first item enumerated: off by {100 * error:.0f} % of the gradient",
        paper="section 3.3.3.2: s(σ(1))·z̃ = …",
        argument=f"Without the factor s(σ(1)) on the left the expectation is the gradient. {MAYBE_A_SLIP}",
    )


def second_moment(kind: str, printed: Moment) -> Verdict:
    """Lemma 29 against E‖z̃‖² at w = 0, by enumeration of the first item; rows of length 1, ‖w‖ ≤ 0.1, grades of 4."""
    n_items, longest, radius, max_grade, exploration = 5, 1.0, 0.1, 4.0, 0.1
    shares = _shares(kind, np.zeros(n_items), np.full(n_items, max_grade))
    moment = float(((shares**2).sum(axis=1) / _probabilities(n_items, exploration)).sum()) * longest**2
    allowed = printed(n_items, longest, radius, max_grade) / exploration
    formula, argument = LEMMA_29[kind]
    return refutable(
        f"The second moment of the gradient estimate is below the printed constant: {kind}",
        moment > allowed,
        f"m = 5, R_D = 1, U = 0.1, R_max = 4, γ = 0.1: {number(moment)}, the printed constant allows {number(allowed)}",
        paper=f"proof of Lemma 29: {formula} / γ",
        argument=argument,
    )

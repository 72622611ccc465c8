"""How many grades have to be bought: one grade of each of many lists, or all grades of few, and which pairs to ask for.

The loss of a list is the mean over its m items of ℓ(w·x, r). `one_grade_excess` and `all_grades_excess` bound the
excess risk after N grades; `selective_run` asks for the order of a pair only when it is unsure. docs/theory/further.md
has the proofs.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats


def one_grade_excess(slope: float, radius: float, longest: float, n_grades: int) -> float:
    """Return g·W·R·√(2/N): averaged gradient descent with one random grade of each list.

    Args:
      slope: g, the largest |ℓ′|.
      radius: W, of the ball of weights.
      longest: R, the length of the longest row.
      n_grades: N.
    """
    if min(slope, radius, longest) < 0.0 or n_grades < 1:
        raise InvalidInput("slope, radius and longest are at least 0, n_grades is at least 1")
    return slope * radius * longest * math.sqrt(2.0 / n_grades)


def all_grades_excess(slope: float, radius: float, longest: float, n_grades: int, n_items: int) -> float:
    """Return g·W·R·√(2m/N): Theorem 35 with all m grades of each of N/m lists.

    Args:
      slope: g, the largest |ℓ′|.
      radius: W, of the ball of weights.
      longest: R, the length of the longest row.
      n_grades: N.
      n_items: m.
    """
    return one_grade_excess(slope, radius, longest, n_grades) * math.sqrt(n_items)


class Lists(NamedTuple):
    """Lists of equal length."""

    features: Floats  # (n_lists, n_items, n_features)
    grades: Floats  # (n_lists, n_items)


def averaged_descent(lists: Lists, radius: float, one_grade: bool, rng: Generator) -> Floats:
    """Return the mean weights of gradient descent in a ball on logistic losses of grades 0 and 1, one list per step.

    Args:
      lists: The lists.
      radius: Of the ball.
      one_grade: True for the grade of one random item of each list, else for all grades.
      rng: Draws the items.
    """
    n_lists, n_items, n_features = lists.features.shape
    longest = float(np.sqrt((lists.features**2).sum(axis=2).max()))
    weights, total = np.zeros(n_features), np.zeros(n_features)
    rate = radius / (longest * math.sqrt(2.0 * n_lists))
    for rows, grades in zip(lists.features, lists.grades):
        total += weights
        if one_grade:
            item = int(rng.integers(n_items))
            rows, grades = rows[item : item + 1], grades[item : item + 1]
        signs = 2.0 * grades - 1.0
        slopes = -signs / (1.0 + np.exp(signs * (rows @ weights)))
        weights = weights - rate * (slopes @ rows) / len(rows)
        weights *= min(1.0, radius / max(float(np.linalg.norm(weights)), 1e-300))
    return np.asarray(total / n_lists)


def logistic_risk(lists: Lists, weights: Floats) -> float:
    """Return the mean of ln(1 + e^−margin) over all items of all lists."""
    margins = (2.0 * lists.grades - 1.0) * (lists.features @ weights)
    return float(np.logaddexp(0.0, -margins).mean())


class Selective(NamedTuple):
    """Mistakes on all pairs, and the number of pairs whose order was asked for."""

    mistakes: int
    n_requests: int


def selective_run(pairs: Iterable[Floats], hesitation: float, rng: Generator) -> Selective:
    """Run a perceptron that asks for the order of a pair with probability b/(b + |w·z|), and learns if it erred.

    Args:
      pairs: Differences z of features, the better item first; the learner sees z or −z.
      hesitation: b. With b = max ‖z‖²/2 the expected mistakes are at most max ‖z‖²·‖u‖² for every u with u·z ≥ 1.
      rng: Draws which pairs are asked for.

    References:
      Cesa-Bianchi, Gentile and Zaniboni (2006), Worst-Case Analysis of Selective Sampling, Theorem 1.
    """
    weights: Floats | float = 0.0
    mistakes = n_requests = 0
    for z in pairs:
        margin = float(np.sum(weights * z))
        mistakes += margin <= 0.0
        if rng.random() < hesitation / (hesitation + abs(margin)):
            n_requests += 1
            if margin <= 0.0:
                weights = weights + z
    return Selective(mistakes, n_requests)

"""A bound that is known in advance for a kernel perceptron on a budget: stored pairs are removed at random.

On a mistake the learner adds z = K(x_i, ·) − K(x_j, ·) of a pair that it ranks wrongly, ⟨w, z⟩ ≤ 0; when N pairs are
stored, one of them, drawn uniformly, is removed before. The proof is in docs/theory/budget.md.
"""

from collections.abc import Iterable

import numpy as np
from numpy.random import Generator

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats


def random_budget_mistakes(norm: float, constant: float, budget: int, comparator_loss: float = 0.0) -> float:
    """Return 2·(C·‖u‖² + L) / (1 − C·‖u‖²/N), the most mistakes in expectation; infinite unless N > C·‖u‖².

    Args:
      norm: ‖u‖ of the comparator.
      constant: C, the largest ‖z‖²; 4·max K(x, x) will do.
      budget: N, the number of stored pairs.
      comparator_loss: L, the expected sum of max(0, 1 − ⟨u, z⟩) over the mistakes.
    """
    if norm < 0.0 or constant <= 0.0 or budget < 1 or comparator_loss < 0.0:
        raise InvalidInput("norm and comparator_loss are at least 0, constant is above 0, budget is at least 1")
    used = constant * norm**2
    return 2.0 * (used + comparator_loss) / (1.0 - used / budget) if budget > used else float("inf")


def random_budget_run(pairs: Iterable[Floats], budget: int, rng: Generator) -> int:
    """Return the mistakes on pairs, each given as z in a feature space with the better item first.

    Args:
      pairs: The differences z.
      budget: The number of stored pairs.
      rng: Draws the pair that is removed.
    """
    stored: list[Floats] = []
    mistakes = 0
    for z in pairs:
        if float(sum((each @ z for each in stored), np.float64(0.0))) > 0.0:
            continue
        mistakes += 1
        if len(stored) == budget:
            stored.pop(int(rng.integers(budget)))
        stored.append(z)
    return mistakes


def expected_drift(stored: Floats, z: Floats, u: Floats, weight: float) -> float:
    """Return E‖w′ − a·u‖² − ‖w − a·u‖² over the removed pair, by enumeration.

    Args:
      stored: The stored pairs, one per row; all places are taken.
      z: The pair that is added.
      u: The comparator.
      weight: a.
    """
    target = weight * u
    w = stored.sum(axis=0)
    after = [w - each + z - target for each in stored]
    return float(np.mean([vector @ vector for vector in after]) - (w - target) @ (w - target))

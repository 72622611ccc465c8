"""A surrogate that is calibrated for nDCG and can be learned from m − 1 of m grades 0 and 1.

The loss is Σ_{i<j} (s_i − s_j − h_ij)², h_ij = (r_i − r_j)/Z, Z the ideal DCG. The proof is in
docs/theory/calibration.md.
"""

from itertools import combinations

import numpy as np

from rankloop.core.kernels import discount
from rankloop.core.types import Floats


def pair_targets(relevance: Floats) -> Floats:
    """Return h_ij = (r_i − r_j)/Z as a matrix; 0 where nothing is relevant."""
    ideal = sum(discount(position) for position in range(int(relevance.sum())))
    targets: Floats = np.subtract.outer(relevance, relevance) / (ideal or 1.0)
    return targets


def pair_gradient(scores: Floats, targets: Floats) -> Floats:
    """Return the gradient, 2·Σ_j (s_i − s_j − h_ij) for item i.

    Args:
      scores: The scores s.
      targets: The matrix h, or an estimate of it.
    """
    gradient: Floats = 2.0 * (np.subtract.outer(scores, scores) - targets).sum(axis=1)
    return gradient


def estimated_targets(seen: Floats, last: int, probability: float) -> Floats:
    """Return the estimate of h from the grades of all items but the last one of the ranking.

    Args:
      seen: The grades; that of `last` is not used.
      last: The item whose grade is not revealed.
      probability: The probability that this item is last.
    """
    revealed = np.where(np.arange(len(seen)) == last, 0.0, seen)
    estimate = np.zeros((len(seen), len(seen)))
    # With item j unseen, r_i·λ(1 + relevant others) is known: 0, or for r_i = 1 the 1/Z of what is seen.
    ideal = sum(discount(position) for position in range(int(revealed.sum())))
    column = revealed / (ideal or 1.0) / probability
    estimate[:, last] += column
    estimate[last, :] -= column
    return estimate


def expected_minimiser(relevances: Floats, probabilities: Floats) -> Floats:
    """Return scores that minimise the expected loss: E[r_i/Z], which solves the normal equations up to a constant.

    Args:
      relevances: One vector of grades 0 and 1 per row.
      probabilities: The probability of each row.
    """
    n_items = relevances.shape[1]
    targets = np.tensordot(probabilities, np.array([pair_targets(row) for row in relevances]), axes=1)
    pairs = list(combinations(range(n_items), 2))
    rows = np.zeros((len(pairs), n_items))
    for row, (i, j) in zip(rows, pairs):
        row[i], row[j] = 1.0, -1.0
    solution: Floats = np.linalg.lstsq(rows, np.array([targets[i, j] for i, j in pairs]), rcond=None)[0]
    return solution

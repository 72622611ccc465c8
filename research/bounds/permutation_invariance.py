"""Why a ranker has one weight per feature: the linear scoring functions that do not care how the items are numbered.

A linear map from m items with d features to m scores has m²·d numbers: score i is ⟨X, W_i⟩. If the scores only change
places when the items do, 2d are left, X·w + (1ᵀ·X·v)·1, and v adds the same to every score, so that d decide the order.
Reference: Chaudhuri (2016), Learning to Rank, Theorem 33.
"""

from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats


class InvariantScores(NamedTuple):
    """X ↦ X·w + (1ᵀ·X·v)·1; with one item, w and v cannot be told apart, and v is 0."""

    w: Floats
    v: Floats

    def __call__(self, features: Floats) -> Floats:
        """Return the scores of the items."""
        scores: Floats = features @ self.w + features.sum(axis=0) @ self.v
        return scores

    def maps(self, n_items: int) -> Floats:
        """Return the scores as maps W_1, …, W_m: u = w + v in row i of W_i, u′ = v in all others."""
        return np.eye(n_items)[:, :, None] * self.w + np.tile(self.v, (n_items, n_items, 1))


def nearest_invariant(maps: Floats) -> InvariantScores:
    """The invariant scores nearest to the linear map W, (m, m, d): its mean over all m! ways to number the items.

    That mean has one row u for the item itself, the mean of W_i[i], and one u′ for all others, the mean of W_i[j].
    """
    table = np.asarray(maps, dtype=np.float64)
    if table.ndim != 3 or table.shape[0] != table.shape[1] or table.shape[0] == 0 or not np.isfinite(table).all():
        raise InvalidInput(f"a linear map of items to scores is (m, m, d) finite numbers, not {table.shape}")
    n_items = len(table)
    diagonal = np.einsum("iid->d", table) / n_items
    if n_items == 1:
        return InvariantScores(diagonal, np.zeros(table.shape[2]))
    other = (table.sum(axis=(0, 1)) - n_items * diagonal) / (n_items * (n_items - 1))
    return InvariantScores(diagonal - other, other)


def invariant_dimension(n_items: int, n_features: int) -> int:
    """Return the dimension of the linear maps that are equal under every exchange of neighbouring items.

    Args:
      n_items: The number of items.
      n_features: The number of features.
    """
    if n_items < 1 or n_features < 1:
        raise InvalidInput(f"there must be an item and a feature, got {n_items} and {n_features}")
    identity, conditions = np.eye(n_items * n_items), [np.zeros((1, n_items * n_items))]
    for first in range(n_items - 1):
        order = np.arange(n_items)
        order[[first, first + 1]] = order[[first + 1, first]]
        exchanged = np.kron(np.eye(n_items)[order], np.eye(n_items)[order])  # W_i[j] → W_π(i)[π(j)]
        conditions.append(exchanged - identity)
    rank = int(np.linalg.matrix_rank(np.vstack(conditions)))
    return n_features * (n_items * n_items - rank)

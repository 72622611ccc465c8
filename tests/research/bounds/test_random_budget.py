"""The bound for random removal: its drift by enumeration, its consequence by runs, and where it says nothing."""

import math

import numpy as np
import pytest
from numpy.random import default_rng

from rankloop.core.errors import InvalidInput
from research.bounds.random_budget import expected_drift, random_budget_mistakes, random_budget_run


def test_the_bound_by_arithmetic():
    assert random_budget_mistakes(2.0, 4.0, 32, 3.0) == pytest.approx(2 * (16 + 3) / (1 - 0.5))
    assert math.isinf(random_budget_mistakes(2.0, 4.0, 16))
    with pytest.raises(InvalidInput):
        random_budget_mistakes(-1.0, 4.0, 16)


def test_the_expected_drift_is_below_what_the_proof_says():
    """E[D' − D] ≤ 2C + a²‖u‖²/(2N) − 2a·⟨u, z⟩ for every state and every z with ⟨w, z⟩ ≤ 0; attained up to a third."""
    rng, closest = default_rng(0), -np.inf
    for _ in range(3000):
        budget, n_features = int(rng.integers(1, 7)), int(rng.integers(1, 4))
        stored = rng.normal(size=(budget, n_features)) * rng.choice([0.1, 1.0, 3.0])
        z, u, weight = rng.normal(size=n_features), rng.normal(size=n_features), 3.0 * rng.random()
        z = -z if stored.sum(axis=0) @ z > 0.0 else z
        constant = max(float((stored**2).sum(axis=1).max()), float(z @ z))
        bound = 2 * constant + weight**2 * (u @ u) / (2 * budget) - 2 * weight * (u @ z)
        slack = (expected_drift(stored, z, u, weight) - bound) / constant
        assert slack <= 1e-9
        closest = max(closest, slack)
    assert closest > -1 / 3


def test_mistakes_stay_below_the_bound():
    """Pairs that a unit vector separates with a margin, and few places."""
    rng = default_rng(1)
    direction = np.eye(6)[0]
    z = rng.normal(size=(4000, 6))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    z *= np.sign(z @ direction)[:, None]
    z = z[z @ direction > 0.3]
    norm, budget = 1.0 / 0.3, 16
    assert budget > norm**2
    mistakes = [random_budget_run(z, budget, default_rng(seed)) for seed in range(40)]
    assert np.mean(mistakes) <= random_budget_mistakes(norm, 1.0, budget)
    assert min(mistakes) > 2


def test_mistakes_stay_below_the_bound_if_no_comparator_is_perfect():
    """A tenth of the pairs are the wrong way round; L is the loss of the comparator over the mistakes of each run."""
    rng, margin, budget = default_rng(2), 0.5, 12
    z = rng.normal(size=(600, 4))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    z *= np.sign(z[:, :1])
    z = z[z[:, 0] > margin]
    z[rng.random(len(z)) < 0.1] *= -1.0
    losses = np.maximum(0.0, 1.0 - z[:, 0] / margin)
    totals = []
    for seed in range(40):
        # A run on the first pairs has the mistakes of the full run there: so differences are the mistakes of each pair.
        counts = [random_budget_run(z[:length], budget, default_rng(seed)) for length in range(len(z) + 1)]
        totals.append((counts[-1], losses[np.flatnonzero(np.diff(counts))].sum()))
    mistakes, lost = np.mean(totals, axis=0)
    assert lost > 1.0
    assert mistakes <= random_budget_mistakes(1.0 / margin, 1.0, budget, lost)
    assert mistakes > random_budget_mistakes(1.0 / margin, 1.0, budget)  # without L the bound would be wrong


def test_with_too_few_places_mistakes_never_end():
    """n orthonormal pairs in turn: C·‖u‖² = n, and with fewer places than n every pass costs mistakes for ever."""
    n = 12
    passes = [random_budget_run(list(np.eye(n)) * count, n - 1, default_rng(0)) for count in (50, 100)]
    assert passes[1] > passes[0] + 50
    assert random_budget_run(list(np.eye(n)) * 50, n, default_rng(0)) == n
    assert math.isinf(random_budget_mistakes(math.sqrt(n), 1.0, n - 1))

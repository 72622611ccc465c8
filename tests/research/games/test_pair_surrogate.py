"""The antisymmetric pair loss: unbiased from m − 1 grades by enumeration, and calibrated for nDCG by brute force."""

from itertools import permutations, product

import numpy as np
import pytest
from numpy.random import default_rng

from rankloop.measures.base import parse_measure
from research.games.pair_surrogate import estimated_targets, expected_minimiser, pair_gradient, pair_targets


@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_the_estimate_from_all_grades_but_one_is_unbiased(m):
    """Summed over the item that stands last; its own grade is replaced by nonsense and must not matter."""
    rng = default_rng(m)
    for relevance in product((0.0, 1.0), repeat=m):
        relevance, scores, last_is = np.array(relevance), rng.normal(size=m), rng.dirichlet(np.ones(m))
        mean = np.zeros(m)
        for last in range(m):
            hidden = relevance.copy()
            hidden[last] = 77.0
            mean += last_is[last] * pair_gradient(scores, estimated_targets(hidden, last, last_is[last]))
        np.testing.assert_allclose(mean, pair_gradient(scores, pair_targets(relevance)), atol=1e-12)


def test_the_second_moment_grows_as_one_over_the_exploration():
    """Step 4: where the last item has the probability γ/m, the mean squared length of the estimate is at most c/γ."""
    scores, relevance, scaled = np.array([0.3, -1.0, 0.8, 0.1]), np.array([1.0, 0.0, 1.0, 0.0]), []
    for exploration in (0.5, 0.05, 0.005, 0.0005):
        last_is = np.full(4, exploration / 4)
        last_is[0] = 1.0 - 3 * exploration / 4
        lengths = [np.sum(pair_gradient(scores, estimated_targets(relevance, i, last_is[i])) ** 2) for i in range(4)]
        scaled.append(exploration * float(last_is @ lengths))
    assert max(scaled) <= 2.0 * scaled[0]
    assert scaled[-1] > 0.1 * scaled[0]  # 1/γ is reached


def test_scores_in_another_order_are_bounded_away():
    """Step 1: where s_i ≤ s_j although i is worth more by d, the expected loss is at least d² above the least."""
    rng = default_rng(0)
    relevances = np.array(list(product((0.0, 1.0), repeat=3)))
    targets = np.array([pair_targets(row) for row in relevances])
    for _ in range(50):
        mean = np.tensordot(rng.dirichlet(np.full(len(relevances), 0.3)), targets, axes=1)
        scores = rng.normal(size=3)
        excess = sum((scores[i] - scores[j] - mean[i, j]) ** 2 for i in range(3) for j in range(i))
        wrong = [mean[i, j] for i, j in permutations(range(3), 2) if mean[i, j] > 0.0 and scores[i] <= scores[j]]
        assert excess >= max(wrong, default=0.0) ** 2 - 1e-12


def test_the_gradient_is_that_of_the_loss():
    scores, targets = np.array([0.3, -1.0, 0.8]), pair_targets(np.array([1.0, 0.0, 1.0]))

    def loss(s):
        return sum((s[i] - s[j] - targets[i, j]) ** 2 for i in range(3) for j in range(i))

    step = 1e-6 * np.eye(3)
    slopes = [(loss(scores + each) - loss(scores - each)) / 2e-6 for each in step]
    np.testing.assert_allclose(pair_gradient(scores, targets), slopes, rtol=1e-6)


@pytest.mark.parametrize("m", [3, 4])
def test_the_least_expected_loss_sorts_as_expected_ndcg_wants(m):
    rng, ndcg = default_rng(m), parse_measure("nDCG(empty='zero')")
    relevances = np.array(list(product((0.0, 1.0), repeat=m)))
    for _ in range(30):
        probabilities = rng.dirichlet(np.full(len(relevances), 0.3))
        scores = expected_minimiser(relevances, probabilities)
        values = {
            order: sum(p * ndcg(np.array(order), row) for p, row in zip(probabilities, relevances))
            for order in permutations(range(m))
        }
        assert values[tuple(np.argsort(-scores))] == pytest.approx(max(values.values()), abs=1e-9)

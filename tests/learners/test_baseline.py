"""Learners that learn nothing."""

import itertools
import math

import numpy as np
import pytest
from numpy.random import default_rng

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.types import Problem, Query


def test_fixed_weights_rank_by_their_weights():
    learner = build({"kind": "fixed_weights", "weights": [1, -2]})
    state = learner.init(Problem(n_features=2))
    query = Query.of([[1.0, 1.0], [0.0, 0.0], [3.0, 1.0]])  # scores −1, 0, 1
    assert learner.predict(state, query).tolist() == [2, 1, 0]
    assert learner.rank(state, query, default_rng(0)).ranking.tolist() == [2, 1, 0]
    assert learner.log_prob(state, query, np.array([2, 1, 0])) == 0.0
    assert learner.log_prob(state, query, np.array([1, 2, 0])) == -math.inf


def test_fixed_weights_have_to_fit_the_features():
    with pytest.raises(InvalidInput, match="2 weights for 3 features"):
        build("fixed_weights(weights=[1.0, 2.0])").init(Problem(n_features=3))
    with pytest.raises(InvalidInput, match=r"weights\[0\]"):
        build("fixed_weights(weights=[nan])")


@pytest.mark.parametrize(("shown", "orders"), [(None, 5 * 4 * 3 * 2 * 1), (2, 5 * 4), (1, 5), (9, 120)])
def test_random_order_gives_every_seen_order_the_same_probability(shown: int | None, orders: int):
    learner = build("random_order")
    state = learner.init(Problem(n_features=0, shown=shown))
    query = Query.of(np.empty((5, 0)))
    assert learner.log_prob(state, query, np.arange(5)) == pytest.approx(-math.log(orders))
    assert learner.rank(state, query, default_rng(0)).log_propensity == pytest.approx(-math.log(orders))


def test_random_order_puts_every_item_everywhere():
    learner, rng, n_draws = build("random_order"), default_rng(0), 4000
    state, query = learner.init(Problem(n_features=0)), Query.of(np.empty((4, 0)))
    counts = np.zeros((4, 4))
    for _ in range(n_draws):
        counts[np.arange(4), learner.rank(state, query, rng).ranking] += 1
    error = math.sqrt(1 / 4 * 3 / 4 / n_draws)
    assert np.abs(counts / n_draws - 1 / 4).max() < 5 * error


def test_a_random_order_is_uniform_and_takes_one_double_per_item():
    used, fresh = default_rng(1), default_rng(1)
    learner, query = build("random_order"), Query.of(np.empty((3, 0)))
    state, counts = learner.init(Problem(n_features=0)), dict.fromkeys(itertools.permutations(range(3)), 0)
    n = 6000
    for _ in range(n):
        counts[tuple(learner.rank(state, query, used).ranking.tolist())] += 1
    fresh.random(3 * n)
    assert used.random() == fresh.random()
    standard_error = np.sqrt(n * (1 / 6) * (5 / 6))
    assert max(abs(count - n / 6) for count in counts.values()) < 4 * standard_error
